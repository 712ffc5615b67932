"""HEAD, for readers of feeds and checkers of links: what GET would answer, without the body."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rowen.server.requests import path_of

__all__ = ["Heads"]

# What follows something has no end, and an export is made for nobody.
_NEVER = ("/events", "/mcp", "/api/v1/exports/")


class Heads:
    """The layer that asks for the whole, and sends the head."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer HEAD as GET; all else goes by."""
        is_head = scope["type"] == "http" and scope["method"] == "HEAD"
        if not is_head or any(part in path_of(scope) for part in _NEVER):
            return await self._app(scope, receive, send)

        async def without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        return await self._app({**scope, "method": "GET"}, receive, without_body)
