"""Addresses and options of repositories on github.com and on other GitHub installations."""

import re
from typing import Annotated, ClassVar, NamedTuple, Self
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, Field, model_validator

from rowen.connectors.git.listing import RepositoryOptions, quoted

_SHORT = re.compile(r"(?P<owner>[\w.-]+)/(?P<name>[\w.-]+?)(?:\.git)?(?:@(?P<ref>\S+))?", re.ASCII)
_NAME = re.compile(r"(?!\.\.?$)[\w.-]+", re.ASCII)
_GITHUB = "https://github.com"
# First path segments of github.com that are no owner of repositories.
_NO_OWNERS = re.compile(
    r"about|apps|collections|contact|customer-stories|enterprise|events|explore|features|login|marketplace|new|orgs|"
    r"notifications|organizations|pricing|search|security|settings|site|sponsors|topics|trending|users"
)
_URL = re.compile(r"https?://[^\s/@?#]+(?:/[^\s?#]*)?")


class RepositoryAddress(NamedTuple):
    """A repository. `tail` follows `/tree/`: a ref and perhaps a path, which only the server can separate."""

    web: str
    owner: str
    name: str
    tail: str = ""

    @classmethod
    def parse(cls, url: str) -> "RepositoryAddress | None":
        """Return the address in the URL of a repository, folder or file; None if the URL is none of these."""
        try:
            parts = urlsplit(url)
        except ValueError:
            return None
        segments = [unquote(part, errors="surrogateescape") for part in parts.path.strip("/").split("/")]
        if parts.scheme not in ("http", "https") or "@" in parts.netloc or not parts.netloc or len(segments) < 2:
            return None
        owner, name, *rest = segments
        name = name.removesuffix(".git")
        if not (_NAME.fullmatch(owner) and _NAME.fullmatch(name)) or _NO_OWNERS.fullmatch(owner):
            return None
        if rest and (rest[0] not in ("tree", "blob") or len(rest) < 2):
            return None
        return cls(f"{parts.scheme}://{parts.netloc}", owner, name, "/".join(rest[1:]))

    @property
    def repository(self) -> str:
        """Return the URL of the repository, without folder and ref."""
        return f"{self.web}/{self.owner}/{self.name}"

    @property
    def url(self) -> str:
        """Return the URL of the source."""
        return f"{self.repository}/tree/{quoted(self.tail)}" if self.tail else self.repository

    @property
    def is_public(self) -> bool:
        """Return whether the repository is on github.com."""
        return self.web == _GITHUB

    @property
    def api(self) -> str:
        """Return the default URL of the REST API."""
        if self.is_public:
            return "https://api.github.com"
        scheme, _, host = self.web.partition("://")
        return f"{scheme}://api.{host}" if host.endswith(".ghe.com") else f"{self.web}/api/v3"

    def places(self) -> list[tuple[str, str]]:
        """Return the possible pairs of ref and path in the tail, most likely first."""
        parts = self.tail.split("/") if self.tail else []
        return [("/".join(parts[:n]), "/".join(parts[n:])) for n in range(1, min(len(parts), 6) + 1)] or [("HEAD", "")]


def recognise(address: str) -> str | None:
    """Return the source URL for `github:OWNER/REPO[@REF]`, a github.com URL, or `github:` before another URL."""
    rest = address.removeprefix("github:")
    short = _SHORT.fullmatch(rest) if rest != address else None
    repository: RepositoryAddress | None
    if short and _NAME.fullmatch(short["owner"]) and _NAME.fullmatch(short["name"]):
        repository = RepositoryAddress(_GITHUB, short["owner"], short["name"], short["ref"] or "")
    else:
        url = re.sub(r"^https?://(?:www\.)?github\.com(?=/)", _GITHUB, rest, flags=re.IGNORECASE)
        repository = RepositoryAddress.parse(url)
    if repository is None or (rest == address and not repository.is_public):
        return None
    return repository.url


def _check_root(value: str) -> str:
    if not _URL.fullmatch(value):
        raise ValueError("is no http or https URL without login and query")
    return value.rstrip("/")


Root = Annotated[str, AfterValidator(_check_root)]


class GitHubOptions(RepositoryOptions):
    """Options of a repository on GitHub."""

    secret_neutral: ClassVar[frozenset[str]] = RepositoryOptions.secret_neutral | {"issues", "discussions", "releases"}

    wiki: bool = Field(default=False, description="also read the pages of its wiki (needs the git program)")
    issues: bool = Field(default=False, description="also read its issues, without their comments")
    discussions: bool = Field(default=False, description="also read its discussions (needs a token)")
    releases: bool = Field(default=False, description="also read its release notes")
    api_url: Root | None = Field(default=None, description="URL of the REST API of another installation")
    raw_url: Root | None = Field(
        default=None,
        description="URL of the host of raw files; default: that of github.com, if there is no token",
    )
    delay_s: float = Field(default=0.07, ge=0, description="pause between requests")

    @model_validator(mode="after")
    def _check_token(self) -> Self:
        if self.discussions and not self.token:
            raise ValueError("discussions can only be read with a token: set the option token as well")
        return self
