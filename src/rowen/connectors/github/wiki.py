"""The wiki of a repository, which is a git repository itself and has no API."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from rowen.connectors.base import Tools
from rowen.connectors.git.listing import quoted
from rowen.connectors.git.mirror import open_mirror
from rowen.connectors.git.options import RepositoryOptions
from rowen.connectors.git.reading import RepositoryPull
from rowen.connectors.git.remote import Remote
from rowen.connectors.github.address import RepositoryAddress
from rowen.connectors.github.options import GitHubOptions
from rowen.errors import SourceGoneError
from rowen.model.item import Observation

__all__ = ["Wiki"]


class Wiki:
    """The part of a source that is in the wiki; side bars and footers are none of its pages."""

    name = "wiki"

    def __init__(self, address: RepositoryAddress, options: GitHubOptions, tools: Tools) -> None:
        self._pages = f"{address.repository}/wiki/"
        self._remote = Remote.parse(f"{address.repository}.wiki.git")
        self._token = options.token
        self._tools = tools
        self._options = RepositoryOptions(exclude=("_*",), max_bytes=options.max_bytes, language=options.language)

    async def pull(self, held: dict[str, str | None], cursor: Any) -> AsyncGenerator[Observation]:
        """Read the pages that changed; a wiki that nobody has written yet has none."""
        try:
            async with open_mirror(self._remote, self._tools, token=self._token) as mirror:
                reading = RepositoryPull(mirror, self._options, self._url_of)
                async with aclosing(reading.pull(held, cursor)) as observations:
                    async for observation in observations:
                        yield observation
        except SourceGoneError:
            if held:
                raise

    def _url_of(self, path: str) -> str:
        """GitHub knows a page by its file's name alone, whatever its folder and ending."""
        name = path.rpartition("/")[2]
        return self._pages + quoted(name.rpartition(".")[0] or name)
