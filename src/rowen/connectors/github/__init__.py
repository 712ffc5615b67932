"""Repositories on GitHub: their files and, if selected, wiki, issues, discussions and releases."""

from collections.abc import AsyncGenerator, Callable, Container
from contextlib import aclosing
from typing import Any, ClassVar

from rowen.connectors.base import Known, Options, Tools
from rowen.connectors.git.listing import RepositoryOptions, quoted, stored_etags
from rowen.connectors.git.mirror import open_mirror, pull_commit
from rowen.connectors.git.program import Remote
from rowen.connectors.github.api import GitHubApi
from rowen.connectors.github.files import RepositoryFiles
from rowen.connectors.github.options import GitHubOptions, RepositoryAddress, recognise
from rowen.connectors.github.pages import Discussions, Pages, issues, releases
from rowen.errors import BadUrlError, SourceGoneError
from rowen.model.items import Checkpoint, Complete, Incomplete, Observation

_OTHERS = ("wiki", "issues", "releases", "discussions")


class GitHub:
    """A connector for a repository on GitHub, a part of it, or one of its branches or tags."""

    kind: ClassVar[str] = "github"
    Options: ClassVar[type[Options]] = GitHubOptions
    # `github:OWNER/REPO[@REF]`, and URLs of a repository, folder or file at github.com.
    recognise: ClassVar[Callable[[str], str | None]] = staticmethod(recognise)

    def __init__(self, url: str, options: GitHubOptions, tools: Tools) -> None:
        address = RepositoryAddress.parse(url)
        if address is None:
            raise BadUrlError(f"{url!r} is no address of a repository on GitHub.")
        self._address = address
        self._options = options
        self._tools = tools

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Read each part of the repository; an unchanged part costs one request."""
        start = len(self._address.repository) + 1
        etags: dict[str, dict[str, str | None]] = {name: {} for name in (RepositoryFiles.name, *_OTHERS)}
        stored, leaving = await stored_etags(known)
        for url, etag in stored.items():
            name = url[start:].partition("/")[0]
            etags[name if name in _OTHERS else RepositoryFiles.name][url] = etag
        cursor = known.cursor if isinstance(known.cursor, dict) else {}
        async with self._tools.client() as client:
            api = GitHubApi(client, self._address, self._options, self._tools.now)
            parts: list[RepositoryFiles | Wiki | Pages | Discussions]
            parts = [RepositoryFiles(api, self._address, self._options, leaving=leaving)]
            if self._options.wiki:
                parts.append(Wiki(self._address, self._options, self._tools, leaving=leaving))
            if self._options.issues:
                parts.append(issues(api, self._address, self._options.language))
            if self._options.releases:
                parts.append(releases(api, self._address, self._options.language))
            if self._options.discussions:
                parts.append(Discussions(api, self._address, self._options.language))
            # Each part has a cursor of its own in a checkpoint at its end.
            for part in parts:
                async with aclosing(part.pull(etags[part.name], cursor.get(part.name))) as observations:
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


class Wiki:
    """The wiki of a repository, without sidebars and footers. It is a git repository of its own, and has no API."""

    name = "wiki"

    def __init__(
        self, address: RepositoryAddress, options: GitHubOptions, tools: Tools, *, leaving: Container[str] = ()
    ) -> None:
        self._leaving = leaving
        self._pages = f"{address.repository}/wiki/"
        self._remote = Remote.parse(f"{address.repository}.wiki.git")
        self._token = options.token
        self._tools = tools
        self._options = RepositoryOptions(exclude=("_*",), max_bytes=options.max_bytes, language=options.language)

    async def pull(self, etags: dict[str, str | None], cursor: Any) -> AsyncGenerator[Observation]:
        """Read the pages that changed; yield nothing if the wiki does not exist, as is the case without any page."""
        if cursor is None:
            # The option `max_bytes` may have changed, and the size of a blob is known only after reading it.
            etags = dict.fromkeys(etags)
        try:
            async with (
                open_mirror(self._remote, self._tools, token=self._token) as mirror,
                aclosing(
                    pull_commit(mirror, self._options, self._url_of, etags, cursor, leaving=self._leaving)
                ) as observations,
            ):
                async for observation in observations:
                    yield observation
        except SourceGoneError:
            if etags:
                raise

    def _url_of(self, path: str) -> str:
        # GitHub identifies a page by its file's name alone, without folder and ending.
        name = path.rpartition("/")[2]
        return self._pages + quoted(name.rpartition(".")[0] or name)
