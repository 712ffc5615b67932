"""Items: search, text, history, differences, and duplicates in other sources."""

from __future__ import annotations

import difflib
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Unpack
from urllib.parse import quote

from rowen.errors import Hint, NotFoundError, UsageError, action
from rowen.model.access import Scope
from rowen.model.changes import DiffForm, FieldDiff, ItemDiff, differences, hunks_of
from rowen.model.datasets import TwinGroup, page_mark
from rowen.model.hashes import Hash
from rowen.model.items import Case, Entry, ItemDetail, ItemLine, Revision
from rowen.model.passages import within
from rowen.model.search import Answer, Query, plain
from rowen.model.sources import one_or_more
from rowen.model.url import Address, key, path_url
from rowen.operations.operation import ResourceGroup, operation
from rowen.operations.paging import Page, as_key, as_moment, as_number, as_score, as_text, decoded, encoded, page_of
from rowen.operations.search import QuestionVector, QuestionVectors, Start, answer, filters_of, plain_filters
from rowen.store import library, status
from rowen.store import sources as source_store
from rowen.store.database import Connection
from rowen.store.items import duplicates
from rowen.store.search import embeddings
from rowen.store.search import search as store_search
from rowen.store.search import words as store_words

if TYPE_CHECKING:
    from typing import Annotated

    from msgspec import Meta

    from rowen.operations.parameters import (
        After,
        CharacterBudget,
        ItemUrl,
        ItemUrls,
        Limit,
        OnlySource,
        OnlySources,
        PackageVersion,
        RevisionNumber,
        SchemaName,
        SearchFilters,
        SearchSize,
        SearchWords,
        SourceName,
    )

# The dozen rarest words distinguish an item; more words found the same items, but slower.
TELLING_WORDS = 12
# Sorting this number of items takes some milliseconds; sorting a million would take a second.
MOST_SORTED = 5_000


class Items(ResourceGroup):
    """Items."""

    def _prepare(self) -> None:
        self._questions = QuestionVectors(self._engine)

    @operation(scope=Scope.READ)
    async def get(self, url: ItemUrl, *, source: OnlySource | None = None) -> Entry:
        """Return one item by its URL or the path of its file; the last copy if it was deleted recently.

        The landing page of a dataset, a path within a source, and the name of a source with one item work as well.
        """
        async with self._database.connection() as c:
            entries = await library.entries(c, key_of(url))
            if not entries and "#" in url:
                # A search result links to a passage; without the anchor, the link names the file.
                entries = await library.entries(c, key_of(url.rpartition("#")[0]))
            entries = [entry for entry in entries if source in (None, entry.source)]
            if not entries:
                copies = await library.withdrawn_entries(c, key_of(url), days=self._settings.withdrawn_kept_days)
                entries = [entry for entry in copies if source in (None, entry.source)]
            if not entries:
                entries = [entry for entry in await _named(c, url) if source in (None, entry.source)]
        if not entries:
            raise NotFoundError(
                f"Nothing is held of {url!r}.", hint=Hint(action("search"), " finds items by their words.")
            )
        return entries[0]

    @operation(scope=Scope.READ)
    async def last_checked(self, urls: ItemUrls) -> dict[tuple[str, str], datetime]:
        """Return when items were last checked, by source and URL, in one query."""
        async with self._database.connection() as c:
            return await library.check_times(c, [key_of(url) for url in urls])

    @operation(scope=Scope.READ)
    async def duplicates(self, url: ItemUrl, *, source: OnlySource | None = None) -> TwinGroup | None:
        """Return the same dataset in other sources, and the original; None if no other source has it."""
        entry = await self.get(url, source=source)
        async with self._database.connection() as c:
            return (await duplicates.groups(c, [entry.id])).get(entry.id)

    @operation(scope=Scope.READ)
    async def detail(self, url: ItemUrl, *, source: OnlySource | None = None) -> ItemDetail:
        """Return the validators and passages of an item; nothing for a withdrawn one."""
        entry = await self.get(url, source=source)
        async with self._database.connection() as c:
            return ItemDetail() if entry.withdrawn_at is not None else await status.detail(c, entry.id)

    @operation(scope=Scope.READ)
    async def history(self, url: ItemUrl, *, source: OnlySource | None = None) -> list[Revision]:
        """List all texts of an item, oldest first."""
        entry = await self.get(url, source=source)
        async with self._database.connection() as c:
            if entry.withdrawn_at is not None:
                return await library.withdrawn_revisions(c, entry.id)
            return await library.revisions(c, entry.id)

    @operation(scope=Scope.READ)
    async def diff(
        self,
        url: ItemUrl,
        *,
        source: OnlySource | None = None,
        older: RevisionNumber | None = None,
        newer: RevisionNumber | None = None,
        form: Annotated[DiffForm, Meta(description="Format of the difference.")] = "unified",
    ) -> str:
        """Return the difference of two texts of an item, by default the last two, as a unified diff or HTML."""
        if form == "html":
            return self._client.feeds.diff_as_html(await self.compare(url, source=source, older=older, newer=newer))
        before, after = _two(url, await self.history(url, source=source), older, newer)
        lines = difflib.unified_diff(
            before.text.splitlines(),
            after.text.splitlines(),
            f"revision {before.number}",
            f"revision {after.number}",
            lineterm="",
        )
        return "\n".join(lines)

    @operation(scope=Scope.READ)
    async def compare(
        self,
        url: ItemUrl,
        *,
        source: OnlySource | None = None,
        older: RevisionNumber | None = None,
        newer: RevisionNumber | None = None,
    ) -> ItemDiff:
        """Compare two texts of an item by line and word, with title and tags."""
        entry = await self.get(url, source=source)
        before, after = _two(url, await self.history(url, source=source), older, newer)
        return ItemDiff(
            entry.url,
            entry.source,
            before.number,
            after.number,
            (before.title, after.title),
            tuple(sorted(set(after.tags) - set(before.tags))),
            tuple(sorted(set(before.tags) - set(after.tags))),
            hunks_of(before.text, after.text),
        )

    @operation(scope=Scope.READ)
    async def search(
        self,
        words: SearchWords,
        *,
        sources: OnlySources | None = None,
        version: PackageVersion | None = None,
        limit: SearchSize = 10,
        budget: CharacterBudget | None = None,
        meaning: Annotated[bool, Meta(description="Rank by meaning as well as by words.")] = True,
        after: After | None = None,
        **narrowing: Unpack[SearchFilters],
    ) -> Answer:
        """Return the items that answer best, each with its best passages.

        Quoted phrases are required, `-words` excluded, `word*` matches beginnings. With a version, such as `2.x`, only
        sources that have one are searched: of each package the highest match. `budget` limits the characters of all
        passages together. `after` is the `next` of the previous answer.
        """
        sources = one_or_more(sources) or None
        query = Query.parse(words)
        if not query:
            return Answer(notes=("There is no word to search for.",) if words.strip() else ())
        listing = ["search", words, sorted(sources or ()), version, meaning, limit, plain_filters(narrowing)]
        start = Start.of(decoded(after, listing, as_score, as_number, rest=as_text))
        began = time.perf_counter()
        question = await self._questions.vector_of(plain(words)) if meaning else QuestionVector(None)
        question_s = time.perf_counter() - began
        async with self._database.connection() as c:
            filters = await filters_of(c, sources, version, narrowing)
            result, rest = await answer(c, query, question, filters=filters, limit=limit, start=start)
        explanation = {**result.explanation, "question_ms": round(question_s * 1000, 1)}
        result = replace(result, next=encoded(listing, rest) if rest else None, explanation=explanation)
        return result if budget is None else replace(result, hits=within(result.hits, budget))

    @operation(scope=Scope.READ)
    async def similar(
        self,
        url: ItemUrl,
        *,
        source: OnlySource | None = None,
        sources: OnlySources | None = None,
        limit: SearchSize = 10,
        budget: CharacterBudget | None = None,
        **narrowing: Unpack[SearchFilters],
    ) -> Answer:
        """Return the items that are most similar to a stored one, by meaning and by its rarest words."""
        entry = await self.get(url, source=source)
        if entry.withdrawn_at is not None:
            raise NotFoundError(f"{url!r} was withdrawn: only what is still held can be compared.")
        async with self._database.connection() as c:
            query = Query(lexemes=tuple(await store_words.characteristic_words(c, entry.id, limit=TELLING_WORDS)))
            model = await embeddings.active(c)
            vector = await store_search.item_vector(c, entry.id, model.id) if model is not None else None
            filters = replace(await filters_of(c, one_or_more(sources) or None, None, narrowing), without_item=entry.id)
            result, _ = await answer(c, query, QuestionVector(vector, model), filters=filters, limit=limit)
        hits = tuple(hit for hit in result.hits if hit.url != entry.url)
        return replace(result, hits=hits if budget is None else within(hits, budget))

    @operation(scope=Scope.READ)
    async def compare_fields(
        self, url: ItemUrl, *, source: OnlySource | None = None, schema: SchemaName | None = None
    ) -> FieldDiff:
        """Return the fields that the last change of an item's record, or of its facts under a schema, changed."""
        if schema is not None:
            versions = await self._client.extraction.history(url, schema, source=source)
            last, earlier = versions[-1], versions[-2].at if len(versions) > 1 else None
            return FieldDiff(last.url, last.source, last.schema, earlier, last.at, last.diff)
        entry = await self.get(url, source=source)
        async with self._database.connection() as c:
            before = await library.superseded_record(c, entry.id) if entry.withdrawn_at is None else None
        if before is None:
            raise NotFoundError(
                f"No earlier record of {url!r} is kept: it did not change since it was first read, or too long ago."
            )
        record, at = before
        changed = tuple(differences(dict(record), dict(entry.record)))
        return FieldDiff(entry.url, entry.source, "record", at, entry.updated_at, changed)

    @operation(scope=None)
    async def diff_fields(
        self,
        url: ItemUrl,
        *,
        source: OnlySource | None = None,
        schema: SchemaName | None = None,
        form: Annotated[DiffForm, Meta(description="Format of the difference.")] = "unified",
    ) -> str:
        """Return the same as text, one line per field, or as HTML."""
        diff = await self.compare_fields(url, source=source, schema=schema)
        return self._client.feeds.fields_as_text(diff, form)

    @operation(scope=Scope.READ)
    async def browse(
        self, source: SourceName, *, limit: Limit = 50, after: After | None = None, **narrowing: Unpack[SearchFilters]
    ) -> Page[ItemLine]:
        """List the items of a source by URL; those of a very large source in internal order."""
        counts = await self._client.sources.counts.items()
        async with self._database.connection() as c:
            filters = await filters_of(c, [source], None, narrowing)
            by_url = sum(counts.get(source_id, 0) for source_id in filters.source_ids or ()) <= MOST_SORTED
            listing = ["items" if by_url else "items by key", source, plain_filters(narrowing)]
            place = decoded(after, listing, as_text if by_url else as_key)
            lines = await store_search.browse(
                c, filters, by_url=by_url, after=place[0] if place else None, limit=limit + 1
            )
        return page_of(lines, limit, listing, lambda line: [line.place])

    @operation(scope=Scope.READ)
    async def count(self, source_id: Annotated[int, Meta(ge=1, description="Number of the source.")]) -> int:
        """Return the number of items of a source."""
        return (await self._client.sources.counts.items()).get(source_id, 0)

    @operation(scope=Scope.READ)
    async def quarantine(
        self, source: OnlySource | None = None, *, limit: Limit = 100, after: After | None = None
    ) -> Page[Case]:
        """List items that could not be read, with the reasons, newest first."""
        listing = ["quarantine", source]
        place = decoded(after, listing, as_moment, as_text, as_text)
        start = (place[0], place[1], place[2]) if place else None
        async with self._database.connection() as c:
            if source is not None:
                await source_store.need(c, source)
            cases = await library.quarantine_cases(c, source=source, limit=limit + 1, after=start)
        return page_of(cases, limit, listing, lambda case: [case.last_at.isoformat(), case.url, case.source])


async def _named(c: Connection, name: str) -> list[Entry]:
    """Return the items of a landing page, of a source with one item, or at a path within a source."""
    if Address.of(name).is_web:
        mark = page_mark(name)
        return await library.at_page(c, mark) if mark is not None else []
    if entries := await library.first_of_source(c, name):
        if len(entries) > 1:
            raise UsageError(
                f"{name!r} is a source with more than one item.",
                hint=Hint(action("search", source=name), " finds one of them by its words."),
            )
        return entries
    keys: list[Hash] = []
    for source, url in (await library.source_urls(c)).items():
        # The path may begin with the name of the source.
        for path in {name, name.removeprefix(f"{source}/")}:
            with suppress(ValueError):
                keys.append(key(f"{url.rstrip('/')}/{quote(path)}"))
    entries = await library.entries(c, *keys)
    if len({entry.url for entry in entries}) > 1:
        raise UsageError(f"{name!r} may be {' or '.join(entry.url for entry in entries[:3])}: say which.")
    return entries


def _two(url: str, history: Sequence[Revision], older: int | None, newer: int | None) -> tuple[Revision, Revision]:
    """Return two revisions, by default the last two; before the first revision there is an empty one."""
    texts = {revision.number: revision for revision in history}
    newer = max(texts) if newer is None else newer
    older = newer - 1 if older is None else older
    if newer not in texts or (older not in texts and older != 0):
        raise NotFoundError(f"Revision {older} or {newer} of {url!r} is not kept; there are {sorted(texts)}.")
    return texts.get(older) or Revision(0, texts[newer].at, "", "", []), texts[newer]


def key_of(url: str) -> Hash:
    """Return the key of an item from its URL or the path of its file."""
    place = Address.of(url)
    if not place.scheme:
        return key(path_url(url))
    try:
        return key(place.text)
    except ValueError:
        raise UsageError(f"{url!r} is neither a URL nor a path.") from None
