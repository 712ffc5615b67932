"""The documentation site and the changelog page of a package: finds their URLs and reads them."""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from rowen.connectors.base import Known, StoredState, Tools
from rowen.connectors.packages.lookup import DocsCursor
from rowen.connectors.web import Web
from rowen.connectors.web.options import WebOptions
from rowen.errors import FetchError, SourceError
from rowen.model.items import Checkpoint, Complete, Cursor, Failed, Incomplete, Observation
from rowen.model.url import segment
from rowen.model.versions import parse
from rowen.net.client import Client
from rowen.net.robots import Robots

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
    """Return the documentation URL of a package; a homepage counts only if its URL contains the package's name.

    A homepage at a usual documentation host counts as well.
    """
    own = _LETTERS.sub("", name.lower().rpartition("/")[2])
    by_label = [(_LETTERS.sub("", label.lower()), url) for label, url in links.items()]
    for label, url in by_label:
        if _DOCS.fullmatch(label) and _site(url, registry):
            return url
    for label, url in by_label:
        if _HOME.fullmatch(label) and (parts := _site(url, registry)) and not _REGISTRY_PAGE.search(parts.path):
            is_docs = _DOCS_HOST.fullmatch(parts.hostname or "")
            if is_docs or own in _LETTERS.sub("", f"{parts.netloc}{parts.path}".lower()):
                return url
    return None


def changelog_of(links: Mapping[str, str], *, registry: str) -> str | None:
    """Return the changelog URL that a package declares; for a file on GitHub, the URL of the raw file."""
    for label, url in links.items():
        if _CHANGELOG.fullmatch(_LETTERS.sub("", label.lower())):
            if blob := _BLOB.match(url):
                return f"https://raw.githubusercontent.com/{blob[1]}/{blob[2]}"
            if _site(url, registry):
                return url
    return None


def _site(url: str, registry: str) -> SplitResult | None:
    """Return the parts of a URL; None if it leads to a repository or to a page of the registry."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        return None
    if _REPOSITORY.fullmatch(parts.hostname) or parts.path.endswith(".git"):
        return None
    home = urlsplit(registry)
    is_registry = parts.netloc == home.netloc and parts.path.startswith(home.path.rstrip("/"))
    return None if is_registry else parts


def _moving(url: str) -> bool:
    """Return whether the path of a URL contains a name such as `latest`, which follows the newest version."""
    return bool(_MOVING.search(urlsplit(url).path))


def versioned(url: str, version: str) -> list[str]:
    """Return likely documentation URLs of one release; empty unless the path contains a name such as `latest`."""
    parsed = parse(version)
    if parsed is None or not _moving(url):
        return []
    short = ".".join(str(number) for number in (*parsed.release, 0)[:2])
    names = [segment(name, safe="!+") for name in dict.fromkeys((version, f"v{version}", short, f"v{short}"))]
    parts = urlsplit(url)
    return [parts._replace(path=_MOVING.sub(name, parts.path, count=1)).geturl() for name in names]


async def settle(client: Client, url: str, version: str, *, robots: bool) -> str | None:
    """Return the documentation URL of exactly this version, otherwise `url`; None if the site did not respond."""
    rules = Robots(client) if robots else None
    try:
        start = url if _moving(url) else await _final_url(client, url, rules)
        for candidate in versioned(start or url, version):
            if await _final_url(client, candidate, rules) == candidate:
                return candidate
    except FetchError:
        return None
    return url


async def _final_url(client: Client, url: str, robots: Robots | None) -> str | None:
    """Return the URL after redirects; None if it does not respond with a page or robots.txt disallows it."""
    if robots is not None and not (await robots.rules(url)).allows(url):
        return None
    response = await client.get(url)
    if response.status >= 500:
        raise FetchError(f"{url} answered with status {response.status}.")
    return response.url if response.ok else None


class _KnownOfSite:
    """The stored state of a package, with the cursor of one of its sites."""

    def __init__(self, known: Known, cursor: Cursor) -> None:
        self.cursor: Cursor = cursor
        self.mode, self.count, self.failed, self.losable = known.mode, known.count, known.failed, known.losable
        self.look_up, self.recall, self.recall_all = known.look_up, known.recall, known.recall_all
        self._known = known

    async def everything(self) -> AsyncIterator[Sequence[StoredState]]:
        """Yield the stored items with web URLs."""
        async for batch in self._known.everything():
            yield [item for item in batch if item.url.startswith("http")]


@dataclass(slots=True)
class DocsSite:
    """One site of a package. `memory` is the result of the last walk; `had_pages` is true if pages were ever found.

    `named` is the URL that the user gave for the site; headers are sent only to its origin. After a walk, `beyond`
    counts the pages beyond the limit, and `trouble` is the reason why stored pages must be kept. A site that never
    responded is a failed item and does not make the run partial, since dead links are common.
    """

    root: str
    options: WebOptions
    memory: DocsCursor | None
    had_pages: bool
    hint: str
    named: str | None = None
    trouble: str | None = None
    beyond: int = 0

    async def walk(self, known: Known, tools: Tools) -> AsyncGenerator[Observation]:
        """Read the pages of the site."""
        before = self.memory
        site = Web(self.root, self.options, tools, named=self.named)
        try:
            async with aclosing(site.pull(_KnownOfSite(known, before and before["cursor"]))) as observations:
                async for observation in observations:
                    match observation:
                        case Checkpoint(cursor):
                            self.memory = {"reached": True, "cursor": cursor}
                        case Incomplete(why):
                            self.trouble = why
                        case Complete(beyond=beyond):
                            self.beyond = beyond
                        case _:
                            yield observation
        except SourceError as problem:
            self.memory = before or {"reached": self.had_pages, "cursor": None}
            if self.had_pages:
                self.trouble = str(problem)
            yield Failed(self.root, str(problem), self.hint)
