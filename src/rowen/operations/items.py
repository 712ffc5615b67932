"""Single items: their text, their history, the same thing in other sources."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from urllib.parse import quote

from rowen.errors import Hint, NotFoundError, UsageError, action
from rowen.harvest.engine import Engine
from rowen.model.changes import DiffForm, ItemDiff, hunks_of
from rowen.model.datasets import TwinGroup, page_mark
from rowen.model.hashes import Hash
from rowen.model.items import Entry, ItemDetail, Revision
from rowen.model.url import Address, key, path_url
from rowen.store import library, status
from rowen.store.database import Connection
from rowen.store.items import duplicates as twin_store

__all__ = ["Items", "diff_of", "key_of"]


class Items:
    """Looking at single items."""

    def __init__(self, engine: Engine) -> None:
        self._database = engine.database
        self._withdrawn_days = engine.settings.withdrawn_kept_days

    async def get(self, url: str, *, source: str | None = None) -> Entry:
        """One item by its URL, or the path of its file; the last copy of one that was deleted not long ago.

        The landing page of a dataset will do, a path within a source, or the name of a source that has one item.
        """
        async with self._database.connection() as c:
            held = await library.entries(c, key_of(url))
            if not held and "#" in url:
                # The link of a search result leads to a passage; of a file its name is what stands before.
                held = await library.entries(c, key_of(url.rpartition("#")[0]))
            found = [entry for entry in held if source in (None, entry.source)]
            if not found:
                copies = await library.withdrawn_entries(c, key_of(url), days=self._withdrawn_days)
                found = [entry for entry in copies if source in (None, entry.source)]
            if not found:
                found = [entry for entry in await _meant(c, url) if source in (None, entry.source)]
        if not found:
            raise NotFoundError(
                f"Nothing is held of {url!r}.", hint=Hint(action("search"), " finds items by their words.")
            )
        return found[0]

    async def checked(self, urls: Sequence[str]) -> dict[tuple[str, str], datetime]:
        """When items were last looked at, by source and URL; in one question for many."""
        async with self._database.connection() as c:
            return await library.checked(c, [key_of(url) for url in urls])

    async def twins(self, url: str, *, source: str | None = None) -> TwinGroup | None:
        """The same dataset in other sources, and which listing is the original; None if no other source has it."""
        entry = await self.get(url, source=source)
        async with self._database.connection() as c:
            return (await twin_store.groups(c, [entry.id])).get(entry.id)

    async def detail(self, url: str, *, source: str | None = None) -> ItemDetail:
        """What is kept beside an item's text: validators and passages; of a withdrawn one, nothing."""
        entry = await self.get(url, source=source)
        async with self._database.connection() as c:
            return ItemDetail() if entry.withdrawn_at is not None else await status.detail(c, entry.id)

    async def history(self, url: str, *, source: str | None = None) -> list[Revision]:
        """All texts that an item had, oldest first."""
        entry = await self.get(url, source=source)
        async with self._database.connection() as c:
            if entry.withdrawn_at is not None:
                return await library.withdrawn_revisions(c, entry.id)
            return await library.revisions(c, entry.id)

    async def diff(
        self,
        url: str,
        *,
        source: str | None = None,
        older: int | None = None,
        newer: int | None = None,
        form: DiffForm = "unified",
    ) -> str:
        """What changed between two texts of an item, by default the last two, as a unified diff or as HTML."""
        if form == "html":
            from rowen.publish.diffs import as_html

            return as_html(await self.compare(url, source=source, older=older, newer=newer))
        before, after = _two(url, await self.history(url, source=source), older, newer)
        lines = difflib.unified_diff(
            before.text.splitlines(),
            after.text.splitlines(),
            f"revision {before.number}",
            f"revision {after.number}",
            lineterm="",
        )
        return "\n".join(lines)

    async def compare(
        self, url: str, *, source: str | None = None, older: int | None = None, newer: int | None = None
    ) -> ItemDiff:
        """The same by line and word, with title and tags."""
        entry = await self.get(url, source=source)
        before, after = _two(url, await self.history(url, source=source), older, newer)
        return diff_of(entry, before, after)


async def _meant(c: Connection, given: str) -> list[Entry]:
    """What people mean by something that is no item's own URL: a landing page, the name of a source, a path within."""
    if Address.of(given).is_web:
        mark = page_mark(given)
        return await library.at_page(c, mark) if mark is not None else []
    if alone := await library.first_of_source(c, given):
        if len(alone) > 1:
            raise UsageError(
                f"{given!r} is a source with more than one item.",
                hint=Hint(action("search", source=given), " finds one of them by its words."),
            )
        return alone
    found = await library.entries(c, *_within(given, await library.source_urls(c)))
    if len({entry.url for entry in found}) > 1:
        raise UsageError(f"{given!r} may be {' or '.join(entry.url for entry in found[:3])}: say which.")
    return found


def _within(path: str, sources: Mapping[str, str]) -> Iterator[Hash]:
    """The keys that a path has in each source: below its URL, with or without its name before it."""
    for name, url in sources.items():
        for inner in {path, path.removeprefix(f"{name}/")}:
            with suppress(ValueError):
                yield key(f"{url.rstrip('/')}/{quote(inner)}")


def diff_of(entry: Entry, before: Revision, after: Revision) -> ItemDiff:
    """What changed between two revisions of an item."""
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


def _two(url: str, history: Sequence[Revision], older: int | None, newer: int | None) -> tuple[Revision, Revision]:
    """The two revisions that are meant; before the first there was nothing."""
    texts = {revision.number: revision for revision in history}
    newer = max(texts) if newer is None else newer
    older = newer - 1 if older is None else older
    if newer not in texts or (older not in texts and older != 0):
        raise NotFoundError(f"Revision {older} or {newer} of {url!r} is not kept; there are {sorted(texts)}.")
    return texts.get(older) or Revision(0, texts[newer].at, "", "", []), texts[newer]


def key_of(url: str) -> Hash:
    """The key of an item that is given by its URL, or by the path of its file."""
    place = Address.of(url)
    if not place.scheme:
        return key(path_url(url))
    try:
        return key(place.text)
    except ValueError:
        raise UsageError(f"{url!r} is neither a URL nor a path.") from None
