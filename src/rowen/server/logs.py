"""The log as JSON lines, each with the request that it is about.

What is written down of each request: a line of the log and, for one that wrote, a line of the audit log.
"""

import json
import logging
import secrets
import sys
import time
from datetime import UTC, datetime

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rowen.errors import StoreError
from rowen.interfaces.rest.document import OPEN
from rowen.model.access import Principal
from rowen.operations import Rowen
from rowen.server.requests import REQUEST_ID, SAFE, client_of, path_of
from rowen.tracing import span

__all__ = ["Journal", "log_as_json"]


class JsonLine(logging.Formatter):
    """One JSON object a line: when, how bad, who, what, and the fields of the event."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one line; a line break inside would end it, and JSON has none."""
        told = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if number := REQUEST_ID.get():
            told["request"] = number
        told |= {name: value for name, value in (getattr(record, "fields", None) or {}).items() if name not in told}
        if record.exc_info:
            told["trace"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False, default=str)


def log_as_json(level: int) -> None:
    """Write all logs to stderr this way."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLine())
    logging.basicConfig(level=level, handlers=[handler], force=True)


log = logging.getLogger(__name__)

# Short enough to be read aloud, and unlikely to be met twice in a log.
_ID_BYTES = 8
_LONGEST_PATH = 500  # names of sources and schemas fit in; more is somebody's attempt

_CALLBACK = "/push/websub/"

# A page that sets its own keeps it; nothing of ours may be framed, sniffed or embedded elsewhere.
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": (
        "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
}


class Journal:
    """The outermost layer: gives each request a number, and writes down what became of it."""

    def __init__(self, app: ASGIApp, rowen: Rowen) -> None:
        self._app = app
        self._rowen = rowen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request and write it down."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        number = secrets.token_hex(_ID_BYTES)
        status = 500
        began = time.perf_counter()

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = number
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        token = REQUEST_ID.set(number)
        asked = {"http.request.method": scope["method"], "url.path": _told(path_of(scope)), "rowen.request": number}
        try:
            with span(scope["method"], asked, is_server=True) as note:
                await self._app(scope, receive, sending)
                note({"http.response.status_code": status})
        finally:
            self._log(scope, status, time.perf_counter() - began)
            await self._audit(scope, status, number)
            REQUEST_ID.reset(token)
        return None

    def _log(self, scope: Scope, status: int, seconds: float) -> None:
        principal: Principal | None = scope.get("state", {}).get("principal")
        # What was asked for may be private: the path is enough to tell what took how long.
        fields = {"method": scope["method"], "path": _told(path_of(scope)), "status": status}
        fields |= {"ms": round(seconds * 1000, 1), "principal": principal.name if principal else None}
        log.info("answered a request", extra={"fields": fields})

    async def _audit(self, scope: Scope, status: int, number: str) -> None:
        principal: Principal | None = scope.get("state", {}).get("principal")
        path = path_of(scope)
        if principal is None or scope["method"] in SAFE or path.startswith((*OPEN, "/mcp")):
            return
        what = {"method": scope["method"], "path": path[:_LONGEST_PATH], "status": status, "request": number}
        try:
            await self._rowen.access.record_write(principal, address=client_of(scope) or None, **what)
        except StoreError as problem:
            log.error("what %s wrote could not be noted: %s", principal.name, problem)


def _told(path: str) -> str:
    """A path for the log; who knows the end of a callback address may speak for a hub."""
    return f"{_CALLBACK}…" if path.startswith(_CALLBACK) else path[:_LONGEST_PATH]
