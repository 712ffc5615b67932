"""Repositories of publications and data, by OAI-PMH 2.0: walked from token to token, then asked for what changed."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, ClassVar

from rowen.connectors.base import Known
from rowen.connectors.catalog.connector import CatalogConnector
from rowen.connectors.catalog.notes import Noted, noted
from rowen.connectors.catalog.pages import LONGEST_LIMIT_S
from rowen.connectors.catalog.portal_client import PortalClient
from rowen.connectors.oai.address import OaiOptions, accept, ask, recognise
from rowen.connectors.oai.listing import Repository
from rowen.connectors.probe import Probe
from rowen.model.item import Observation
from rowen.net.client import Client

if TYPE_CHECKING:
    from rowen.connectors.base import Options

__all__ = ["Oai"]

_EXPLAINED = frozenset(range(400, 600)) - {401, 403, 408, 425, 429, 503}
_MARKS = (b"<OAI-PMH", b":OAI-PMH")


class Oai(CatalogConnector):
    """Reads the records of an OAI-PMH repository."""

    kind: ClassVar[str] = "oai"
    Options: "ClassVar[type[Options]]" = OaiOptions
    recognise = staticmethod(recognise)
    accept = staticmethod(accept)

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """The repository at an address: itself tells, or what it answers when asked who it is."""
        if probe.page is not None and _is_oai(probe.page.body):
            return accept(probe.url)
        base = accept(probe.base if probe.base != probe.origin else f"{probe.origin}/oai")
        answer = await probe.get(ask(base, "Identify"), accept="text/xml, */*;q=0.5") if base else None
        return base if answer is not None and _is_oai(answer.body) else None

    async def _observe(self, client: Client, known: Known) -> AsyncGenerator[Observation]:
        held = Noted(known)
        portal = PortalClient(client, self._url, self._options, now=self._tools.now, explained=_EXPLAINED)
        # Fewer records cannot be asked for, so that more time is all there is to give.
        portal.size.limit_s = LONGEST_LIMIT_S
        repository = Repository(portal, self._url, self._options)
        await repository.open(held)
        async with aclosing(noted(self._refresh(repository, held), repository.notes)) as observations:
            async for observation in observations:
                yield observation


def _is_oai(body: bytes) -> bool:
    return body.lstrip()[:1] in (b"<", b"\xef") and any(mark in body[:2000] for mark in _MARKS)
