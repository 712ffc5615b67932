"""Repositories on GitHub: their files and, where wanted, wiki, issues, discussions and releases."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any, ClassVar, Protocol

from rowen.connectors.base import Known, Options, Tools
from rowen.connectors.git.listing import held_etags
from rowen.connectors.github.address import RepositoryAddress, recognise
from rowen.connectors.github.api import GitHubApi
from rowen.connectors.github.discussions import Discussions
from rowen.connectors.github.files import RepositoryFiles
from rowen.connectors.github.options import GitHubOptions
from rowen.connectors.github.pages import issues, releases
from rowen.connectors.github.wiki import Wiki
from rowen.errors import BadUrlError
from rowen.model.item import Checkpoint, Complete, Incomplete, Observation

__all__ = ["GitHub"]

_OTHERS = ("wiki", "issues", "releases", "discussions")


class RepositoryPart(Protocol):
    """One thing that a repository has, with a cursor of its own, which it tells by a checkpoint at its end."""

    @property
    def name(self) -> str: ...

    def pull(self, held: dict[str, str | None], cursor: Any) -> AsyncGenerator[Observation]: ...


class GitHub:
    """Reads a repository on GitHub, a part of it, or one of its branches or tags."""

    kind: ClassVar[str] = "github"
    Options: ClassVar[type[Options]] = GitHubOptions

    def __init__(self, url: str, options: GitHubOptions, tools: Tools) -> None:
        address = RepositoryAddress.parse(url)
        if address is None:
            raise BadUrlError(f"{url!r} is no address of a repository on GitHub.")
        self._address = address
        self._options = options
        self._tools = tools

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """The URL of `github:OWNER/REPO[@REF]` or of a repository, folder or file at github.com."""
        return recognise(address)

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Look at each part; a request each where nothing changed."""
        held = self._by_part(await held_etags(known))
        cursor = known.cursor if isinstance(known.cursor, dict) else {}
        async with self._tools.client() as client:
            api = GitHubApi(client, self._address, self._options, self._tools.now)
            for part in self._parts(api):
                async with aclosing(part.pull(held[part.name], cursor.get(part.name))) as observations:
                    async for observation in observations:
                        if isinstance(observation, Checkpoint):
                            if observation.cursor == cursor.get(part.name):
                                continue
                            cursor = {**cursor, part.name: observation.cursor}
                            observation = Checkpoint(cursor)
                        yield observation
                        if isinstance(observation, Incomplete):
                            return
        yield Complete()

    def _parts(self, api: GitHubApi) -> Iterator[RepositoryPart]:
        address, options = self._address, self._options
        yield RepositoryFiles(api, address, options)
        if options.wiki:
            yield Wiki(address, options, self._tools)
        if options.issues:
            yield issues(api, address, options.language)
        if options.releases:
            yield releases(api, address, options.language)
        if options.discussions:
            yield Discussions(api, address, options.language)

    def _by_part(self, held: dict[str, str | None]) -> dict[str, dict[str, str | None]]:
        """What we hold, apart by the part that it came from."""
        start = len(self._address.repository) + 1
        apart: dict[str, dict[str, str | None]] = {name: {} for name in (RepositoryFiles.name, *_OTHERS)}
        for url, etag in held.items():
            name = url[start:].partition("/")[0]
            apart[name if name in _OTHERS else RepositoryFiles.name][url] = etag
        return apart
