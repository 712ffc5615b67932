"""RDF catalogs by DCAT: a document, or pages of them, in any syntax; those of CKAN and udata by date as well."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import ClassVar

from rowen.connectors.base import Known, Options, Tools
from rowen.connectors.catalog.memory import Memory
from rowen.connectors.catalog.pages import LONGEST_LIMIT_S
from rowen.connectors.catalog.refresh import Refresh
from rowen.connectors.catalog.talk import Talk
from rowen.connectors.dcat.address import accept, is_catalog, linked, recognise
from rowen.connectors.dcat.listing import VERSION, RdfListing
from rowen.connectors.dcat.options import DcatOptions
from rowen.connectors.dcat.syntax import ACCEPT
from rowen.connectors.look import Look
from rowen.model.item import Observation

__all__ = ["Dcat"]


class Dcat:
    """Reads the datasets, series and services of an RDF catalog."""

    kind: ClassVar[str] = "dcat"
    Options: ClassVar[type[Options]] = DcatOptions

    def __init__(self, url: str, options: DcatOptions, tools: Tools) -> None:
        self._url = url
        self._options = options
        self._tools = tools

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """The catalog of `dcat:https://…`, or of an address that shows one."""
        return recognise(address)

    @classmethod
    def accept(cls, address: str) -> str | None:
        """The catalog at any web address that a user says to have one."""
        return accept(address)

    @classmethod
    async def probe(cls, look: Look) -> str | None:
        """The catalog at an address: the address itself, one that its page links, or that of udata."""
        if look.page is not None and is_catalog(look.page):
            return accept(look.url)
        found = linked(look.page) if look.page is not None else None
        url = found or f"{look.base}/api/1/site/catalog.jsonld"
        answer = await look.get(url, accept=ACCEPT)
        return accept(url) if answer is not None and is_catalog(answer) else None

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Walk the catalog, or read what changed."""
        async with self._tools.client() as client:
            talk = Talk(client, self._url, self._options, now=self._tools.now)
            talk.size.limit_s = LONGEST_LIMIT_S
            filters = Memory.of(known.cursor, VERSION).filters
            listing = RdfListing(talk, self._url, self._options, dated=filters is True)
            refresh = Refresh(listing, known, self._options, now=self._tools.now)
            async with aclosing(refresh.pull()) as observations:
                async for observation in observations:
                    yield observation
