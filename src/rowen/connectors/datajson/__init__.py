"""Catalogs in one document: the data.json of Project Open Data, DCAT-US 1.1 and 3.

The whole document is compared on each run, since its dates prove nothing; one that its origin calls unchanged
costs a single request. That is only asked for if we hold exactly what was read from it last: deletions that are held
back need another look. Records that could not be read are remembered, since the same bytes fail in the same way.
"""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, ClassVar

from rowen.connectors.base import Known, Options, Tools
from rowen.connectors.catalog.address import web_url
from rowen.connectors.datajson.document import MEND, Document, Validators
from rowen.connectors.datajson.options import DataJsonOptions
from rowen.connectors.look import Look
from rowen.connectors.remembered import remembered
from rowen.fetch.target import parse
from rowen.formats.errors import UnreadableError
from rowen.model.item import Checkpoint, Complete, Failed, Incomplete, Observation, Unchanged, Whole
from rowen.model.url import key

__all__ = ["DataJson"]

VERSION = 2
"""To be raised when a record is read into something else than before."""

_MOST_FAILED = 100
_LONGEST_ERROR = 500
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
            document = Document(client, self._url, self._options, before=_remembered(known).items)
            why = None
            yield Whole()
            async with aclosing(document.records(_validators(known))) as records:
                try:
                    async for record in records:
                        yield record
                except UnreadableError as problem:
                    why = f"{problem} {problem.hint or ''}".strip()
        if document.not_modified:
            async for observation in _as_before(known):
                yield observation
            yield Complete(expected=known.count)
        elif why or (not document.unique and known.count):
            yield Incomplete(why or f"{self._url} lists nothing, although {known.count} are held. Nothing was deleted.")
        else:
            for failed in await _swallowed(document, known):
                yield failed
            doubt = await _doubt(document, known)
            cursor = {**_memory(document), **({} if doubt else await _tokens(document, known))}
            if cursor != known.cursor:
                yield Checkpoint(cursor)
            yield Incomplete(f"{self._url} {doubt}") if doubt else Complete(expected=document.unique)


async def _as_before(known: Known) -> AsyncGenerator[Observation]:
    """What is held, and what failed: a failure that is not told again would count as mended."""
    failed = [Failed(*one) for one in _remembered(known).failed]
    keys = {key(one.url) for one in failed}
    for one in failed:
        yield one
    async for batch in known.everything():
        for held in batch:
            if not keys or key(held.url) not in keys:
                yield Unchanged(held.url)


async def _swallowed(document: Document, known: Known) -> list[Failed]:
    """The items that are missing, and named in a broken record: two that are broken in a row look like one."""
    missing = [url for url in sorted(document.swallowed) if not document.shows(url)]
    held = await known.look_up(missing) if missing else {}
    why = "It is missing, but named within a broken record."
    return [document.fail(Failed(url, why, MEND)) for url in held]


async def _doubt(document: Document, known: Known) -> str | None:
    """Why what was not seen may be there all the same: a record without a name may be any item that is missing.

    Told once for the same records: some documents have them for ever, and their deletions must not wait for ever.
    """
    if document.strangers.are_known(_remembered(known).strangers) or not known.count:
        return None
    missing = 0
    async for batch in known.everything():
        missing += sum(not document.shows(held.url) for held in batch)
    if not missing:
        return None
    count = len(document.strangers)
    broken = f"has {count} records that cannot be read and do not tell which they are, some of them new"
    return f"{broken}, and {missing} items are missing: they may be the same. Nothing was deleted this time."


def _is_catalog(body: bytes) -> bool:
    """Whether what may be only the beginning of a document is a data.json."""
    return body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{" and bool(_DATASETS.search(body) and _PROJECT.search(body))


@dataclass(frozen=True, slots=True)
class _Memory:
    """What the last whole reading left: its strangers, the document's tokens, and what these stand for."""

    version: int = 0
    strangers: list[str] = field(default_factory=list)
    items: int | None = None
    url: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    failed: list[tuple[str, str, str | None]] = field(default_factory=list)


def _remembered(known: Known) -> _Memory:
    """What is in the cursor, if it was written by one who read as we do."""
    memory = remembered(known.cursor, _Memory)
    return memory if memory is not None and memory.version == VERSION else _Memory()


def _validators(known: Known) -> Validators | None:
    """What to ask an unchanged document by, if nothing but its being unchanged needs to be known."""
    memory = _remembered(known)
    if known.unsettled or memory.items != known.count or memory.url is None:
        return None
    return Validators(memory.url, memory.etag, memory.last_modified)


def _memory(document: Document) -> dict[str, Any]:
    kept = document.strangers.kept()
    return {"version": VERSION, **({"strangers": kept} if kept else {})}


async def _tokens(document: Document, known: Known) -> dict[str, Any]:
    """The document's validators, with what they stand for; none where they would not tell of all pages.

    `items` is how many are held if all goes well: what was read, and what could not be but was held before.
    """
    found = document.validators
    if found is None or document.pages != 1 or len(document.failed) > _MOST_FAILED:
        return {}
    held = await known.look_up([one.url for one in document.failed.values()]) if document.failed else {}
    items = document.unique - len(document.failed) + len(held)
    tokens = {"url": found.url, "etag": found.etag, "last_modified": found.last_modified}
    failed = [[one.url, one.error[:_LONGEST_ERROR], one.hint] for one in document.failed.values()]
    return {"items": items} | {name: value for name, value in {**tokens, "failed": failed}.items() if value}
