"""Catalogs in one document: the data.json of Project Open Data, DCAT-US 1.1 and 3.

The whole document is compared on each run, since its dates prove nothing; one that its origin calls unchanged
costs a single request. That is only asked for if we hold exactly what was read from it last: deletions
that are held back, and records that could not be read, need another look.
"""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, ClassVar

from rowen.connectors.base import Known, Options, Tools
from rowen.connectors.catalog.address import web_url
from rowen.connectors.catalog.answers import UnreadableError
from rowen.connectors.datajson.document import Document, Validators
from rowen.connectors.datajson.options import DataJsonOptions
from rowen.connectors.look import Look
from rowen.fetch.target import parse
from rowen.model.item import Checkpoint, Complete, Incomplete, Observation, Unchanged, Whole

__all__ = ["DataJson"]

VERSION = 1
"""To be raised when a record is read into something else than before."""

_PREFIX = "datajson:"
_TELLING = re.compile(r"/data\.json/?$|/dcat-us/[\d.]+\.json$", re.IGNORECASE)
_DATASETS = re.compile(rb'"dataset"\s*:\s*\[')
_PROJECT = re.compile(rb'project-open-data|dcat-us|"accessLevel"|"conformsTo"|"@type"\s*:\s*"dcat:Catalog"')
_SOME_FILE = re.compile(r"/[^/]+\.[a-z0-9]+$|\?", re.IGNORECASE)


class DataJson:
    """Reads a data.json."""

    kind: ClassVar[str] = "datajson"
    Options: ClassVar[type[Options]] = DataJsonOptions

    def __init__(self, url: str, options: DataJsonOptions, tools: Tools) -> None:
        self._url = url
        self._options = options
        self._tools = tools

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """The document of `datajson:https://…`, or of an address that ends in `/data.json`."""
        telling = address.startswith(_PREFIX) or _TELLING.search(address.partition("?")[0])
        return cls.accept(address) if telling else None

    @classmethod
    def accept(cls, address: str) -> str | None:
        """The document of any web address that a user says to have one."""
        url = web_url(address, cls.kind)
        if url is None:
            return None
        path = url.partition("://")[2].partition("/")[2]
        return url if _SOME_FILE.search(f"/{path}") else f"{url.rstrip('/')}/data.json"

    @classmethod
    async def probe(cls, look: Look) -> str | None:
        """The document at an address, or the data.json below it."""
        if look.page is not None and _is_catalog(look.page.body):
            return parse(look.url).url
        url = cls.accept(look.base)
        found = await look.get(url) if url and url != look.url else None
        return url if found is not None and _is_catalog(found.body) else None

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Read the document, unless it is the one that we hold."""
        async with self._tools.client() as client:
            client.pace(self._url, delay_s=self._options.delay_s)
            document = Document(client, self._url, self._options)
            why = None
            yield Whole()
            async with aclosing(document.records(_validators(known))) as records:
                try:
                    async for record in records:
                        yield record
                except UnreadableError as problem:
                    why = f"{problem} {problem.hint or ''}".strip()
        if document.not_modified:
            async for batch in known.everything():
                for held in batch:
                    yield Unchanged(held.url)
            yield Complete(expected=known.count)
        elif why or (not document.unique and known.count):
            yield Incomplete(why or f"{self._url} lists nothing, although {known.count} are held. Nothing was deleted.")
        else:
            cursor = _cursor(document)
            if cursor != known.cursor:
                yield Checkpoint(cursor)
            yield Complete(expected=document.unique)


def _is_catalog(body: bytes) -> bool:
    """Whether what may be only the beginning of a document is a data.json."""
    return body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{" and bool(_DATASETS.search(body) and _PROJECT.search(body))


def _validators(known: Known) -> Validators | None:
    """What to ask an unchanged document by, if nothing but its being unchanged needs to be known."""
    cursor = known.cursor if isinstance(known.cursor, dict) else {}
    if cursor.get("version") != VERSION or cursor.get("items") != known.count or "url" not in cursor:
        return None
    return Validators(cursor["url"], cursor.get("etag"), cursor.get("last_modified"))


def _cursor(document: Document) -> dict[str, Any]:
    """The document's validators; none where they would not tell of all pages, or of records still to be read."""
    cursor: dict[str, Any] = {"version": VERSION, "items": document.unique}
    found = document.validators
    if found and not document.failed and document.pages == 1:
        tokens = {"url": found.url, "etag": found.etag, "last_modified": found.last_modified}
        cursor |= {name: value for name, value in tokens.items() if value}
    return cursor
