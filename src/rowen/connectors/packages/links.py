"""Which of the links of a package lead to its documentation and its changelog."""

import re
from collections.abc import Iterator, Mapping
from urllib.parse import SplitResult, urlsplit

from rowen.model.url import segment
from rowen.model.versions import parse

__all__ = ["changelog_of", "docs_of", "moving", "versioned"]

_DOCS = re.compile(r"doc(?:s|umentation)?.*|.*documentation|readthedocs|(?:api|user)?(?:reference|guide|manual)")
_CHANGELOG = re.compile(r"change(?:s|log).*|releasenotes?|whatsnew|history|news|releases")
_HOME = re.compile(r"home(?:page)?|website|site|project")
_REPOSITORY = re.compile(
    r"(?:www\.)?(?:github\.com|gitlab\.com|bitbucket\.org|codeberg\.org|sourceforge\.net|git\.sr\.ht)"
    r"|(?:git|gitlab|github|gitea|hg|svn)\..+",
    re.IGNORECASE,
)
_BLOB = re.compile(r"https?://(?:www\.)?github\.com/([^/]+/[^/]+)/(?:blob|raw)/([^?#]+)", re.IGNORECASE)
_DOCS_HOST = re.compile(r"docs?\..+|.+\.(?:readthedocs\.(?:io|org)|github\.io|gitlab\.io)", re.IGNORECASE)
_REGISTRY_PAGE = re.compile(r"/(?:package|project|packages|projects|pypi)/[^/]+/?$")
_MOVING = re.compile(r"(?<=/)(?:latest|stable|current|main|master|dev|devel)(?=/|$)")
_LETTERS = re.compile(r"[^a-z0-9]")


def docs_of(links: Mapping[str, str], *, name: str, registry: str) -> str | None:
    """The documentation site that a package names, if it is one of its own.

    A homepage counts if its host or its address speaks of the package: that of a company is not its documentation.
    """
    for label, url in _by_label(links):
        if _DOCS.fullmatch(label) and _is_site(url, registry):
            return url
    for label, url in _by_label(links):
        if _HOME.fullmatch(label) and _is_site(url, registry) and _is_about(url, name):
            return url
    return None


def changelog_of(links: Mapping[str, str], *, registry: str) -> str | None:
    """The page with the changelog that a package names; of files on GitHub the file itself."""
    for label, url in _by_label(links):
        if _CHANGELOG.fullmatch(label):
            if blob := _BLOB.match(url):
                return f"https://raw.githubusercontent.com/{blob[1]}/{blob[2]}"
            if _is_site(url, registry):
                return url
    return None


def versioned(url: str, version: str) -> list[str]:
    """Where the documentation of one release may be, if the path says `latest` or the like."""
    parsed = parse(version)
    if parsed is None or not moving(url):
        return []
    short = ".".join(str(number) for number in (*parsed.release, 0)[:2])
    names = [segment(name, safe="!+") for name in dict.fromkeys((version, f"v{version}", short, f"v{short}"))]
    parts = urlsplit(url)
    return [parts._replace(path=_MOVING.sub(name, parts.path, count=1)).geturl() for name in names]


def moving(url: str) -> bool:
    """Whether a URL leads to whatever is newest."""
    return bool(_MOVING.search(urlsplit(url).path))


def _by_label(links: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for label, url in links.items():
        yield _LETTERS.sub("", label.lower()), url


def _is_site(url: str, registry: str) -> bool:
    parts = _split(url)
    if parts is None or _REPOSITORY.fullmatch(parts.hostname or "") or parts.path.endswith(".git"):
        return False
    home = urlsplit(registry)
    return not (parts.netloc == home.netloc and parts.path.startswith(home.path.rstrip("/")))


def _is_about(url: str, name: str) -> bool:
    parts = _split(url)
    if parts is None or _REGISTRY_PAGE.search(parts.path):
        return False
    own = _LETTERS.sub("", name.lower().rpartition("/")[2])
    return bool(_DOCS_HOST.fullmatch(parts.hostname or "")) or own in _LETTERS.sub(
        "", f"{parts.netloc}{parts.path}".lower()
    )


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return parts if parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc else None
