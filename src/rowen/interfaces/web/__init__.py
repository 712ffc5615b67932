"""The web pages. Pages are made by the server, work without JavaScript, and ask `service` only."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from rowen.operations import Rowen

__all__ = ["problem_page", "routes"]


def routes(rowen: "Rowen") -> "list[BaseRoute]":
    """All pages with their JSON twins, and the files that they need; to be mounted at the root of the server.

    Its application has the state `closing`, an event: pages that are watched are told no more once it is set.
    """
    from rowen.interfaces.web.routing import all_routes

    return all_routes(rowen)


def problem_page(request: "Request", problem: bytes) -> "Response":
    """What an RFC 9457 problem says, as a page."""
    from rowen.interfaces.web.drawing import drawn, told_trouble

    return drawn(request, told_trouble(problem), None)
