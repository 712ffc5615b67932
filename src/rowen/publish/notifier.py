"""The process that sends one message to people: it reads what to send from its input, and answers in one word."""

import json
import socket
import sys
from collections.abc import Sequence
from ipaddress import ip_address, ip_network
from typing import Any

from rowen.fetch.guard import refusal

__all__ = ["main"]


def main() -> None:
    """Send the message that stands on stdin: `sent`, `refused ADDRESS`, `unreadable`, `missing` or `failed`."""
    asked = json.load(sys.stdin)
    refused: list[str] = []
    guard_sockets([ip_network(one) for one in asked["allowed"]], refused)
    answer = _sent(asked)
    print(f"refused {refused[0]}" if refused and answer == "failed" else answer)  # noqa: T201 (it is the answer)


def guard_sockets(allowed: Sequence[Any], refused: list[str]) -> None:
    """From now on, no socket of this process connects to an address that may not be reached."""

    def check(address: Any) -> None:
        if not isinstance(address, tuple):
            refused.append("a local socket")
            raise ConnectionRefusedError
        # A name would be resolved by the system, after the check.
        try:
            why = refusal(ip_address(str(address[0]).partition("%")[0]), allowed)
        except ValueError:
            why = "a name"
        if why is not None:
            refused.append(f"{address[0]} ({why})")
            raise ConnectionRefusedError(f"{address[0]} ({why})")

    class Guarded(socket.socket):
        def connect(self, address: Any) -> None:
            check(address)
            super().connect(address)

        def connect_ex(self, address: Any) -> int:
            check(address)
            return super().connect_ex(address)

        def sendto(self, data: Any, *rest: Any) -> int:
            check(rest[-1])
            return super().sendto(data, *rest)

    socket.socket = Guarded  # type: ignore[misc]


def _sent(asked: dict[str, Any]) -> str:
    try:
        import apprise
    except ImportError:
        return "missing"
    target = apprise.Apprise()
    if not target.add(asked["address"]):
        return "unreadable"
    return "sent" if target.notify(title=asked["subject"], body=asked["text"], body_format="text") else "failed"
