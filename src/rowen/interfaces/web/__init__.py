"""The web pages: rendered on the server, usable without JavaScript, based on operations only."""

from starlette.requests import Request
from starlette.responses import Response

from rowen.interfaces.web.drawing import drawn, problem_view
from rowen.interfaces.web.routing import routes

__all__ = ["problem_page", "routes"]


def problem_page(request: Request, problem: bytes) -> Response:
    """Return an RFC 9457 problem as a page."""
    return drawn(request, problem_view(problem), None)
