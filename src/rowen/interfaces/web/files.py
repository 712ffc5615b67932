"""The style sheet and the scripts, served from the package: nothing is asked of anybody else."""

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

__all__ = ["address_of", "serve_file"]

_TYPES = {
    "rowen.css": "text/css; charset=utf-8",
    "rowen.js": "text/javascript; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "rowen.svg": "image/svg+xml",
}
# An address names the bytes: what is behind it never changes.
_FOR_EVER = "public, max-age=31536000, immutable"


class _File(NamedTuple):
    body: bytes
    mark: str


@cache
def _file(name: str) -> _File:
    body = (files("rowen.interfaces.web") / "static" / name).read_bytes()
    return _File(body, sha256(body).hexdigest()[:12])


def address_of(name: str) -> str:
    """The path of a file below the root, with a mark of its bytes."""
    return f"/static/{_file(name).mark}/{name}"


async def serve_file(request: Request) -> Response:
    """One file."""
    name = request.path_params["name"]
    if name not in _TYPES:
        return Response("There is no such file.", 404, media_type="text/plain")
    held = _file(name)
    headers = {"X-Content-Type-Options": "nosniff", "ETag": f'"{held.mark}"'}
    if request.path_params["mark"] == held.mark:
        headers["Cache-Control"] = _FOR_EVER
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(None, 304, headers)
    return Response(held.body, 200, headers, _TYPES[name])
