"""STAC catalogs, as an API or as linked documents; each collection is one item."""

import json
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from rowen.connectors.base import Known
from rowen.connectors.catalog.connector import CatalogConnector
from rowen.connectors.catalog.listing import Listing, ListingPage, Row, Tokens
from rowen.connectors.catalog.portal_client import UNRECEIVED, PortalClient
from rowen.connectors.catalog.records import one_by_one, unparsed_json
from rowen.connectors.catalog.text import word
from rowen.connectors.probe import Probe
from rowen.connectors.stac.record import (
    StacOptions,
    accept,
    asset_names,
    dataset_of,
    is_stac,
    is_typical,
    item_url,
    joined,
    links_of,
    listing_url,
)
from rowen.connectors.stac.tree import Tree, kind_of
from rowen.errors import FetchTimeoutError, SourceError
from rowen.formats import UnreadableError
from rowen.formats.json import payload_of, read_json
from rowen.model.hashes import body_hash
from rowen.model.items import Failed, Observation
from rowen.net.client import Client
from rowen.net.response import Response
from rowen.net.target import redact

_MEDIA_TYPE = "application/json"
_FAILED = (*UNRECEIVED, FetchTimeoutError)


class _Question(NamedTuple):
    """The request for a page: its address, and a body if the request is a POST."""

    url: str
    body: dict[str, Any] | None = None


class Collections(Listing):
    """The listing of an API; `url` is the address of its first page, `root` the source's own address."""

    version = StacOptions.record_version

    def __init__(self, portal: PortalClient, url: str, *, root: str, options: StacOptions, first: Response) -> None:
        self._portal = portal
        self._url = f"{url}{'&' if '?' in url else '?'}limit={options.limit}" if options.limit else url
        self._root = root
        self._options = options
        self._first = first if self._url == first.url else None
        self._is_limited = False

    async def read_pages(
        self, *, since: datetime | None = None, place: Any = None, tokens: Tokens | None = None
    ) -> AsyncGenerator[ListingPage]:
        """Yield all collections, which cannot be filtered by date."""
        at: _Question | None = _Question(*place) if place else _Question(self._url)
        before: ListingPage | None = None
        while at is not None:
            try:
                response, found = await self._read(at, tokens, before)
            except _FAILED as problem:
                if before is None:
                    raise
                yield ListingPage((), declared=before.declared, doubt=f"The list breaks off: {problem}")
                return
            self.not_modified = response.not_modified
            if response.not_modified:
                return
            page = found
            if before is not None:
                if None not in (before.declared, page.declared) and before.declared != page.declared:
                    # If a collection was deleted, another one may have moved across a page border and been missed.
                    page = replace(page, doubt="The list of collections changed while it was read.")
                page = replace(page, declared=before.declared) if page.declared is None else page
                # Some servers always link a next page.
                page = page if page.rows or before.rows else replace(page, place=None)
            if at == (self._url, None) and page.place is None and not (response.redirects or self._is_limited):
                self.tokens = Tokens(self._url, response.etag, response.last_modified)
            before, at, tokens = page, _Question(*page.place) if page.place else None, None
            yield page

    async def _read(
        self, at: _Question, tokens: Tokens | None, before: ListingPage | None
    ) -> tuple[Response, ListingPage]:
        """Return the page at a link; if the API fails, request it with a lower `limit`."""
        if self._is_limited:
            return await self._part(at)
        try:
            return await self._once(at, tokens)
        except _FAILED as problem:
            size = self._portal.size
            size.learn(len(before.rows) if before and before.rows else size.wanted)
            size.shrink(least=1)
            self._is_limited = True
            try:
                return await self._part(at)
            except _FAILED:
                raise
            except SourceError:
                # The API may be down, or may not support `limit`: the first error explains more.
                self._is_limited = False
                raise problem from None

    async def _part(self, at: _Question) -> tuple[Response, ListingPage]:
        def read(rows: int) -> Awaitable[tuple[Response, ListingPage]]:
            """Request a page of `rows` collections."""
            if at.body is not None:
                question = _Question(at.url, {**at.body, "limit": rows})
            else:
                parts = urlsplit(at.url)
                parameters = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != "limit"]
                query = urlencode([*parameters, ("limit", str(rows))], errors="surrogatepass")
                question = _Question(urlunsplit(parts._replace(query=query)))
            return self._once(question, None, could_be_less=rows > 1)

        return await self._portal.request_page(read, alive=lambda: self._portal.request(self._root))

    async def _once(
        self, at: _Question, tokens: Tokens | None, *, could_be_less: bool = False
    ) -> tuple[Response, ListingPage]:
        if self._first is not None and at == (self._url, None):
            response, self._first = self._first, None
        else:
            response = await self._portal.request(
                at.url,
                body=None if at.body is None else json.dumps(at.body).encode(),
                media_type=_MEDIA_TYPE,
                tokens=tokens if at.body is None and tokens is not None and tokens.url == at.url else None,
                could_be_less=could_be_less,
            )
        if response.not_modified:
            return response, ListingPage(())
        data = read_json(response.body, redact(response.url))
        if not isinstance(data, dict) or not isinstance(data.get("collections"), list):
            raise UnreadableError(f"{redact(response.url)} answered with JSON that is no list of collections.")
        # The query of the address belongs to the page, and a collection may be on any page.
        base = response.url.partition("?")[0]
        rows = await one_by_one(lambda record: self._row(record, base), data["collections"])
        # The declared number of collections, from the field of OGC or of an extension.
        context = data.get("context")
        declared = data.get("numberMatched", context.get("matched") if isinstance(context, Mapping) else None)
        if not isinstance(declared, int) or isinstance(declared, bool) or declared < 0:
            declared = None
        return response, ListingPage(rows, _next(data, response.url, at), declared, self._portal.clock(response))

    def _row(self, record: Any, base: str) -> Row:
        identifier = word(record.get("id")) if isinstance(record, Mapping) else ""
        if not identifier:
            payload = payload_of(record)
            nowhere = f"{item_url(self._root, '')}unnamed/{body_hash(payload or b'').hex()[:32]}"
            return Row(Failed(nowhere, "The collection has no identifier.", payload=payload))
        url = item_url(self._root, identifier)
        return Row(
            unparsed_json(
                record,
                lambda content: dataset_of(content, url, base=base),
                url=url,
                steady=lambda content: content,
                beside=json.dumps([base, *asset_names(record)]),
                options=self._options,
                what="collection",
            )
        )


def _next(data: Mapping[str, Any], base: str, at: _Question) -> list[Any] | None:
    """Return the request for the next page, in plain JSON; None if there is no next page."""
    for link in links_of(data, "next"):
        url = joined(base, word(link["href"]))
        if word(link.get("method")).upper() != "POST":
            return [url, None]
        body = link.get("body")
        changed = body if isinstance(body, dict) else {}
        return [url, {**(at.body or {}), **changed} if link.get("merge") is True else changed]
    return None


class Stac(CatalogConnector):
    """Connector for STAC catalogs."""

    kind = "stac"
    Options = StacOptions
    accept = staticmethod(accept)
    is_typical = staticmethod(is_typical)

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """Return the catalog at an address, found in its page or in its answer to a request for JSON."""
        page = probe.page
        if page is not None and not is_stac(page.body) and b"<html" in page.body[:2000].lower():
            page = await probe.get(probe.url)
        return accept(probe.url) if page is not None and is_stac(page.body) else None

    async def _observe(self, client: Client, known: Known) -> AsyncGenerator[Observation]:
        """Request the root, and read its collections from an API or from linked documents."""
        portal = PortalClient(client, self._url, self._options.as_catalog(), now=self._tools.now)
        tree = Tree(client, self._url, self._options, known)
        root = await portal.request(self._url, tokens=await tree.tokens())
        observations = tree.walk(root) if root.not_modified else self._read(portal, tree, root, known)
        async with aclosing(observations):
            async for observation in observations:
                yield observation

    def _read(self, portal: PortalClient, tree: Tree, root: Response, known: Known) -> AsyncGenerator[Observation]:
        data = read_json(root.body, self._url)
        listing = listing_url(data, root.url) if isinstance(data, dict) else None
        if listing is None:
            if kind_of(data) is None:
                raise SourceError(f"{self._url} is JSON, but no STAC catalog.")
            return tree.walk(root)
        collections = Collections(portal, listing, root=self._url, options=self._options, first=root)
        return self._refresh(collections, known)
