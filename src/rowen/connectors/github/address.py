"""Addresses of repositories on GitHub, and on installations of it elsewhere."""

import re
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from rowen.connectors.git.listing import quoted

__all__ = ["RepositoryAddress", "recognise"]

_SHORT = re.compile(r"(?P<owner>[\w.-]+)/(?P<name>[\w.-]+?)(?:\.git)?(?:@(?P<ref>\S+))?", re.ASCII)
_NAME = re.compile(r"(?!\.\.?$)[\w.-]+", re.ASCII)
_GITHUB = "https://github.com"
# Places at github.com that look like an owner's.
_NO_OWNERS = re.compile(
    r"about|apps|collections|contact|customer-stories|enterprise|events|explore|features|login|marketplace|new|orgs|"
    r"notifications|organizations|pricing|search|security|settings|site|sponsors|topics|trending|users"
)


class RepositoryAddress(NamedTuple):
    """A repository. `tail` is what follows `/tree/`: a ref and perhaps a path, which only the server tells apart."""

    web: str
    owner: str
    name: str
    tail: str = ""

    @classmethod
    def parse(cls, url: str) -> "RepositoryAddress | None":
        """The address in the URL of a repository, or of a folder or file in it."""
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
        """The URL of the repository as a whole."""
        return f"{self.web}/{self.owner}/{self.name}"

    @property
    def url(self) -> str:
        """The URL of the source."""
        return f"{self.repository}/tree/{quoted(self.tail)}" if self.tail else self.repository

    @property
    def is_public(self) -> bool:
        """Whether it is on github.com itself."""
        return self.web == _GITHUB

    @property
    def api(self) -> str:
        """Where the REST API is, unless told otherwise."""
        if self.is_public:
            return "https://api.github.com"
        scheme, _, host = self.web.partition("://")
        return f"{scheme}://api.{host}" if host.endswith(".ghe.com") else f"{self.web}/api/v3"

    def places(self) -> list[tuple[str, str]]:
        """The refs and paths that the tail may stand for, likeliest first."""
        parts = self.tail.split("/") if self.tail else []
        return [("/".join(parts[:n]), "/".join(parts[n:])) for n in range(1, min(len(parts), 6) + 1)] or [("HEAD", "")]


def recognise(address: str) -> str | None:
    """The source URL of `github:OWNER/REPO[@REF]`, of a URL at github.com, or of `github:` and a URL elsewhere."""
    rest = address.removeprefix("github:")
    short = _SHORT.fullmatch(rest) if rest != address else None
    if short and _NAME.fullmatch(short["owner"]) and _NAME.fullmatch(short["name"]):
        found: RepositoryAddress | None = RepositoryAddress(_GITHUB, short["owner"], short["name"], short["ref"] or "")
    else:
        found = RepositoryAddress.parse(
            re.sub(r"^https?://(?:www\.)?github\.com(?=/)", _GITHUB, rest, flags=re.IGNORECASE)
        )
    if found is None or (rest == address and not found.is_public):
        return None
    return found.url
