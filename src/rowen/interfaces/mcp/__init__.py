"""The interface for assistants: the Model Context Protocol on standard input and output, or over HTTP.

The library of the protocol is imported only when it is needed.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from rowen.errors import UsageError
from rowen.interfaces.mcp.http import McpApp
from rowen.interfaces.mcp.llms import llms_txt
from rowen.version import how_to_install

if TYPE_CHECKING:
    from rowen.interfaces.mcp.server import Profile
    from rowen.operations import Rowen
    from rowen.settings import Settings


__all__ = ["http_app", "llms_txt", "serve_stdio"]


def http_app(rowen: Rowen, *, allow_writes: bool, profile: Profile = "rowen") -> McpApp:
    """Return an ASGI application for the route `/mcp` of a server that authenticates callers; `close()` ends it."""
    if find_spec("mcp") is None:
        raise _missing("mcp")
    return McpApp(rowen, allow_writes=allow_writes, profile=profile)


async def serve_stdio(
    settings: Settings, *, allow_writes: bool = False, local_files: bool = False, profile: Profile = "rowen"
) -> None:
    """Serve the client that started this process, until the client closes its end of the pipe."""
    try:
        from rowen.interfaces.mcp.stdio import serve
    except ModuleNotFoundError as problem:
        raise _missing(problem.name) from None
    await serve(settings, allow_writes=allow_writes, local_files=local_files, profile=profile)


def _missing(name: str | None) -> UsageError:
    return UsageError(
        f"The interface for assistants needs a package that is not installed: {name}.",
        hint=f"`{how_to_install('mcp')}` installs it.",
    )
