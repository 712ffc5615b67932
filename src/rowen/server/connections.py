"""Limit the connections of the server: how many may be open, and how long a client may take.

Each step of a client has a time limit: to send the headers of a request, to send its body, and to read the answer. If
there are too many connections, the connection that has kept the server waiting longest is closed.
"""

import asyncio
import logging
import resource
import time
from collections import Counter
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Literal, TypeAlias

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from rowen.errors import OverloadedError, RowenError, TooManyRequestsError, UsageError
from rowen.interfaces.rest.problems import response_of
from rowen.server.layers import BODY_S
from rowen.server.requests import is_within, place_of_address
from rowen.settings import Settings

log = logging.getLogger(__name__)

# The interval of checks, by which a connection may exceed its time.
_CHECK_S = 1.0
# The answer 408 to a slow body comes first.
_BODY_GRACE_S = 5.0
# The slowest phone reads more than 48 kB in a minute. Half of it would end a download in a tunnel; twice as much would
# keep abandoned connections.
_UNREAD_S = 60.0
# Descriptors for other uses: connections to the database and to sources, pipes of parse workers, exports. 40 are usual.
_OTHER_FILES = 256
ACCEPTED_AT_ONCE = 128
"""The number of connections accepted before the server can refuse one; they need descriptors too."""
# macOS reports "unlimited" as its hard limit, but allows no more than this.
_UNLIMITED_FILES = 10_240
_RETRY_S = 5.0

_Due: TypeAlias = Literal["headers", "body", "reading"]


class OpenConnections:
    """The open connections of a server."""

    def __init__(self, settings: Settings, *, files: int) -> None:
        """Derive the limits from the settings and the file descriptors that the process may open."""
        self._at_once = min(settings.connections_at_once, max(1, files - _OTHER_FILES - ACCEPTED_AT_ONCE))
        if self._at_once < settings.connections_at_once:
            log.warning(
                "the server accepts %s connections at once instead of %s, since it may open only %s files; "
                "raise the limit (ulimit -n, LimitNOFILE=)",
                *(self._at_once, settings.connections_at_once, files),
            )
        self._per_address = settings.connections_per_address
        self._proxies = settings.proxies
        self._limits_s: dict[_Due, float] = {
            "headers": settings.header_limit_s,
            "body": BODY_S + _BODY_GRACE_S,
            "reading": _UNREAD_S,
        }
        self._open: dict[HttpConnection, None] = {}
        self._of_place: Counter[str] = Counter()

    def protocol(self, **made_by_uvicorn: Any) -> "HttpConnection":
        """Return the protocol object of a new connection."""
        return HttpConnection(self, **made_by_uvicorn)

    def add(self, connection: "HttpConnection") -> None:
        """Add a connection; if there are too many, close a waiting one, or raise if all are being answered."""
        place = connection.place
        if place is not None and self._of_place[place] >= self._per_address and not self._make_room(place):
            raise TooManyRequestsError(
                f"{self._per_address} connections from this address are open. Nothing was done.",
                retry_in_s=_RETRY_S,
                hint="ROWEN_CONNECTIONS_PER_ADDRESS sets the limit.",
            )
        if len(self._open) >= self._at_once and not self._make_room(None):
            raise OverloadedError(
                f"The server has {self._at_once} connections open. Nothing was done.",
                retry_in_s=_RETRY_S,
                hint="ROWEN_CONNECTIONS_AT_ONCE sets the limit.",
            )
        self._open[connection] = None
        if place is not None:
            self._of_place[place] += 1

    def remove(self, connection: "HttpConnection") -> None:
        """Remove a closed connection."""
        if connection not in self._open:
            return
        del self._open[connection]
        if connection.place is not None:
            self._of_place[connection.place] -= 1
            if not self._of_place[connection.place]:
                del self._of_place[connection.place]

    def place(self, client: str) -> str | None:
        """Return the client to which an address belongs; None for a proxy, which serves many clients."""
        return None if is_within(client, self._proxies) else place_of_address(client)

    async def watch(self) -> None:
        """Close connections that exceed their time limits, forever."""
        while True:
            await asyncio.sleep(_CHECK_S)
            for connection in list(self._open):
                due, waited_s = connection.waiting()
                if due is not None and waited_s > self._limits_s[due]:
                    connection.give_up(due)

    def _make_room(self, place: str | None) -> bool:
        """Close the connection, of one client or all, that has kept the server waiting longest; False if none has."""
        slowest, longest_s = None, -1.0
        for connection in self._open:
            if place is None or connection.place == place:
                due, waited_s = connection.waiting()
                if due is not None and waited_s > longest_s:
                    slowest, longest_s = connection, waited_s
        if slowest is None:
            return False
        slowest.abort()
        self.remove(slowest)
        return True


class HttpConnection(H11Protocol):
    """A connection that records the step for which it waits for its client."""

    def __init__(self, connections: OpenConnections, **made_by_uvicorn: Any) -> None:
        super().__init__(**made_by_uvicorn)
        self.conn = _Requests(h11.SERVER)
        self.place: str | None = None
        self._connections = connections
        # How often the client completed the step for which the server waited.
        self._turns = 0
        self._seen: tuple[_Due | None, int] = ("headers", 0)
        self._since = time.monotonic()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept or refuse the connection."""
        super().connection_made(transport)
        self.place = self._connections.place(self.client[0] if self.client else "")
        try:
            self._connections.add(self)
        except RowenError as problem:
            self._end(problem)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection."""
        self._connections.remove(self)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Record that the connection waits for the next request."""
        self._turns += 1
        super().on_response_complete()

    def resume_writing(self) -> None:
        """Record that the client continues to read."""
        self._turns += 1
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer an invalid request, and close."""
        self._end(UsageError("The request is not valid HTTP. Nothing was done."))

    def waiting(self) -> tuple[_Due | None, float]:
        """Return the step for which the server waits for the client, None if it does not wait, and the seconds."""
        due: _Due | None = None
        if self.flow.write_paused or self.transport.is_closing():
            due = "reading"
        elif self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            due = "headers" if self.conn.their_state is h11.IDLE else "body"
        now = time.monotonic()
        if self._seen != (due, self._turns):
            self._seen, self._since = (due, self._turns), now
        return due, now - self._since

    def give_up(self, due: _Due) -> None:
        """Close the connection of a client that exceeded the time limit of the step `due`."""
        if due == "reading":
            self.transport.abort()
        elif due == "headers" and self.conn.trailing_data[0]:
            self._end(UsageError("The headers did not arrive in time. Nothing was done."), status=408)
        else:
            self.transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self.transport.abort()

    def _end(self, problem: RowenError, **more: Any) -> None:
        """Answer with a problem document, unless an answer has started, and close the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            answer = response_of(problem, **more)
            headers, reason = [*answer.raw_headers, (b"connection", b"close")], HTTPStatus(answer.status_code).phrase
            head = h11.Response(status_code=answer.status_code, headers=headers, reason=reason.encode())
            for event in (head, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class _Requests(h11.Connection):
    """A connection that refuses requests with ambiguous framing (RFC 9112, 6.1)."""

    def next_event(self) -> Any:
        """Return the next event; raise on a request with ambiguous framing."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            old = event.http_version < b"1.1"
            if b"transfer-encoding" in names and (old or b"content-length" in names):
                raise h11.RemoteProtocolError("Transfer-Encoding with Content-Length, or in HTTP/1.0")
        return event


def raise_file_limit() -> int:
    """Raise the limit of open files to the system's maximum and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _UNLIMITED_FILES
    wanted = _UNLIMITED_FILES if hard == resource.RLIM_INFINITY else hard
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
