"""Git repositories on any server or on this computer, read with the git program."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ByteSize, Field

from rowen.connectors.base import Known, Options, Tools
from rowen.connectors.git.listing import RepositoryOptions, quoted, stored_etags
from rowen.connectors.git.mirror import open_mirror, pull_commit
from rowen.connectors.git.program import MOST_MIRROR_BYTES, Remote, recognise
from rowen.model.items import Checkpoint, Complete, Observation


class GitOptions(RepositoryOptions):
    """Options of a git repository."""

    secret_neutral: ClassVar[frozenset[str]] = RepositoryOptions.secret_neutral | {"page_url"}

    cache: Path | None = Field(default=None, description="folder that keeps fetched objects; default: keep nothing")
    limit_s: float = Field(default=1800.0, gt=0, description="time limit of each call of git")
    max_mirror_bytes: ByteSize = Field(
        default=ByteSize(MOST_MIRROR_BYTES), gt=0, description="maximum size of fetched objects on disk"
    )
    page_url: str | None = Field(
        default=None,
        pattern=r"^https?://[^{}]*\{ref\}[^{}]*\{path\}$",
        description="page of a file, with {ref} and {path}: https://gitlab.com/me/it/-/blob/{ref}/{path}",
    )

    def reading(self) -> dict[str, Any]:
        """Return the options that affect stored items: the options of all repositories, and `max_bytes`.

        `max_bytes` is included because the size of a blob is known only after reading it.
        """
        return {**super().reading(), **self.chosen("max_bytes")}


class Git:
    """A connector for a branch, a tag or a commit of a git repository."""

    kind: ClassVar[str] = "git"
    Options: ClassVar[type[Options]] = GitOptions
    # `git+…` addresses, `https` addresses that end in `.git`, and bare repositories on this computer.
    recognise = staticmethod(recognise)

    def __init__(self, url: str, options: GitOptions, tools: Tools) -> None:
        self._url = url
        self._options = options
        self._tools = tools

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Resolve the commit, and read the files with changed blobs."""
        etags, leaving = await stored_etags(known)
        options = self._options
        async with (
            open_mirror(
                Remote.parse(self._url),
                self._tools,
                token=options.token,
                cache=options.cache,
                limit_s=options.limit_s,
                most_bytes=int(options.max_mirror_bytes),
            ) as mirror,
            aclosing(pull_commit(mirror, options, self._url_of, etags, known.cursor, leaving=leaving)) as observations,
        ):
            async for observation in observations:
                if not isinstance(observation, Checkpoint) or observation.cursor != known.cursor:
                    yield observation
        yield Complete()

    def _url_of(self, path: str) -> str:
        page = self._options.page_url or f"{self._url}/blob/{{ref}}/{{path}}"
        return page.replace("{ref}", quoted(self._options.ref or "HEAD")).replace("{path}", quoted(path))
