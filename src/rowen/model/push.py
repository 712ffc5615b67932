"""Push: calls by which sources report changes, subscriptions to hubs, and documents that feeds announce."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias

from rowen.model.url import without_session

SubscriptionState: TypeAlias = Literal["pending", "active", "denied", "ending"]


@dataclass(frozen=True, slots=True)
class Poked:
    """A source that a push will check: `urls` of its items, or all of it (0); `merged`: its job was already waiting."""

    source: str
    job: int
    urls: int = 0
    merged: bool = False


@dataclass(frozen=True, slots=True)
class PushVerdict:
    """The answer of an interface to a push: HTTP status, body, and its consequences.

    `retry_in_s` is set for callers that are rate-limited.
    """

    status: int
    body: str = ""
    poked: tuple[Poked, ...] = ()
    retry_in_s: float | None = None

    @property
    def accepted(self) -> bool:
        """Whether the push was authenticated."""
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class PushAccess:
    """The URL that a sender of one source calls, and its signing secret, which is never stored."""

    way: Literal["github", "call"]
    url: str | None
    secret: str


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription of a source to a hub: its topic, its expiry, and its next renewal."""

    source: str
    topic: str
    hub: str
    state: SubscriptionState
    asked_at: datetime
    expires_at: datetime | None = None
    renew_at: datetime | None = None
    error: str | None = None


class Announcement(NamedTuple):
    """An entry of a feed that points at a document, after the line `number` of the change log.

    `name` identifies the document in all versions, `member` one version. A deleted entry, or one without a document,
    has no `location`.
    """

    number: int
    name: str
    location: str | None = None
    member: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class AnnouncedDocument:
    """The outcome of an announcement, with its run and job."""

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
    """Return the announcement in the record of an entry; for a deleted entry, an announcement without a location."""
    if record is None:
        return Announcement(number, url)
    name = str(record.get("version_of") or url)
    head, sign, fragment = name.partition("#")
    if sign and not fragment.startswith(("/", "!")):
        # A fragment would be dropped; a route stays.
        name = f"{head}#/{fragment}"
    location = next(_locations(record), None)
    if location is None:
        return Announcement(number, name)
    member, at = record.get("member") or url, record.get("time") or ""
    return Announcement(number, name, without_session(location), str(member), str(at))


def _locations(record: Mapping[str, Any]) -> Iterator[str]:
    tree = record.get("rdf")
    if not isinstance(tree, Mapping):
        return
    inside = tree.get("@graph")
    for part in (tree, *(inside if isinstance(inside, Sequence) else ())):
        value = part.get("prov:atLocation") if isinstance(part, Mapping) else None
        for inner in value if isinstance(value, list) else [value]:
            location = (inner.get("@id") or inner.get("@value")) if isinstance(inner, Mapping) else inner
            if isinstance(location, str) and location.startswith(("http://", "https://")):
                yield location
