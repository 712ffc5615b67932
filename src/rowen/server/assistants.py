"""Where assistants come in: the route of their protocol, and a page for models that find the server."""

from importlib.util import find_spec

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Route

from rowen.interfaces import mcp
from rowen.interfaces.mcp.http import McpApp
from rowen.operations import Rowen

__all__ = ["Assistants"]


class Assistants:
    """The interface for assistants, where its package is installed."""

    def __init__(self, rowen: Rowen) -> None:
        self._rowen = rowen
        self._app: McpApp | None = None
        if find_spec("mcp") is not None:
            self._app = mcp.http_app(rowen, allow_writes=rowen.settings.mcp_writes)

    def routes(self) -> list[BaseRoute]:
        """The routes of this interface."""
        routes: list[BaseRoute] = [Route("/llms.txt", self._llms_txt, methods=["GET"])]
        # GET would open a stream on which nothing is ever sent: requests stand by themselves.
        return routes if self._app is None else [*routes, Route("/mcp", self._app, methods=["POST"])]

    def end_streams(self) -> None:
        """Let those end who listen for changes."""
        if self._app is not None:
            self._app.end_streams()

    async def close(self) -> None:
        """End all that was begun."""
        if self._app is not None:
            await self._app.close()

    async def _llms_txt(self, request: Request) -> PlainTextResponse:
        base = self._rowen.settings.public_url or str(request.base_url)
        page = await mcp.llms_txt(self._rowen, base=base, assistants=self._app is not None)
        return PlainTextResponse(page, media_type="text/markdown")
