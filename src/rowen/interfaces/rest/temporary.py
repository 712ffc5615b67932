"""Temporary folders whose content is sent as an answer."""

import tempfile
from pathlib import Path
from typing import Self

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

__all__ = ["TemporaryFolder"]


class TemporaryFolder:
    """A folder that is removed when its answer was sent or abandoned, or when an error left nothing to send."""

    def __init__(self, purpose: str) -> None:
        self._around = tempfile.TemporaryDirectory(prefix=f"rowen-{purpose}-")
        self.path = Path(self._around.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.remove()

    def sent_as(self, response: Response) -> Response:
        """Return the response, which removes the folder at its end."""
        return _RemovingResponse(response, self)

    def remove(self) -> None:
        """Remove the folder with all its files."""
        self._around.cleanup()


class _RemovingResponse(Response):
    # A background task of the response itself would not run where the client is gone, or its Range is malformed.

    def __init__(self, response: Response, folder: TemporaryFolder) -> None:
        self._response, self._folder = response, folder
        self.status_code, self.raw_headers, self.background = response.status_code, response.raw_headers, None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._response(scope, receive, send)
        finally:
            self._folder.remove()
