"""Push: calls by which sources report changes, subscriptions to hubs, and documents that feeds announce."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias

from rowen.model.url import without_session

SubscriptionState: TypeAlias = Literal["pending", "active", "denied", "ending"]


@dataclass(frozen=True, slots=True)
class Poked:
    """A source that will be checked after a push, and its job.

    `urls` is the number of its items to check, 0 for the whole source. `merged` says that the job was already waiting.
    """

    source: str
    job: int
    urls: int = 0
    merged: bool = False


@dataclass(frozen=True, slots=True)
class PushVerdict:
    """The response of an interface to a push: HTTP status, body, and consequences.

    `retry_in_s` is set if the caller is rate-limited.
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
    """The URL that senders of one source call, and their signing secret, which is never stored."""

    way: Literal["github", "call"]
    url: str | None
    secret: str


@dataclass(frozen=True, slots=True)
class Subscription:
    """The subscription of a source to a hub: the topic, the expiry, and the next renewal."""

    source: str
    topic: str
    hub: str
    state: SubscriptionState
    asked_at: datetime
    expires_at: datetime | None = None
    renew_at: datetime | None = None
    error: str | None = None


class Announcement(NamedTuple):
    """An entry of a feed that links to a document, in the version of line `number` of the change log.

    `name` identifies the document in all its versions, `member` identifies one version. `location` is None if the
    entry was deleted or links to no document.
    """

    number: int
    name: str
    location: str | None = None
    member: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class AnnouncedDocument:
    """The outcome of an announcement, with its run and its job."""

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
    """Return the announcement in the record of an entry; its location is None if the entry was deleted."""
    if record is None:
        return Announcement(number, url)
    name = str(record.get("version_of") or url)
    head, sign, fragment = name.partition("#")
    if sign and not fragment.startswith(("/", "!")):
        # `canonical` would drop a fragment; a fragment that is a route stays.
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
