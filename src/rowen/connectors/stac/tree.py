"""A static catalog, which consists of linked documents. Each document is requested with its validators.

From an unchanged document the walk follows its stored children, so that it reaches the same documents as a first walk.
The documents behind an unreadable document are unknown, so nothing is deleted after such a walk.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from rowen.connectors.base import Known, StoredState, parse_stored
from rowen.connectors.catalog.listing import Tokens
from rowen.connectors.catalog.records import UrlSet, parsed
from rowen.connectors.catalog.text import word
from rowen.connectors.stac.record import StacOptions, dataset_of, joined, links_of
from rowen.errors import SourceError
from rowen.formats.json import payload_of, read_json
from rowen.model.hashes import body_hash
from rowen.model.items import (
    Checkpoint,
    Complete,
    Document,
    Failed,
    Fetched,
    Incomplete,
    Observation,
    Unchanged,
    Validators,
)
from rowen.model.text import header
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.response import Response
from rowen.net.target import redact

_AT_ONCE = 6  # concurrent requests, as in browsers for one host; the pace of the host limits them further
_BATCH = 200  # documents whose stored states are looked up by one query


class _Catalog(NamedTuple):
    """The stored state of a Catalog document, which is no item: its validators and its links."""

    etag: str | None
    last_modified: str | None
    children: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Visit:
    """The result of requesting one document.

    `catalog` is the state to store. `trouble` is the reason why the document could not be read.
    """

    seen: Observation | None = None
    children: tuple[str, ...] = ()
    catalog: _Catalog | None = None
    trouble: str | None = None


class Tree:
    """One walk over a static catalog, breadth first, always in the same order."""

    def __init__(self, client: Client, url: str, options: StacOptions, known: Known) -> None:
        self._client = client
        self._url = url
        self._options = options
        self._known = known
        self._credentials = Credentials.of(url, options.headers)
        self._before: dict[str, _Catalog] = {}
        if isinstance(known.cursor, dict) and known.cursor.get("version") == StacOptions.record_version:
            self._before = parse_stored(known.cursor.get("catalogs"), dict[str, _Catalog]) or {}
        self._catalogs: dict[str, _Catalog] = {}
        self._marks = UrlSet()
        self._items = self._broken = 0
        self._doubt: str | None = None

    async def tokens(self) -> Tokens | None:
        """Return the validators of the root; None if they are not stored."""
        stored = await self._known.look_up([self._url])
        return self._tokens(self._url, stored.get(self._url))

    async def walk(self, root: Response) -> AsyncGenerator[Observation]:
        """Yield the observations of all documents from the root down; `root` is the root's response."""
        self._marks.add(self._url)
        level: list[str] = [self._url]
        for _ in range(self._options.depth + 1):
            following: list[str] = []
            async for url, visit in self._visits(level, root):
                self._items += isinstance(visit.seen, Fetched | Unchanged)
                if visit.catalog is not None and (visit.catalog.etag or visit.catalog.last_modified):
                    self._catalogs[url] = visit.catalog
                if visit.trouble is not None:
                    self._broken += 1
                    self._doubt = self._doubt or visit.trouble
                if visit.seen is not None:
                    yield visit.seen
                following += [child for child in visit.children if self._is_new(child)]
            level = following
        catalogs = {
            url: [header(catalog.etag), header(catalog.last_modified), list(catalog.children)]
            for url, catalog in self._catalogs.items()
        }
        cursor = {"version": StacOptions.record_version, "catalogs": catalogs}
        if cursor != self._known.cursor:
            yield Checkpoint(cursor)
        if self._doubt:
            others = f" The same goes for {self._broken - 1} more." if self._broken > 1 else ""
            yield Incomplete(f"{self._doubt}{others}")
        elif not self._items and self._known.count:
            yield Incomplete(f"The catalog lists nothing, although {self._known.count} items are stored.")
        else:
            yield Complete(expected=self._items)

    def _is_new(self, url: str) -> bool:
        if len(self._marks) >= self._options.max_documents:
            self._doubt = self._doubt or f"The catalog has more than {self._options.max_documents} documents."
            return False
        return self._marks.add(url)

    async def _visits(self, level: Sequence[str], root: Response) -> AsyncGenerator[tuple[str, _Visit]]:
        """Yield the documents of a level in their order; request some of them concurrently."""
        waiting: deque[tuple[str, asyncio.Task[_Visit]]] = deque()
        try:
            for start in range(0, len(level), _BATCH):
                batch = level[start : start + _BATCH]
                stored = await self._known.look_up(batch)
                for url in batch:
                    answer = root if url == self._url else None
                    waiting.append((url, asyncio.create_task(self._visit(url, stored.get(url), answer))))
                    if len(waiting) >= _AT_ONCE:
                        yield waiting[0][0], await waiting[0][1]
                        waiting.popleft()
            while waiting:
                yield waiting[0][0], await waiting[0][1]
                waiting.popleft()
        finally:
            for _, task in waiting:
                task.cancel()
            await asyncio.gather(*(task for _, task in waiting), return_exceptions=True)

    async def _visit(self, url: str, stored: StoredState | None, answer: Response | None) -> _Visit:
        before = self._before.get(url)
        try:
            response = answer or await self._ask(url, self._tokens(url, stored))
            if not response.not_modified:
                return self._read(url, response, stored)
            if stored is not None:
                return _Visit(Unchanged(url), stored.links)
            return _Visit(None, before.children if before else (), before)
        except SourceError as problem:
            if answer is not None:
                raise
            trouble = f"{redact(url)} could not be read: {problem}"
            if stored is None and before is not None:
                return _Visit(None, before.children, before, trouble)
            return _Visit(Failed(url, str(problem), problem.hint), stored.links if stored else (), None, trouble)

    def _tokens(self, url: str, stored: StoredState | None) -> Tokens | None:
        known = stored or self._before.get(url)
        return Tokens(url, known.etag, known.last_modified) if known else None

    async def _ask(self, url: str, tokens: Tokens | None) -> Response:
        response = await self._client.get(
            url,
            etag=tokens.etag if tokens else None,
            last_modified=tokens.last_modified if tokens else None,
            credentials=self._credentials,
            accept="application/json",
        )
        if response.ok or response.not_modified:
            return response
        raise SourceError(f"{redact(url)} answered with status {response.status}.")

    def _read(self, url: str, response: Response, stored: StoredState | None) -> _Visit:
        data = read_json(response.body, redact(url))
        kind = kind_of(data)
        if kind is None:
            raise SourceError(f"{redact(url)} is neither a STAC catalog nor a collection.")
        links = (joined(response.url, word(link["href"])).partition("#")[0] for link in links_of(data, "child"))
        children = tuple(dict.fromkeys(link for link in links if link.startswith(("http://", "https://"))))
        etag, modified = (None, None) if response.redirects else (response.etag, response.last_modified)
        if kind == "Catalog":
            return _Visit(None, children, _Catalog(etag, modified, children))

        # The links are relative to the address of the response, so the address is hashed as well.
        validators = Validators(etag, modified, body_hash(response.url.encode() + b"\n" + response.body))
        if stored is not None and stored.body_hash == validators.body_hash:
            is_same = (stored.etag, stored.last_modified) == (validators.etag, validators.last_modified)
            return _Visit(Unchanged(url, None if is_same else validators, by_body=True), children)

        collection = parsed(
            url,
            lambda: dataset_of(data, url, base=response.url),
            validators,
            payload=lambda: payload_of(data),
            options=self._options,
            what="collection",
        )
        if isinstance(collection, Fetched) and isinstance(collection.item, Document):
            collection = Fetched(replace(collection.item, links=children))
        return _Visit(collection, children)


def kind_of(data: Any) -> str | None:
    """Return "Catalog" or "Collection"; None for another document. Before STAC 1.0 documents did not state it."""
    if not isinstance(data, Mapping):
        return None
    if data.get("type") in ("Catalog", "Collection"):
        return str(data["type"])
    if "stac_version" not in data or "type" in data:
        return None
    return "Collection" if "extent" in data else "Catalog"
