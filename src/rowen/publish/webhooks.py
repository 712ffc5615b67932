"""Messages about changes: signed messages to webhooks, messages to people, and the meaning of responses."""

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

# Created once, since creating it takes as long as a message.
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
Verdict: TypeAlias = Literal["delivered", "failed", "gone"]
# A restart, a deployment, a night, a weekend: the longer a receiver is unavailable, the rarer are the attempts.
_WAITS_S = (5.0, 60.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0, 86_400.0)
# Receivers that failed at the same time must not be called at the same time.
_JITTER = 0.2
GIVE_UP = timedelta(days=5)
"""A receiver that failed for this time is disabled: longer than a long weekend, shorter than a week."""
MOST_IN_A_NOTICE = 20
"""The maximum number of changes in one message, which fill a screen. Further changes follow in the next message."""
# Services truncate messages at 2,000 to 4,000 characters; only the beginning of a long difference is shown.
_DIFF_CHARS = 600
# Some services respond slowly, and Apprise does not retry.
_LIMIT_S = 60.0
_CHILD = "from rowen.publish.notifier import main\nmain()"


@dataclass(frozen=True, slots=True)
class SignedMessage:
    """The headers and body of a message; all attempts to send a change have the same id."""

    headers: dict[str, str]
    body: bytes


def message(webhook_id: int, change: Change, *, secrets: Sequence[str], timestamp: int) -> SignedMessage:
    """Return the message about one line of the change log."""
    content: dict[str, Any] = {
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
    without_diff = {**content, "data": {**content["data"], "diff": None}}
    # The difference is computed from foreign text. If that fails, the change is sent without it.
    text = attempt(lambda: _JSON.encode(content), lambda _: _JSON.encode(without_diff))
    body = text.encode("utf-8", "replace")
    message_id = f"rowen-{webhook_id}-{change.number}"
    # One signature for each secret, so that a secret can be replaced without interruption.
    signatures = (webhook_signature(secret, message_id, str(timestamp), body) for secret in secrets)
    headers = {
        "Content-Type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signatures),
    }
    return SignedMessage(headers, body)


def verdict(status: int) -> Verdict:
    """Return the result of a call from its status.

    A redirect is a failure: the signature is only for the address that the user gave.
    """
    if 200 <= status < 300:
        return "delivered"
    return "gone" if status == 410 else "failed"


def wait_s(failures: int, random: Random) -> float:
    """Return the delay after `failures` consecutive failures."""
    base = _WAITS_S[min(failures, len(_WAITS_S)) - 1]
    return base * (1 + _JITTER * (2 * random.random() - 1))


def notice(changes: Sequence[PublishedChange]) -> tuple[str, str]:
    """Return the subject and text of a message about some changes."""
    first = changes[0].change
    more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
    subject = f"{first.kind}: {first.title or first.url}{more}"
    return subject, "\n\n".join(map(_paragraph, changes))


def _paragraph(published: PublishedChange) -> str:
    change = published.change
    lines = [f"{change.kind} in {change.source}: {change.title}", change.url]
    content = attempt(lambda: _content(published), lambda _: "")
    if len(content) > _DIFF_CHARS:
        content = content[:_DIFF_CHARS] + "…"
    return "\n".join([*lines, content] if content else lines)


def _content(published: PublishedChange) -> str:
    diff = diff_of_change(published)
    return "\n".join(field_lines(published.change)) or (as_text(diff) if diff else summary(published))


async def send(
    address: str, subject: str, text: str, *, allowed: Sequence[IPv4Network | IPv6Network], limit_s: float = _LIMIT_S
) -> None:
    """Send a message to people; raise an error on failure. Errors never contain the address, since it is secret."""
    child = await programs.start(
        programs.isolated_python(_CHILD),
        environment=programs.environment("SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "NO_PROXY"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    request = {"address": address, "subject": subject, "text": text, "allowed": [str(network) for network in allowed]}
    try:
        async with asyncio.timeout(limit_s):
            answer, _ = await child.communicate(json.dumps(request).encode())
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
                "The address of the notice is not of a network service that Apprise supports. Nothing was sent."
            )
        case refused if refused.startswith("refused "):
            raise FetchError(f"The message was not sent: {refused.removeprefix('refused ')} is not a public address.")
    raise FetchError("The service did not accept the message.")
