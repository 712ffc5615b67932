"""Publications: the change log as feeds and event streams, all datasets as one catalog, and streams of a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from rowen.errors import NotFoundError, UsageError
from rowen.model.access import Scope
from rowen.model.changes import DiffForm, FeedForm, FieldDiff, ItemDiff, Publication
from rowen.model.datasets import CatalogPage, CatalogPlace
from rowen.model.search import check_words
from rowen.operations.facts import redacted
from rowen.operations.operation import ResourceGroup, operation
from rowen.publish import event_stream, feeds
from rowen.publish.catalog import DATA_JSON_FOOT, catalog_page, data_json_datasets, data_json_head
from rowen.publish.feeds import FeedHead, PublicAddresses
from rowen.store import changes
from rowen.store import sources as source_store
from rowen.store.database import Connection
from rowen.store.items import duplicates

if TYPE_CHECKING:
    from typing import Annotated

    from msgspec import Meta

    from rowen.operations.parameters import Limit, OnlyChangeKinds, OnlySource, SearchWords

# The address in publications that are only viewed on this machine.
_LOCAL = "http://127.0.0.1:8400"
# Feed readers keep the entries that they have read; a reader that polls once a day should miss nothing on a usual day.
FEED_LINES = 100
# Records of real portals have 2 to 16 kB, so a page has some hundred kB to 2 MB.
CATALOG_DATASETS = 100
# Proxies close connections on which nothing is sent for a minute.
_KEEP_ALIVE_S = 25.0


class Feeds(ResourceGroup):
    """Feeds, event streams and catalogs."""

    def _prepare(self) -> None:
        self._listener = self._engine.listener
        self._base = self._settings.public_url or _LOCAL

    @operation(scope=Scope.READ)
    async def feed(
        self,
        form: Annotated[FeedForm, Meta(description="Atom or JSON Feed.")] = "atom",
        *,
        source: OnlySource | None = None,
        query: SearchWords | None = None,
        kinds: OnlyChangeKinds = (),
        field: Annotated[
            str, Meta(max_length=200, description="Only changes in which this field of extracted facts differs.")
        ]
        | None = None,
        before: Annotated[int, Meta(ge=1, le=2**62, description="Only changes before this number of the change log.")]
        | None = None,
        limit: Limit = FEED_LINES,
    ) -> Publication:
        """Return the newest changes as Atom or JSON Feed: all, of one source, or of items with the words of a query.

        With kinds, only these; with a field, only changes of that field of facts.
        """
        check_words(query)
        async with self._database.connection() as c:
            await _need(c, source)
            lines = await changes.newest_published(
                c, before=before, limit=limit + 1, source=source, query=query, kinds=kinds, field=field
            )
        head = FeedHead(PublicAddresses(self._base, source), query, before, tuple(kinds), field)
        return await asyncio.to_thread(feeds.feed, form, head, lines[:limit], more=len(lines) > limit)

    @operation(scope=Scope.READ)
    async def event_stream(
        self,
        node: Annotated[str, Meta(description="A page of the stream: `blocks/0`, `pages/17`.")] = "",
        *,
        source: OnlySource | None = None,
    ) -> Publication:
        """Return a page of the change log as a Linked Data Event Stream: the root, `blocks/3` or `pages/17`."""
        addresses = PublicAddresses(self._base, source)
        level, _, digits = node.partition("/")
        # A page number has no more digits than the number of a line.
        is_page = level in {"blocks", "pages"} and digits.isascii() and digits.isdigit() and len(digits) <= 15
        if node and not is_page:
            raise UsageError(f"{node!r} is no page of the event stream.", hint="Such as blocks/0 or pages/17.")
        number = int(digits) if node else 0
        size, lines = event_stream.PAGE_LINES, event_stream.BLOCK_LINES
        async with self._database.connection() as c:
            await _need(c, source)
            last = await changes.last_number(c)
            if number and number * (size if level == "pages" else lines) >= last:
                raise NotFoundError(f"The event stream has no page {node!r} yet.")
            if level == "pages":
                published = await changes.published_page(c, number, size=size, source=source)
            else:
                within = {"after": number * lines, "until": (number + 1) * lines} if node else {}
                spans = await changes.spans(c, source=source, size=size if node else lines, **within)
        if level == "pages":
            keys = self._settings.redacted_keys
            public = [replace(change, record=redacted(change.record, keys)) for change in published]
            return await asyncio.to_thread(event_stream.members, addresses, number, public, last)
        if not node:
            return event_stream.root(addresses, spans, last)
        return await asyncio.to_thread(event_stream.block, addresses, number, spans, last)

    @operation(scope=Scope.READ)
    async def events(
        self,
        *,
        last_event_id: Annotated[
            str | None, Meta(description="Identifier of the last event that the client received.")
        ] = None,
        source: OnlySource | None = None,
    ) -> AsyncGenerator[bytes]:
        """Yield new changes as server-sent events, after the last one that a client received; never ends."""
        since = feeds.last_seen(last_event_id)
        async with self._database.connection() as c:
            await _need(c, source)
            after = await changes.last_number(c) if since is None else since
        yield KEEP_ALIVE
        following = self._listener.follow(after, source=source)
        async with aclosing(or_silence(following, _KEEP_ALIVE_S)) as batches:
            async for batch in batches:
                yield b"".join(map(feeds.event, batch)) if batch else KEEP_ALIVE

    @operation(scope=Scope.READ)
    async def catalog(
        self,
        *,
        source: OnlySource | None = None,
        after: Annotated[str, Meta(max_length=200, description="The page after this place.")] | None = None,
    ) -> Publication:
        """Return a page of all datasets, or those of a source, as a DCAT catalog."""
        try:
            place = CatalogPlace.parse(after) if after else None
        except ValueError:
            raise UsageError(f"{after!r} is no place in the catalog.", hint="Follow the links of its pages.") from None
        counts = await self._count_datasets(source)
        page = await self._page(counts, place, merged=source is None)
        addresses = PublicAddresses(self._base, source)
        return await asyncio.to_thread(catalog_page, addresses, page, after=after, total=sum(counts.values()))

    @operation(scope=Scope.READ)
    async def data_json(self, *, source: OnlySource | None = None) -> AsyncGenerator[bytes]:
        """Yield all datasets as data.json, in pieces."""
        counts = await self._count_datasets(source)
        yield data_json_head(PublicAddresses(self._base, source).catalog("data.json"))
        place: CatalogPlace | None = None
        first = True
        while True:
            page = await self._page(counts, place, merged=source is None)
            yield data_json_datasets(page.datasets, first=first)
            first, place = first and not page.datasets, page.next
            if place is None:
                break
        yield DATA_JSON_FOOT

    async def _count_datasets(self, source: str | None) -> Mapping[int, int]:
        """Return the number of datasets by source."""
        counts = await self._client.sources.counts.datasets()
        if source is None:
            return counts
        async with self._database.connection() as c:
            await _need(c, source)
            number = (await source_store.ids(c, [source]))[source]
        return {number: counts[number]} if number in counts else {}

    async def _page(self, counts: Mapping[int, int], place: CatalogPlace | None, *, merged: bool) -> CatalogPage:
        async with self._database.connection() as c:
            return await duplicates.page_of_datasets(c, counts, after=place, limit=CATALOG_DATASETS, merged=merged)

    @staticmethod
    def diff_as_html(diff: ItemDiff) -> str:
        """Return the difference of two revisions of an item as HTML."""
        return feeds.as_html(diff)

    @staticmethod
    def fields_as_text(diff: FieldDiff, form: DiffForm) -> str:
        """Return changed fields as text, one line per field, or as HTML."""
        return feeds.fields_as_html(diff) if form == "html" else feeds.fields_as_text(diff)


async def _need(c: Connection, source: str | None) -> None:
    if source is not None:
        await source_store.need(c, source)


T = TypeVar("T")

KEEP_ALIVE = b": still here\n\n"
"""A comment, since proxies close silent connections."""


async def until(closing: asyncio.Event, stream: AsyncGenerator[bytes]) -> AsyncIterator[bytes]:
    """Yield from a stream until the server closes; otherwise the server would wait for its clients."""
    async with aclosing(stream):
        ends = asyncio.ensure_future(closing.wait())
        try:
            while True:
                waiting = asyncio.ensure_future(anext(stream))
                try:
                    await asyncio.wait({waiting, ends}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    if not waiting.done():
                        waiting.cancel()
                        await asyncio.gather(waiting, return_exceptions=True)
                if waiting.cancelled():
                    return
                try:
                    yield waiting.result()
                except StopAsyncIteration:
                    return
        finally:
            ends.cancel()


async def or_silence(stream: AsyncGenerator[T], silence_s: float) -> AsyncGenerator[T | None]:
    """Yield the values of a stream, and None whenever there was no value for `silence_s`."""
    async with aclosing(stream):
        waiting = asyncio.ensure_future(anext(stream))
        try:
            while True:
                done, _ = await asyncio.wait({waiting}, timeout=silence_s)
                if not done:
                    yield None
                    continue
                try:
                    value = waiting.result()
                except StopAsyncIteration:
                    return
                yield value
                waiting = asyncio.ensure_future(anext(stream))
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
