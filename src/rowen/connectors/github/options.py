"""The options of a repository on GitHub."""

import re
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, Field, model_validator

from rowen.connectors.git.options import RepositoryOptions

__all__ = ["GitHubOptions"]

_URL = re.compile(r"https?://[^\s/@?#]+(?:/[^\s?#]*)?")


def _root(value: str) -> str:
    if not _URL.fullmatch(value):
        raise ValueError("is no http or https URL without login and query")
    return value.rstrip("/")


Root = Annotated[str, AfterValidator(_root)]


class GitHubOptions(RepositoryOptions):
    """What to read of a repository on GitHub, and where its API is."""

    secret_neutral: ClassVar[frozenset[str]] = RepositoryOptions.secret_neutral | {"issues", "discussions", "releases"}

    wiki: bool = Field(default=False, description="also the pages of its wiki (needs the git program)")
    issues: bool = Field(default=False, description="also its issues, without their comments")
    discussions: bool = Field(default=False, description="also its discussions (needs a token)")
    releases: bool = Field(default=False, description="also the notes of its releases")
    api_url: Root | None = Field(default=None, description="REST API of an installation elsewhere")
    raw_url: Root | None = Field(
        default=None,
        description="host that serves files as they are; default: that of github.com, if there is no token",
    )
    delay_s: float = Field(default=0.07, ge=0, description="least time between two requests")

    @model_validator(mode="after")
    def _token_for_discussions(self) -> Self:
        if self.discussions and not self.token:
            raise ValueError("discussions can only be read with a token: give the option token as well")
        return self
