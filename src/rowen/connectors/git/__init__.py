"""Git repositories anywhere, through the git program."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ByteSize, Field

from rowen.connectors.base import Known, Options, Tools
from rowen.connectors.git.listing import held_etags, quoted
from rowen.connectors.git.mirror import open_mirror
from rowen.connectors.git.options import RepositoryOptions
from rowen.connectors.git.program import MOST_MIRROR_BYTES
from rowen.connectors.git.reading import RepositoryPull
from rowen.connectors.git.remote import Remote, recognise
from rowen.model.item import Checkpoint, Complete, Observation

__all__ = ["Git", "GitOptions"]


class GitOptions(RepositoryOptions):
    """Options of a git repository."""

    secret_neutral: ClassVar[frozenset[str]] = RepositoryOptions.secret_neutral | {"page_url"}

    cache: Path | None = Field(default=None, description="folder that keeps what was fetched; default: nothing is kept")
    limit_s: float = Field(default=1800.0, gt=0, description="longest time that one step of git may take")
    max_mirror_bytes: ByteSize = Field(
        default=ByteSize(MOST_MIRROR_BYTES), gt=0, description="most that what is fetched may take on disk"
    )
    page_url: str | None = Field(
        default=None,
        pattern=r"^https?://[^{}]*\{ref\}[^{}]*\{path\}$",
        description="where a file can be seen, with {ref} and {path}: https://gitlab.com/me/it/-/blob/{ref}/{path}",
    )

    def reading(self) -> dict[str, Any]:
        """As of all repositories; how large a blob is, is known only when it is read again."""
        return {**super().reading(), **self.chosen("max_bytes")}


class Git:
    """Reads a branch, a tag or a commit of a git repository."""

    kind: ClassVar[str] = "git"
    Options: ClassVar[type[Options]] = GitOptions

    def __init__(self, url: str, options: GitOptions, tools: Tools) -> None:
        self._url = url
        self._options = options
        self._tools = tools

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """The URL of a `git+…` address, of an `https` address ending in `.git`, or of a bare repository here."""
        return recognise(address)

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Ask for the commit, and read the files whose blobs are others."""
        held = await held_etags(known)
        options = self._options
        async with open_mirror(
            Remote.parse(self._url),
            self._tools,
            token=options.token,
            cache=options.cache,
            limit_s=options.limit_s,
            most_bytes=int(options.max_mirror_bytes),
        ) as mirror:
            reading = RepositoryPull(mirror, options, self._url_of)
            async with aclosing(reading.pull(held, known.cursor)) as observations:
                async for observation in observations:
                    if not isinstance(observation, Checkpoint) or observation.cursor != known.cursor:
                        yield observation
        yield Complete()

    def _url_of(self, path: str) -> str:
        page = self._options.page_url or f"{self._url}/blob/{{ref}}/{{path}}"
        return page.replace("{ref}", quoted(self._options.ref or "HEAD")).replace("{path}", quoted(path))
