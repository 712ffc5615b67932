"""What a feed announces: a document, where it lies, and which version of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from rowen.model.url import without_session

__all__ = ["AnnouncedDocument", "Announcement", "announcement_of"]


class Announcement(NamedTuple):
    """An entry of a feed that points at a document, after the line `number` of the change log.

    `name` is that of the document whatever its version, `member` that of the version. One that is gone, or points at
    nothing, has no `location`.
    """

    number: int
    name: str
    location: str | None = None
    member: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class AnnouncedDocument:
    """What became of an announcement: with which run and job, and how that ended."""

    name: str
    location: str
    member: str
    announced_at: str
    outcome: str
    why: str | None = None
    run: int | None = None
    job: int | None = None
    visited_at: datetime | None = None


def announcement_of(number: int, url: str, record: Mapping[str, Any] | None) -> Announcement:
    """The announcement in the record of an entry; of one that is no more, that it is gone."""
    if record is None:
        return Announcement(number, url)
    name = _item_url(str(record.get("version_of") or url))
    location = next(_locations(record), None)
    if location is None:
        return Announcement(number, name)
    member, at = record.get("member") or url, record.get("time") or ""
    return Announcement(number, name, without_session(location), str(member), str(at))


def _item_url(name: str) -> str:
    """The URL that items of this name have: a fragment is a route there, which tells nodes of one document apart."""
    head, sign, fragment = name.partition("#")
    return name if not sign or fragment.startswith(("/", "!")) else f"{head}#/{fragment}"


def _locations(record: Mapping[str, Any]) -> Iterator[str]:
    tree = record.get("rdf")
    if not isinstance(tree, Mapping):
        return
    inside = tree.get("@graph")
    for part in (tree, *(inside if isinstance(inside, Sequence) else ())):
        value = part.get("prov:atLocation") if isinstance(part, Mapping) else None
        for one in value if isinstance(value, list) else [value]:
            found = (one.get("@id") or one.get("@value")) if isinstance(one, Mapping) else one
            if isinstance(found, str) and found.startswith(("http://", "https://")):
                yield found
