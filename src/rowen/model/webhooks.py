"""Webhooks: receivers that are called about changes, deliveries to them, and signatures of calls in both directions.

All secrets are derived from one key in the settings, one secret for each sender. The database contains no secret.
"""

import base64
import hmac
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from rowen.model.changes import ChangeKind

WebhookForm: TypeAlias = Literal["webhook", "notice"]
WebhookState: TypeAlias = Literal["active", "paused", "disabled"]


@dataclass(frozen=True, slots=True)
class WebhookFilter:
    """The changes that a receiver gets: of some sources, of some kinds, of items that contain the words of a query."""

    sources: tuple[str, ...] = ()
    kinds: tuple[ChangeKind, ...] = ()
    query: str | None = None


@dataclass(frozen=True, slots=True)
class Webhook:
    """One receiver: a program at a URL, or people (`notice`), whose `url` is a reference to a secret.

    All changes up to `after` are delivered or filtered out; `ahead` are later changes that were delivered already.
    `replays` counts how often a user changed `after`. `failures` counts consecutive failed calls, `next_try_at` is the
    time of the next call. A receiver that failed for days, or reported that it is gone, is `disabled`.
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
    """One call of a receiver: the change that was sent, and the response."""

    webhook: str
    number: int
    at: datetime
    status: int | None
    error: str | None
    seconds: float


# The methods of WebSub (W3C WebSub, 8); GitHub uses the second. The known attacks on SHA-1 do not apply to HMAC.
_METHODS = frozenset({"sha1", "sha256", "sha384", "sha512"})
WEBHOOK_PREFIX = "whsec_"
"""The prefix of a Standard Webhooks secret, followed by base64."""

# A sender may use several secrets while it replaces one; more signatures indicate an attempt to guess.
_MOST_SIGNATURES = 8


def derived(key: bytes, *purpose: str) -> bytes:
    """Return a secret for one purpose, which cannot be computed from the secrets for other purposes."""
    return hmac.digest(key, json.dumps(purpose).encode(), "sha256")


def is_hub_signed(header: str | None, body: bytes, secret: str) -> bool:
    """Return whether a body was signed with `secret`, in the notation of hubs and GitHub: `sha256=…` in hexadecimal."""
    method, equals, signature = (header or "").strip().partition("=")
    if method.lower() not in _METHODS or not equals:
        return False
    expected = hmac.new(secret.encode(), body, method.lower()).hexdigest()
    return hmac.compare_digest(expected.encode(), signature.strip().lower().encode("utf-8", "replace"))


def webhook_secret(key: bytes) -> str:
    """Return a key in the notation of Standard Webhooks."""
    return WEBHOOK_PREFIX + base64.b64encode(key).decode()


def webhook_key(secret: str) -> bytes | None:
    """Return the key in a secret; None if the secret is not base64, and therefore is the key itself.

    Padding may be missing, as in the libraries of Standard Webhooks.
    """
    text = secret.removeprefix(WEBHOOK_PREFIX)
    try:
        return base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), validate=True)
    except ValueError:
        return None


def webhook_signature(secret: str, delivery: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a body according to Standard Webhooks, version 1."""
    key = webhook_key(secret) or secret.encode("utf-8", "replace")
    content = f"{delivery}.{timestamp}.".encode("utf-8", "replace") + body
    return "v1," + base64.b64encode(hmac.digest(key, content, "sha256")).decode()


def is_webhook_signed(header: str | None, secret: str, *, delivery: str, timestamp: str, body: bytes) -> bool:
    """Return whether one of the signatures in a header is valid; all signatures are compared, in constant time."""
    expected = webhook_signature(secret, delivery, timestamp, body).encode()
    signatures = [signature.encode("utf-8", "replace") for signature in (header or "").split()[:_MOST_SIGNATURES]]
    return any([hmac.compare_digest(expected, signature) for signature in signatures])  # noqa: C419 (constant time)
