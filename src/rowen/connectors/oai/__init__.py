"""Repositories of publications and data, by OAI-PMH 2.0: walked from token to token, then asked for what changed."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import ClassVar

from rowen.connectors.base import Known, Options, Tools
from rowen.connectors.catalog.notes import Noted, noted
from rowen.connectors.catalog.pages import LONGEST_LIMIT_S
from rowen.connectors.catalog.refresh import Refresh
from rowen.connectors.catalog.talk import Talk
from rowen.connectors.look import Look
from rowen.connectors.oai.address import accept, ask, recognise
from rowen.connectors.oai.listing import Repository
from rowen.connectors.oai.options import OaiOptions
from rowen.model.item import Observation

__all__ = ["Oai"]

_EXPLAINED = frozenset(range(400, 600)) - {401, 403, 408, 425, 429, 503}
_MARKS = (b"<OAI-PMH", b":OAI-PMH")


class Oai:
    """Reads the records of an OAI-PMH repository."""

    kind: ClassVar[str] = "oai"
    Options: ClassVar[type[Options]] = OaiOptions

    def __init__(self, url: str, options: OaiOptions, tools: Tools) -> None:
        self._url = url
        self._options = options
        self._tools = tools

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """The base URL of `oai:https://…`, or of an address that shows the protocol."""
        return recognise(address)

    @classmethod
    def accept(cls, address: str) -> str | None:
        """The base URL of any web address that a user says to have one."""
        return accept(address)

    @classmethod
    async def probe(cls, look: Look) -> str | None:
        """The repository at an address: itself tells, or what it answers when asked who it is."""
        if look.page is not None and _is_oai(look.page.body):
            return accept(look.url)
        base = accept(look.base if look.base != look.origin else f"{look.origin}/oai")
        answer = await look.get(ask(base, "Identify"), accept="text/xml, */*;q=0.5") if base else None
        return base if answer is not None and _is_oai(answer.body) else None

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Walk the repository, or read what changed."""
        held = Noted(known)
        async with self._tools.client() as client:
            talk = Talk(client, self._url, self._options, now=self._tools.now, explained=_EXPLAINED)
            # Fewer records cannot be asked for, so that more time is all there is to give.
            talk.size.limit_s = LONGEST_LIMIT_S
            repository = Repository(talk, self._url, self._options)
            await repository.open(held)
            refresh = Refresh(repository, held, self._options, now=self._tools.now)
            async with aclosing(noted(refresh.pull(), repository.notes)) as observations:
                async for observation in observations:
                    yield observation


def _is_oai(body: bytes) -> bool:
    return body.lstrip()[:1] in (b"<", b"\xef") and any(mark in body[:2000] for mark in _MARKS)
