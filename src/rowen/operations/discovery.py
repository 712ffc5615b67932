"""Discovery: a brief probe finds the kind of an address, and whether a package exists."""

import asyncio
import logging
from collections.abc import Callable, Container, Iterable
from typing import NamedTuple

from rowen.connectors import registry
from rowen.errors import (
    ConfigurationError,
    FetchError,
    Hint,
    RowenError,
    SourceError,
    SourceGoneError,
    UsageError,
    action,
)
from rowen.harvest.engine import Engine
from rowen.model.sources import Source
from rowen.operations.same_portal import SameAs
from rowen.settings import Settings

__all__ = ["Announce", "Discovery", "Recognised", "Unconfirmed", "confirm", "discover", "kept_as"]

LIMIT_S = 20.0
"""Twelve requests to a slow portal; a person who typed `rowen add` waits that long once."""

MOST_DELAY_S = 0.2
"""A few requests, one after the other, may come a little quicker than those of a walk."""

# Too Many Requests.
_BUSY = 429
_HINT = "Nothing was added. Try again later, or name its kind with --kind: then it is not asked."

log = logging.getLogger(__name__)


_NAMES = {
    "arcgis": "an ArcGIS Hub",
    "ckan": "a CKAN portal",
    "csw": "a CSW catalog",
    "datajson": "a data.json",
    "dcat": "a DCAT catalog",
    "feed": "a feed",
    "ldes": "an event stream",
    "oai": "an OAI-PMH repository",
    "opendatasoft": "an OpenDataSoft portal",
    "sdmx": "an SDMX service",
    "socrata": "a Socrata portal",
    "sparql": "a SPARQL endpoint",
    "stac": "a STAC catalog",
}


class Discovery(NamedTuple):
    """The kind that was found at an address."""

    kind: str
    url: str

    @property
    def words(self) -> Hint:
        """Describe the result, and how to choose otherwise."""
        found = f"Found {_NAMES.get(self.kind, 'a source')} at {self.url}: kind {self.kind}. "
        return Hint(found, action("add", self.url, kind="web"), " crawls the site instead.")


class Unconfirmed(NamedTuple):
    """A source that was added although its existence could not be confirmed, with the reason."""

    address: str
    why: str

    @property
    def words(self) -> Hint:
        """Describe what is unknown, and the consequence."""
        return Hint(f"Nobody could tell whether there is {self.address}: {self.why} It is kept; a sync will tell.")


class Recognised(NamedTuple):
    """Kind and URL of a source, and further addresses of the same portal: its redirect target, its own name."""

    kind: str
    url: str
    also: tuple[str, ...] = ()


Announce = Callable[[Discovery | Unconfirmed | SameAs], None]


async def discover(url: str, settings: Settings, *, held_kinds: Container[str] = ()) -> Recognised | None:
    """Return the kind that recognises an address by a probe, and its URL; None if that takes too long.

    The portal's own name is requested only if other sources of its kind exist. Raises if the address does not answer,
    or reports an outage.
    """
    from rowen.connectors.probe import Probe
    from rowen.net.client import Client
    from rowen.net.target import redact

    paced = settings.model_copy(update={"host_delay_s": min(settings.host_delay_s, MOST_DELAY_S)})
    found = None
    also: tuple[str, ...] = ()
    try:
        async with Client(paced) as client, asyncio.timeout(LIMIT_S):
            probe = Probe(client, url)
            await probe.begin()
            found = await registry.discover(probe)
            kind = found[0] if found else "web"
            also = await registry.other_addresses(probe, kind, may_ask=kind in held_kinds)
    except FetchError as problem:
        problem.hint = problem.hint or _HINT
        raise
    except TimeoutError:
        log.warning("could not find out in %.0f s what %s is; it was taken for a web site", LIMIT_S, redact(url))
        return None
    if found is None and (probe.status >= 500 or probe.status == _BUSY):
        raise SourceError(f"{redact(url)} answered with status {probe.status}.", hint=_HINT)
    return Recognised(*(found or ("web", url)), also)


async def confirm(engine: Engine, source: Source, *, address: str) -> Unconfirmed | None:
    """Check that a package exists; raise if it does not. A registry that does not answer is ignored."""
    try:
        async with asyncio.timeout(LIMIT_S):
            await engine.confirm(source)
    except SourceGoneError as problem:
        raise SourceGoneError(f"{problem} Nothing was added.", hint=problem.hint) from problem
    except RowenError as problem:
        # That pip or npm are not set up says nothing of the package; other mistakes are those of who adds it.
        if isinstance(problem, UsageError) and not isinstance(problem, ConfigurationError):
            raise
        return Unconfirmed(address, str(problem))
    except TimeoutError:
        return Unconfirmed(address, f"there was no answer in {LIMIT_S:.0f} s.")
    return None


def kept_as(url: str, sources: Iterable[Source]) -> Source | None:
    """Return the source that already has an address: as a web site, or as the kind found before."""
    kept = [source for source in sources if source.kind in registry.kinds()]
    kept.sort(key=lambda one: one.kind != "web")
    return next((one for one in kept if registry.accepted(url, registry.connector(one.kind)) == one.url), None)
