"""The options that all repositories share."""

import re
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, ByteSize, Field

from rowen.connectors.base import Options
from rowen.connectors.files.options import Globs

__all__ = ["Reference", "RepositoryOptions"]

_REFERENCE = re.compile(r"(?:env|file):\S.*")
# What `git check-ref-format` lets through, and nothing that could be taken for an option.
_REF = re.compile(r"(?!-)(?!.*(?:\.\.|@\{|//))[^\x00-\x20~^:?*\[\\\x7f]+(?<![/.])")


def _referring(value: str) -> str:
    if not _REFERENCE.fullmatch(value):
        raise ValueError("say where the token is found, such as env:GITHUB_TOKEN; the token itself is never stored")
    return value


def _named(value: str) -> str:
    if not _REF.fullmatch(value):
        raise ValueError("is no name that a branch, a tag or a commit can have")
    return value


def _inside(value: str) -> str:
    path = value.strip("/")
    if any(part in ("", ".", "..") for part in path.split("/")) and path:
        raise ValueError("is no path inside a repository")
    return path


Reference = Annotated[str, AfterValidator(_referring)]


class RepositoryOptions(Options):
    """What to read of a repository."""

    secret_neutral: ClassVar[frozenset[str]] = Options.secret_neutral | {"ref", "path", "include", "exclude", "hidden"}

    ref: Annotated[str, AfterValidator(_named)] | None = Field(
        default=None, description="branch, tag or commit; default: the repository's own choice"
    )
    path: Annotated[str, AfterValidator(_inside)] = Field(default="", description="only what is below this path")
    include: Globs = Field(default=(), description="only these: patterns as in .gitignore, separated by commas")
    exclude: Globs = Field(default=(), description="not these, nor what is below them; stronger than include")
    hidden: bool = Field(default=False, description="also what starts with a dot")
    max_bytes: ByteSize = Field(default=ByteSize(10_000_000), gt=0, description="largest file that is read")
    token: Reference | None = Field(
        default=None, description="where a token is found: env:NAME or file:/path, never the token itself"
    )

    def reading(self) -> dict[str, Any]:
        """Only the language enters into what is stored; the rest chooses among files."""
        return {"language": self.language}
