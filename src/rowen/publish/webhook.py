"""A change as a signed message to a receiver, and what its answer means."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any, Literal, TypeAlias

from rowen.model.changes import Change
from rowen.model.text import attempt
from rowen.model.webhooks import webhook_signature

__all__ = ["GIVE_UP", "SignedMessage", "Verdict", "message", "verdict", "wait_s"]

# Made once: to make it costs as much as a message.
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

Verdict: TypeAlias = Literal["delivered", "failed", "gone"]

# A restart, a deployment, a night, a weekend: the longer a receiver is away, the less another try tells.
_WAITS_S = (5.0, 60.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0, 86_400.0)
# Receivers that failed together are not called together.
_JITTER = 0.2
GIVE_UP = timedelta(days=5)
"""A receiver that failed for so long is disabled: a long weekend is no reason, a week says that nobody is there."""


@dataclass(frozen=True, slots=True)
class SignedMessage:
    """What is sent: the same change has the same id, however often it is sent."""

    headers: dict[str, str]
    body: bytes


def message(webhook_id: int, change: Change, *, secrets: Sequence[str], timestamp: int) -> SignedMessage:
    """The message about one line of the log."""
    told: dict[str, Any] = {
        "type": f"item.{change.kind}" if change.kind not in {"failing", "recovered"} else f"source.{change.kind}",
        "timestamp": change.at.isoformat(),
        "data": {
            "number": change.number,
            "kind": change.kind,
            "url": change.url,
            "title": change.title,
            "source": change.source,
            "moved_from": change.moved_from,
            "schema": change.schema,
            "diff": change.diff,
        },
    }
    # What differs comes from pages and models. A change that cannot be written with it is told without it.
    body = attempt(lambda: _encoded(told), lambda _: _encoded({**told, "data": {**told["data"], "diff": None}}))
    message_id = f"rowen-{webhook_id}-{change.number}"
    headers = {
        "Content-Type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        # One for each secret, so that one can be changed without a gap.
        "webhook-signature": " ".join(webhook_signature(one, message_id, str(timestamp), body) for one in secrets),
    }
    return SignedMessage(headers, body)


def _encoded(told: dict[str, Any]) -> bytes:
    return _JSON.encode(told).encode("utf-8", "replace")


def verdict(status: int) -> Verdict:
    """What a status means. A redirect is a failure: the signature was made for the address that the user gave."""
    if 200 <= status < 300:
        return "delivered"
    return "gone" if status == 410 else "failed"


def wait_s(failures: int, random: Random) -> float:
    """How long to wait after so many failures in a row."""
    base = _WAITS_S[min(failures, len(_WAITS_S)) - 1]
    return base * (1 + _JITTER * (2 * random.random() - 1))
