"""Webhooks: receivers that are called when something changes, and what became of the calls."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from rowen.model.run import ChangeKind

__all__ = ["Delivery", "Webhook", "WebhookFilter", "WebhookForm", "WebhookState"]

WebhookForm: TypeAlias = Literal["webhook", "notice"]
WebhookState: TypeAlias = Literal["active", "paused", "disabled"]


@dataclass(frozen=True, slots=True)
class WebhookFilter:
    """Which changes a receiver is told of: of some sources, of some kinds, of items that have the words of a query."""

    sources: tuple[str, ...] = ()
    kinds: tuple[ChangeKind, ...] = ()
    query: str | None = None


@dataclass(frozen=True, slots=True)
class Webhook:
    """One receiver: a program at a URL, or people (`notice`), whose `url` is a reference to where it is found.

    `after` is the number up to which every change is delivered or not wanted; `ahead` are later ones that were
    delivered. `replays` counts how often somebody chose another number. `failures` counts calls in a row that failed,
    `next_try_at` says when it is called again. One that failed for days, or said that it is gone, is `disabled`.
    """

    id: int
    name: str
    url: str
    secrets: tuple[str, ...]
    wants: WebhookFilter
    after: int
    state: WebhookState
    failures: int
    failing_since: datetime | None
    next_try_at: datetime | None
    last_error: str | None
    created_at: datetime
    ahead: tuple[int, ...] = ()
    waiting: int = 0
    form: WebhookForm = "webhook"
    replays: int = 0


@dataclass(frozen=True, slots=True)
class Delivery:
    """One call of a receiver: for which change, and what it answered."""

    webhook: str
    number: int
    at: datetime
    status: int | None
    error: str | None
    seconds: float
