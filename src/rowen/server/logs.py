"""Write the log as JSON lines, and record each HTTP request."""

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


class JsonLine(logging.Formatter):
    """Formats a record as a JSON line: time, level, logger, message and the fields of the event."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line; JSON escapes line breaks."""
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if number := REQUEST_ID.get():
            line["request"] = number
        line |= {name: value for name, value in (getattr(record, "fields", None) or {}).items() if name not in line}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def log_as_json(level: int) -> None:
    """Write all logs to stderr as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLine())
    logging.basicConfig(level=level, handlers=[handler], force=True)


log = logging.getLogger(__name__)

# Short enough to read aloud, and unlikely to occur twice in a log.
_ID_BYTES = 8
_LONGEST_PATH = 500  # enough for names of sources and schemas; longer ones are attacks

_CALLBACK = "/push/websub/"

# Defaults for all answers, against framing, sniffing and embedding elsewhere.
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
    """The outermost layer: gives each request an id and logs its result."""

    def __init__(self, app: ASGIApp, rowen: Rowen) -> None:
        self._app = app
        self._rowen = rowen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer and log a request."""
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
        attributes = {
            "http.request.method": scope["method"],
            "url.path": _logged_path(path_of(scope)),
            "rowen.request": number,
        }
        try:
            with span(scope["method"], attributes, is_server=True) as note:
                await self._app(scope, receive, sending)
                note({"http.response.status_code": status})
        finally:
            principal: Principal | None = scope.get("state", {}).get("principal")
            # The query may be private; the path is enough to find slow requests.
            fields = {"method": scope["method"], "path": _logged_path(path_of(scope)), "status": status}
            fields |= {"ms": round((time.perf_counter() - began) * 1000, 1)}
            fields |= {"principal": principal.name if principal else None}
            log.info("answered a request", extra={"fields": fields})
            is_write = scope["method"] not in SAFE and not path_of(scope).startswith((*OPEN, "/mcp"))
            if principal is not None and is_write:
                try:
                    await self._rowen.access.record_write(
                        principal,
                        address=client_of(scope) or None,
                        method=scope["method"],
                        path=path_of(scope)[:_LONGEST_PATH],
                        status=status,
                        request=number,
                    )
                except StoreError as problem:
                    log.error("could not store a request of %s in the audit log: %s", principal.name, problem)
            REQUEST_ID.reset(token)
        return None


def _logged_path(path: str) -> str:
    """Return a path for the log, without the secret end of a callback path."""
    return f"{_CALLBACK}…" if path.startswith(_CALLBACK) else path[:_LONGEST_PATH]
