"""Requests that are sent again: with an idempotency key they are done once, and answered alike."""

from hashlib import sha256

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rowen.errors import RowenError
from rowen.interfaces.rest.problems import response_of
from rowen.model.access import Principal, RepeatedAnswer
from rowen.operations import Rowen
from rowen.server.requests import headers_of, path_of

__all__ = ["Repeats"]

_HEADER = "idempotency-key"
# Answers to writes are small; a larger one is not worth a row.
_MOST_BYTES = 1_000_000
# Its answer has a secret, which is stored nowhere.
_NEVER = "/api/v1/tokens"
_KEPT = frozenset({"content-type", "location", "link", "cache-control"})
# Later it may go well: the server was at fault, or something was in the way.
_PASSING = frozenset({401, 403, 408, 409, 429})


class Repeats:
    """The layer that answers what was answered before."""

    def __init__(self, app: ASGIApp, rowen: Rowen) -> None:
        self._app = app
        self._rowen = rowen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a repeated request, or keep the answer to a new one."""
        key = headers_of(scope).get(_HEADER) if scope["type"] == "http" and scope["method"] == "POST" else None
        path = path_of(scope) if key is not None else ""
        if key is None or not path.startswith("/api/") or path == _NEVER:
            return await self._app(scope, receive, send)
        principal: Principal = scope["state"]["principal"]
        asked = b"\0".join([path.encode(), scope.get("query_string", b""), scope["state"].get("body", b"")])
        try:
            held = await self._rowen.answer_once(principal.name, key, sha256(asked).digest())
        except RowenError as problem:
            return await response_of(problem)(scope, receive, send)
        if held is not None:
            again = Response(held.body, held.status, {**held.headers, "Idempotent-Replayed": "true"})
            return await again(scope, receive, send)
        answer = _Answer(send)
        try:
            await self._app(scope, receive, answer)
        finally:
            await self._rowen.keep_answer(principal.name, key, answer.kept)
        return None


class _Answer:
    """What is sent, remembered while it goes by."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._status = 0
        self._headers: dict[str, str] = {}
        self._pieces: list[bytes] = []
        self._is_whole = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            found = {name.decode("latin-1"): value.decode("latin-1") for name, value in message["headers"]}
            self._headers = {name: value for name, value in found.items() if name.lower() in _KEPT}
        elif message["type"] == "http.response.body":
            self._pieces.append(message.get("body", b""))
            self._is_whole = not message.get("more_body", False)
        await self._send(message)

    @property
    def kept(self) -> RepeatedAnswer | None:
        """The answer, if who repeats the request should get it."""
        body = b"".join(self._pieces)
        # From 500 on it is the server that failed.
        passing = self._status >= 500 or self._status in _PASSING
        if not self._is_whole or passing or len(body) > _MOST_BYTES:
            return None
        return RepeatedAnswer(self._status, self._headers, body)
