"""Discovery: probe an address for its kind, check whether a package exists, and detect sources of the same portal.

Two addresses belong to one portal if they differ only by scheme, `www.`, a final slash or the name of an index, if one
redirects to the other, if the portal names the other as its own, or if the option `aliases` lists the other.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

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
from rowen.model.url import canonical
from rowen.net.target import redact
from rowen.settings import Settings

_INDEX = re.compile(r"/(?:index|default)\.(?:html?|php|aspx?)$", re.IGNORECASE)
_SCHEME = re.compile(r"https?://(?:www\.)?", re.IGNORECASE)


class Site(NamedTuple):
    """The parts of a source that identify its portal: kind, URL and options."""

    kind: str
    url: str
    options: Mapping[str, Any]
    also: Sequence[str] = ()

    @property
    def names(self) -> set[str]:
        """Return all names by which the portal is known."""
        aliases = self.options.get("aliases")
        addresses = [self.url, *self.also, *(aliases if isinstance(aliases, list | tuple) else ())]
        connector = registry.connector(self.kind)
        own = (registry.accepted(str(address), connector) or str(address) for address in addresses)
        return set(filter(None, map(name_of, own)))

    @property
    def listing(self) -> dict[str, Any] | None:
        """Return the options that select a part of the portal; None if they belong to another version of Rowen."""
        try:
            return registry.check_options(self.kind, dict(self.options)).listing()
        except UsageError:
            return None


class SameAs(NamedTuple):
    """The existing source of the same portal."""

    address: str
    source: str

    @property
    def words(self) -> Hint:
        """Describe the duplicate, and how to avoid it."""
        text = f"{self.address} is the portal that is kept as {self.source!r}: both are harvested. "
        return Hint(text, action("remove", self.source), " keeps the new one alone.")


def same_as(site: Site, sources: Iterable[Source], *, whatever_is_read: bool = True) -> Source | None:
    """Return the existing source of the same portal and kind, if there is one.

    Unless `whatever_is_read` is set, the source must also read the same part of the portal.
    """
    of_kind = [source for source in sources if source.kind == site.kind and source.kind in registry.kinds()]
    names = site.names if of_kind else set()
    for source in of_kind:
        other = Site(source.kind, source.url, source.options)
        is_same = source.url == site.url or not names.isdisjoint(other.names)
        if is_same and (whatever_is_read or site.listing == other.listing):
            return source
    return None


class KnownParts:
    """An index of the parts of portals that sources read; a lookup takes the same time among ten thousand sources."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self._by_key: dict[tuple[str, str, str], tuple[int, Source]] = {}
        for source in sources:
            self.add(source)

    def add(self, source: Source) -> None:
        """Add one source."""
        if source.kind in registry.kinds():
            for key in _keys(Site(source.kind, source.url, source.options)):
                self._by_key.setdefault(key, (len(self._by_key), source))

    def find(self, site: Site) -> Source | None:
        """Return the first source that reads the same part of the same portal; None if there is none."""
        known = [self._by_key[key] for key in _keys(site) if key in self._by_key]
        return min(known, key=itemgetter(0))[1] if known else None


def _keys(site: Site) -> set[tuple[str, str, str]]:
    part = repr(site.listing)
    return {(site.kind, name, part) for name in {site.url, *site.names}}


def name_of(url: str) -> str:
    """Return a web address without the parts that do not matter; empty if `url` is not a web address."""
    if not _SCHEME.match(url):
        return ""
    try:
        plain = canonical(url)
    except ValueError:
        return ""
    return _INDEX.sub("/", _SCHEME.sub("", plain, count=1)).rstrip("/")


LIMIT_S = 20.0
"""The time for twelve requests to a slow portal; a user of `rowen add` waits so long only once."""

MOST_DELAY_S = 0.2
"""The maximum delay between requests of a probe: a few requests may follow each other faster than those of a walk."""

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
    """The kind that was detected at an address."""

    kind: str
    url: str

    @property
    def words(self) -> Hint:
        """Describe the result, and how to choose another kind."""
        text = f"Found {_NAMES.get(self.kind, 'a source')} at {self.url}: kind {self.kind}. "
        return Hint(text, action("add", self.url, kind="web"), " crawls the site instead.")


class Unconfirmed(NamedTuple):
    """A source that was added although its existence could not be confirmed, and the reason."""

    address: str
    why: str

    @property
    def words(self) -> Hint:
        """Describe what could not be confirmed, and the consequence."""
        return Hint(f"Nobody could tell whether there is {self.address}: {self.why} It is kept; a sync will tell.")


class Recognised(NamedTuple):
    """The kind and URL of a source, and other addresses of the same portal: its redirect target, its own name."""

    kind: str
    url: str
    also: tuple[str, ...] = ()


Announce = Callable[[Discovery | Unconfirmed | SameAs], None]


async def discover(url: str, settings: Settings, *, held_kinds: Container[str] = ()) -> Recognised | None:
    """Return the kind and URL that a probe of an address finds; None if the probe takes too long.

    The portal's own name is requested only if other sources of this kind exist. Raise an error if the address does not
    answer or reports an outage.
    """
    # These imports load aiohttp, which a sync of a folder does not need.
    from rowen.connectors.probe import Probe
    from rowen.net.client import Client

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
    """Check that a package exists; raise an error if it does not, or if the address is wrong.

    Return `Unconfirmed` if the registry does not answer.
    """
    try:
        async with asyncio.timeout(LIMIT_S):
            await engine.confirm(source)
    except SourceGoneError as problem:
        raise SourceGoneError(f"{problem} Nothing was added.", hint=problem.hint) from problem
    except RowenError as problem:
        # A missing setup of pip or npm proves nothing about the package; other usage errors are the user's.
        if isinstance(problem, UsageError) and not isinstance(problem, ConfigurationError):
            raise
        return Unconfirmed(address, str(problem))
    except TimeoutError:
        return Unconfirmed(address, f"there was no answer in {LIMIT_S:.0f} s.")
    return None


def kept_as(url: str, sources: Iterable[Source]) -> Source | None:
    """Return the existing source of an address, as a web site or as the kind found before; None if there is none."""
    installed = [source for source in sources if source.kind in registry.kinds()]
    installed.sort(key=lambda source: source.kind != "web")
    same = (source for source in installed if registry.accepted(url, registry.connector(source.kind)) == source.url)
    return next(same, None)
