"""Push: what a source's own word led to, what a caller is answered, and subscriptions to hubs."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

__all__ = ["Poked", "PushAccess", "PushVerdict", "Subscription", "SubscriptionState"]

SubscriptionState: TypeAlias = Literal["pending", "active", "denied", "ending"]


@dataclass(frozen=True, slots=True)
class Poked:
    """A source that will be looked at because somebody said so: `urls` of its items, or all of it if that is 0.

    `merged` says that a job waited for it already.
    """

    source: str
    job: int
    urls: int = 0
    merged: bool = False


@dataclass(frozen=True, slots=True)
class PushVerdict:
    """The answer of an interface to a push: HTTP status, body, and what follows.

    `retry_in_s` is for who comes too often.
    """

    status: int
    body: str = ""
    poked: tuple[Poked, ...] = ()
    retry_in_s: float | None = None

    @property
    def accepted(self) -> bool:
        """Whether the sender was believed."""
        return 200 <= self.status < 300


@dataclass(frozen=True, slots=True)
class PushAccess:
    """Where a sender of one source is to call, and the secret that it signs with; never stored."""

    way: Literal["github", "call"]
    url: str | None
    secret: str


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription of a source to a hub: what is announced there, until when, and when it is renewed."""

    source: str
    topic: str
    hub: str
    state: SubscriptionState
    asked_at: datetime
    expires_at: datetime | None = None
    renew_at: datetime | None = None
    error: str | None = None
