"""SPARQL endpoints that describe datasets by DCAT."""

import json
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import ClassVar
from urllib.parse import urlencode

from rowen.connectors.base import Known, Options, Tools
from rowen.connectors.catalog.refresh import Refresh
from rowen.connectors.catalog.talk import Talk
from rowen.connectors.look import Look
from rowen.connectors.sparql.endpoint import FORM, RESULTS, Endpoint
from rowen.connectors.sparql.listing import Identified
from rowen.connectors.sparql.options import SparqlOptions
from rowen.errors import BadUrlError
from rowen.fetch.target import parse
from rowen.model.item import Observation

__all__ = ["Sparql"]

_PREFIX = "sparql:"
_TELLING = re.compile(r"/sparql/?$", re.IGNORECASE)
_ASK = "ASK { ?d a <http://www.w3.org/ns/dcat#Dataset> }"


class Sparql:
    """Reads the datasets of a SPARQL endpoint."""

    kind: ClassVar[str] = "sparql"
    Options: ClassVar[type[Options]] = SparqlOptions

    def __init__(self, url: str, options: SparqlOptions, tools: Tools) -> None:
        self._url = url
        self._options = options
        self._tools = tools

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """The endpoint of `sparql:https://…`, or of an address that ends in `/sparql`."""
        path = address.partition("?")[0].partition("#")[0]
        return cls.accept(address) if address.startswith(_PREFIX) or _TELLING.search(path) else None

    @classmethod
    def accept(cls, address: str) -> str | None:
        """The endpoint at any web address that a user says to be one."""
        address = address.removeprefix(_PREFIX)
        if not address.startswith(("http://", "https://")):
            return None
        try:
            return parse(address).url
        except BadUrlError:
            return None

    @classmethod
    async def probe(cls, look: Look) -> str | None:
        """The endpoint at an address, or below it: one that knows a dataset."""
        url = look.url if _TELLING.search(look.base) else f"{look.base}/sparql"
        body = urlencode({"query": _ASK}).encode()
        answer = await look.get(url, accept=RESULTS, body=body, headers={"Content-Type": FORM})
        return cls.accept(url) if answer is not None and _is_yes(answer.body) else None

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Walk the endpoint, or read what changed."""
        async with self._tools.client() as client:
            talk = Talk(client, self._url, self._options, now=self._tools.now)
            talk.size.limit_s = talk.idle_s = self._options.timeout_s
            listing = Identified(Endpoint(talk, self._url), self._url, self._options)
            refresh = Refresh(listing, known, self._options, now=self._tools.now)
            async with aclosing(refresh.pull()) as observations:
                async for observation in observations:
                    yield observation


def _is_yes(body: bytes) -> bool:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(answer, dict) and answer.get("boolean") is True
