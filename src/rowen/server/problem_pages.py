"""What went wrong, for people: where a browser asked for a page, a problem is answered with one."""

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rowen.interfaces import web
from rowen.interfaces.rest.problems import MEDIA_TYPE_PROBLEM
from rowen.server.requests import headers_of, path_of

__all__ = ["ProblemPages", "wants_page"]

# Programs ask for these, whatever they say that they would take.
_FOR_PROGRAMS = ("/api/", "/mcp", "/push/", "/static/")
_KEPT = frozenset({b"allow", b"retry-after"})


def wants_page(scope: Scope) -> bool:
    """Whether a person looks at the answer: a browser went there, and asks for a page."""
    headers = headers_of(scope)
    if "text/html" not in headers.get("accept", "") or "authorization" in headers:
        return False
    return not path_of(scope).startswith(_FOR_PROGRAMS)


class ProblemPages:
    """The layer that draws a page in the place of each problem that would go to a person."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the layers below do, or with a page that says the same."""
        if scope["type"] != "http" or not wants_page(scope):
            return await self._app(scope, receive, send)
        held: Message | None = None
        body = b""

        async def sending(message: Message) -> None:
            nonlocal held, body
            if message["type"] == "http.response.start" and _is_problem(message):
                held = message
            elif held is None:
                await send(message)
            else:
                body += message.get("body", b"")

        try:
            await self._app(scope, receive, sending)
        finally:
            # What nobody foresaw is answered, and then raised for the log.
            if held is not None:
                page = web.problem_page(Request(scope), body)
                page.raw_headers.extend(one for one in held["headers"] if one[0].lower() in _KEPT)
                await page(scope, receive, send)
        return None


def _is_problem(message: Message) -> bool:
    return (b"content-type", MEDIA_TYPE_PROBLEM.encode()) in message["headers"]
