"""A change as a signed message to a receiver, and what its answer means."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network
from random import Random
from typing import Any, Literal, TypeAlias

from rowen import programs
from rowen.errors import ConfigurationError, FetchError
from rowen.model.changes import Change, PublishedChange
from rowen.model.text import attempt
from rowen.model.webhooks import webhook_signature
from rowen.publish.feeds import as_text, diff_of_change, field_lines, summary
from rowen.version import how_to_install

__all__ = ["GIVE_UP", "MOST_IN_A_NOTICE", "Verdict", "message", "notice", "send", "verdict", "wait_s"]

# Made once: to make it costs as much as a message.
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
Verdict: TypeAlias = Literal["delivered", "failed", "gone"]
# A restart, a deployment, a night, a weekend: the longer a receiver is away, the less another try tells.
_WAITS_S = (5.0, 60.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0, 86_400.0)
# Receivers that failed together are not called together.
_JITTER = 0.2
GIVE_UP = timedelta(days=5)
"""A receiver that failed for so long is disabled: a long weekend is no reason, a week says that nobody is there."""
MOST_IN_A_NOTICE = 20
"""Changes in one message: a screen. The others follow in the next one."""
# Services cut messages at 2,000 to 4,000 characters; what a change changed is shown from its beginning.
_DIFF_CHARS = 600
# Some services answer slowly, and Apprise tries none twice.
_LIMIT_S = 60.0
_CHILD = "from rowen.publish.notifier import main\nmain()"


@dataclass(frozen=True, slots=True)
class SignedMessage:
    """What is sent: the same change has the same id, however often it is sent."""

    headers: dict[str, str]
    body: bytes


def message(webhook_id: int, change: Change, *, secrets: Sequence[str], timestamp: int) -> SignedMessage:
    """Return the message about one line of the log."""
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
        "webhook-signature": " ".join(
            webhook_signature(secret, message_id, str(timestamp), body) for secret in secrets
        ),
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
    """Return how long to wait after so many failures in a row."""
    base = _WAITS_S[min(failures, len(_WAITS_S)) - 1]
    return base * (1 + _JITTER * (2 * random.random() - 1))


def notice(changes: Sequence[PublishedChange]) -> tuple[str, str]:
    """Subject and text of a message about some changes."""
    first = changes[0].change
    more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
    subject = f"{first.kind}: {first.title or first.url}{more}"
    return subject, "\n\n".join(map(_told, changes))


def _told(published: PublishedChange) -> str:
    change = published.change
    lines = [f"{change.kind} in {change.source}: {change.title}", change.url]
    about = attempt(lambda: _about(published), lambda _: "")
    if len(about) > _DIFF_CHARS:
        about = about[:_DIFF_CHARS] + "…"
    return "\n".join([*lines, about] if about else lines)


def _about(published: PublishedChange) -> str:
    diff = diff_of_change(published)
    return "\n".join(field_lines(published.change)) or (as_text(diff) if diff else summary(published))


async def send(
    address: str, subject: str, text: str, *, allowed: Sequence[IPv4Network | IPv6Network], limit_s: float = _LIMIT_S
) -> None:
    """Send a message; raises if it could not be sent. The address is never told in an error."""
    child = await programs.start(
        programs.isolated_python(_CHILD),
        environment=programs.environment("SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "NO_PROXY"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    asked = {"address": address, "subject": subject, "text": text, "allowed": [str(network) for network in allowed]}
    try:
        async with asyncio.timeout(limit_s):
            answer, _ = await child.communicate(json.dumps(asked).encode())
    except TimeoutError:
        raise FetchError(f"The message was not sent within {limit_s:.0f} s.") from None
    finally:
        await programs.end(child)
    match answer.decode().strip():
        case "sent":
            return
        case "missing":
            raise ConfigurationError(
                "Messages to people need Apprise.", hint=f"`{how_to_install('notify')}` installs it."
            )
        case "unreadable":
            raise ConfigurationError(
                "The address of the notice is none of a service on the network that Apprise knows. Nothing was sent."
            )
        case refused if refused.startswith("refused "):
            raise FetchError(f"The message was not sent: {refused.removeprefix('refused ')} is not a public address.")
    raise FetchError("The service did not take the message.")
