"""Detection of a portal that is already a source under another address.

Two addresses belong to one portal if they differ only by scheme, `www.`, a final slash or the name of an index, if one
redirects to the other, if the portal names the other as its own, or if the option `aliases` says so.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from rowen.connectors import registry
from rowen.errors import Hint, UsageError, action
from rowen.model.sources import Source
from rowen.model.url import canonical

__all__ = ["KnownParts", "SameAs", "Site", "name_of", "same_as"]

_INDEX = re.compile(r"/(?:index|default)\.(?:html?|php|aspx?)$", re.IGNORECASE)
_SCHEME = re.compile(r"https?://(?:www\.)?", re.IGNORECASE)


class Site(NamedTuple):
    """The parts of a source that identify its portal."""

    kind: str
    url: str
    options: Mapping[str, Any]
    also: Sequence[str] = ()

    @property
    def names(self) -> set[str]:
        """Return all names of the portal."""
        aliases = self.options.get("aliases")
        told = [self.url, *self.also, *(aliases if isinstance(aliases, list | tuple) else ())]
        return set(filter(None, (name_of(self._own(str(one))) for one in told)))

    @property
    def listing(self) -> dict[str, Any] | None:
        """Return the part of the portal that is read; None if the options belong to another version."""
        try:
            return registry.check_options(self.kind, dict(self.options)).listing()
        except UsageError:
            return None

    def _own(self, address: str) -> str:
        return registry.accepted(address, registry.connector(self.kind)) or address


class SameAs(NamedTuple):
    """The existing source of the same portal."""

    address: str
    source: str

    @property
    def words(self) -> Hint:
        """Describe the duplicate, and how to avoid it."""
        told = f"{self.address} is the portal that is kept as {self.source!r}: both are harvested. "
        return Hint(told, action("remove", self.source), " keeps the new one alone.")


def same_as(site: Site, held: Iterable[Source], *, whatever_is_read: bool = True) -> Source | None:
    """Return the source of the same portal and kind; unless `whatever_is_read`, only one that reads the same part."""
    kept = [one for one in held if one.kind == site.kind and one.kind in registry.kinds()]
    if not kept:
        return None
    names = site.names
    for one in kept:
        other = Site(one.kind, one.url, one.options)
        is_same = one.url == site.url or not names.isdisjoint(other.names)
        if is_same and (whatever_is_read or site.listing == other.listing):
            return one
    return None


class KnownParts:
    """The parts of portals that sources read, indexed, so that a lookup costs the same among ten thousand."""

    def __init__(self, held: Iterable[Source]) -> None:
        self._found: dict[tuple[str, str, str], tuple[int, Source]] = {}
        for source in held:
            self.add(source)

    def add(self, source: Source) -> None:
        """Add one source."""
        if source.kind in registry.kinds():
            for key in _keys(Site(source.kind, source.url, source.options)):
                self._found.setdefault(key, (len(self._found), source))

    def find(self, site: Site) -> Source | None:
        """Return the first source that reads the same part of the same portal."""
        found = [self._found[key] for key in _keys(site) if key in self._found]
        return min(found, key=itemgetter(0))[1] if found else None


def _keys(site: Site) -> set[tuple[str, str, str]]:
    part = repr(site.listing)
    return {(site.kind, name, part) for name in {site.url, *site.names}}


def name_of(url: str) -> str:
    """Return a web address without insignificant parts; empty if it is none."""
    if not _SCHEME.match(url):
        return ""
    try:
        plain = canonical(url)
    except ValueError:
        return ""
    return _INDEX.sub("/", _SCHEME.sub("", plain, count=1)).rstrip("/")
