"""Changes as a message to people, sent by Apprise: mail, chat, and a hundred services.

Apprise makes its own connections. So it runs in a process of its own, which ends with the message: every socket that is
opened there asks the address guard first, time is limited by ending the process, and the address, which holds logins,
is neither an argument nor in its environment.
"""

import asyncio
import json
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network

from rowen import programs
from rowen.errors import ConfigurationError, FetchError
from rowen.model.changes import PublishedChange
from rowen.model.text import attempt
from rowen.publish.diffs import as_text
from rowen.publish.syndication import diff_of_change, field_lines, summary
from rowen.version import how_to_install

__all__ = ["MOST_IN_A_NOTICE", "notice", "send"]

MOST_IN_A_NOTICE = 20
"""Changes in one message: a screen. The others follow in the next one."""
# Services cut messages at 2,000 to 4,000 characters; what a change changed is shown from its beginning.
_DIFF_CHARS = 600
# Some services answer slowly, and Apprise tries none twice.
_LIMIT_S = 60.0
_CHILD = "from rowen.publish.notifier import main\nmain()"


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
