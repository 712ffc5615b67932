"""Serving below a path: of a reverse proxy that leaves it in the address, or takes it off."""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["BasePath"]


class BasePath:
    """The layer that knows below which path the world sees us, and puts it into the addresses that we name."""

    def __init__(self, app: ASGIApp, base: str) -> None:
        self._app = app
        self._base = base

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request to either form of the address."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        path = str(scope["path"])
        if path != self._base and not path.startswith(f"{self._base}/"):
            scope["path"] = self._base + path
        scope["root_path"] = self._base
        return await self._app(scope, receive, self._sending(send))

    def _sending(self, send: Send) -> Send:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, opening in (("location", ""), ("link", "<")):
                    value = headers.get(name)
                    if value is not None and value.startswith(f"{opening}/"):
                        headers[name] = opening + self._below(value.removeprefix(opening))
            await send(message)

        return sending

    def _below(self, address: str) -> str:
        return address if address.startswith(f"{self._base}/") else self._base + address
