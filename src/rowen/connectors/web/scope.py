"""Decides which URLs belong to a site, and recognises different spellings of one page's URL."""

import re
from collections import Counter
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

import ada_url

from rowen.connectors.web.options import WebOptions
from rowen.model.files import is_copy, is_index, media_type_of
from rowen.model.url import canonical

# The protocol of sitemaps allows 2,048 characters.
LONGEST_URL = 2000
# Cached decisions about links, such as the links of a menu on every page; they take about 15 MB.
REMEMBERED_LINKS = 1 << 15
# A path may contain a segment several times (`/2011/11/11/`); relative links with a wrong base repeat one with every
# page that is followed.
MOST_REPEATED = 3
_INDEX = re.compile(r"/(?:index|default)\.(?:html?|php|aspx?)$", re.IGNORECASE)
_SESSION = re.compile(r";jsessionid=[^/?#]*|(?<=[?&])(?:phpsessid|jsessionid|aspsessionid\w*)=[^&#]*&?", re.IGNORECASE)
_PARTS = re.compile(r"https?://([^/?#]*)([^?#]*)")
_ENDING = re.compile(r"\.([a-z0-9]{1,5})$", re.IGNORECASE)
# Endings of programs that return pages.
_PAGES = frozenset({"html", "htm", "xhtml", "php", "asp", "aspx", "jsp", "jspx", "cgi", "do", "shtml", "cfm"})
_FILES = frozenset(
    {
        *("png", "jpg", "jpeg", "gif", "svg", "webp", "avif", "ico", "bmp", "tif", "tiff"),
        *("css", "js", "mjs", "map", "woff", "woff2", "ttf", "otf", "eot"),
        *("mp3", "mp4", "m4a", "ogg", "oga", "wav", "webm", "avi", "mov", "mkv", "flac"),
        *("zip", "gz", "tgz", "bz2", "xz", "7z", "rar", "tar", "iso", "dmg", "exe", "msi"),
        *("deb", "rpm", "apk", "jar", "war", "whl", "so", "dll", "bin"),
    }
)


class PageUrl(NamedTuple):
    """A URL of the site: `url` is the form to request, `name` the canonical form that identifies the page."""

    url: str
    name: str


class SiteScope:
    """Decides which URLs belong to a site."""

    def __init__(self, root: str, options: WebOptions) -> None:
        self._options = options
        self._keep_fragment = options.hash_routes
        self._root = self.clean(root)
        parts = urlsplit(self._root or root)
        self._host = parts.netloc
        self._domain = (parts.hostname or "").removeprefix("www.")
        self._folder = parts.path[: parts.path.rfind("/") + 1] or "/"
        # Most links of a page also occur on the page before.
        self.page = lru_cache(REMEMBERED_LINKS)(self._page)

    def _page(self, url: str) -> PageUrl | None:
        """Return the page that a link leads to; None if it does not belong to the site."""
        clean = self.clean(url)
        return PageUrl(clean, canonical(clean)) if clean is not None and self.takes(clean) else None

    def clean(self, url: str) -> str | None:
        """Return a URL in the form to request, without session and fragment; None for an invalid URL."""
        page, _, fragment = url.partition("#")
        if self._keep_fragment and fragment.startswith(("/", "!")):
            page = url
        try:
            clean = str(ada_url.normalize_url(_SESSION.sub("", page)))
        except ValueError:
            return None
        if not clean.startswith(("http://", "https://")) or len(url) > LONGEST_URL:
            return None
        return clean.removesuffix("&").removesuffix("?")

    def takes(self, url: str) -> bool:
        """Return whether a cleaned URL belongs to the site and may be a page."""
        if url == self._root:
            return True
        parts = _PARTS.match(url)
        if parts is None:
            return False
        name = parts[1].partition(":")[0]
        match self._options.scope:
            case "subpages":
                is_inside = parts[1] == self._host and parts[2].startswith(self._folder)
            case "host":
                is_inside = parts[1] == self._host
            case "domain":
                is_inside = name == self._domain or name.endswith("." + self._domain)
        if not is_inside or (not self._options.generated and is_copy(url)):
            return False
        if url.count("/") > MOST_REPEATED + 2:
            # Relative links with a wrong base go round in circles.
            segments = [segment for segment in url.partition("?")[0].split("/") if segment]
            if max(Counter(segments).values()) > MOST_REPEATED:
                return False
        if self._options.excluded and self._options.excluded.search(url):
            return False
        if self._options.included is not None and not self._options.included.search(url):
            return False
        # Exclude paths whose ending belongs to an unreadable format.
        ending = _ENDING.search(parts[2])
        if ending is None or ending[1].lower() in _PAGES or ending[1].isdigit():
            return True
        return media_type_of(parts[2].rpartition("/")[2]) is not None or ending[1].lower() not in _FILES

    def is_variant(self, url: str, preferred: str) -> bool:
        """Return whether `preferred`, a page's canonical address, is another spelling of `url` within the scope."""
        page = self.page(preferred)
        if page is None or page.name == canonical(url):
            return False
        return variant(page.url).partition("?")[0] == variant(url).partition("?")[0]

    def is_index(self, url: str) -> bool:
        """Return whether a page is a generated index that is not stored."""
        return not self._options.generated and is_index(url)


def variant(url: str) -> str:
    """Return a form that is equal for usual spellings of one URL: index page or folder, query order, case, `www`."""
    parts = urlsplit(canonical(url).casefold())
    path = _INDEX.sub("/", parts.path).rstrip("/")
    query = "&".join(sorted(parts.query.split("&")))
    return f"{parts.netloc.removeprefix('www.')}{path}?{query}#{parts.fragment}"


class Spellings:
    """The URLs of the bodies that were read in one walk."""

    def __init__(self) -> None:
        self._first: dict[bytes, str] = {}
        self._by_variant: dict[tuple[str, bytes], str] = {}

    def has_another(self, url: str, body_hash: bytes | None) -> bool:
        """Return whether the same body was already read under another spelling of this URL."""
        if body_hash is None:
            return False
        first = self._first.setdefault(body_hash, url)
        if first == url:
            return False
        self._by_variant.setdefault((variant(first), body_hash), first)
        return self._by_variant.setdefault((variant(url), body_hash), url) != url
