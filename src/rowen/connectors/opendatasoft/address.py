"""Addresses of OpenDataSoft portals: where the API is, and under which URL a dataset is known."""

import re
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import unquote

from rowen.connectors.catalog.options import CatalogOptions, web_url
from rowen.connectors.plain_options import option
from rowen.model.url import quoted, segment

__all__ = ["OpenDataSoftAddress", "OpenDataSoftOptions", "accept", "is_root", "recognise"]

_PREFIX = "opendatasoft:"
_API = re.compile(r"(?P<site>https?://[^/]+(?:/.*?)?)/api(?P<version>/explore/v2\.\d|/v2)(?s:/.*)?", re.IGNORECASE)
_TELLING = re.compile(
    r"https?://[^/]+\.opendatasoft\.com(?:[/:?#].*)?|.*/api/explore/v2\.\d(?s:/.*)?|.*/api/v2/catalog(?s:/.*)?"
    r"|.*/api/(?:datasets|records)/1\.0(?s:/.*)?",
    re.IGNORECASE,
)
# The first version lists in another way; its portals speak the latest one as well.
_FIRST = re.compile(r"/api/(?:datasets|records)/1\.0(?s:/.*)?$", re.IGNORECASE)
_LINKS = re.compile(rb'"href"\s*:\s*"[^"]{1,300}/api/(?:explore/v2\.\d|v2)/catalog[/"]')
_PAGE = re.compile(r"/(?:explore|pages|map|chart)(?s:/.*)?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class OpenDataSoftAddress:
    """A portal by its base URL or, where it speaks another version than v2.1, the URL of its API."""

    api: str
    site: str

    @classmethod
    def of(cls, url: str) -> "OpenDataSoftAddress":
        """The address in a source URL."""
        bare = url.rstrip("/")
        found = _API.fullmatch(bare)
        return cls(bare, found["site"]) if found else cls(f"{bare}/api/explore/v2.1", bare)

    @property
    def datasets(self) -> str:
        """Where the datasets are listed."""
        return f"{self.api}/catalog/datasets"

    def item(self, identifier: str) -> str:
        """The URL of a dataset: its page in the portal."""
        return f"{self.site}/explore/dataset/{quoted(identifier, safe='@')}/"

    @staticmethod
    def identifier(url: str) -> str:
        """The identifier in the URL of a dataset."""
        return unquote(url.rpartition("/explore/dataset/")[2].removesuffix("/"), errors="surrogatepass")

    def part(self, identifier: str, *path: str) -> str:
        """The URL of something that belongs to a dataset."""
        return "/".join([self.datasets, *(segment(one, safe="@") for one in (identifier, *path))])


def recognise(address: str) -> str | None:
    """The source URL of `opendatasoft:https://…`, of a host of OpenDataSoft's, or of an address of its API."""
    told = address.startswith(_PREFIX) or _TELLING.fullmatch(address.partition("?")[0])
    return accept(address) if told else None


def accept(address: str) -> str | None:
    """The source URL of an address that is said to be such a portal's, whatever it looks like."""
    given = web_url(address, "opendatasoft")
    if given is None:
        return None
    url = given.partition("?")[0].rstrip("/")
    found = _API.fullmatch(url)
    if found is None:
        return _PAGE.sub("", _FIRST.sub("", url))
    version = found["version"].lower()
    return found["site"] if version == "/explore/v2.1" else f"{found['site']}/api{version}"


def is_root(body: bytes) -> bool:
    """Whether an answer is that of the root of the API: links, one of them to the catalog."""
    return body.lstrip()[:1] == b"{" and _LINKS.search(body) is not None


class OpenDataSoftOptions(CatalogOptions):
    """Options of kind `opendatasoft`."""

    secret_neutral: ClassVar[frozenset[str]] = CatalogOptions.secret_neutral | {"filter"}

    api_key: str | None = option(default=None, pattern=r"^(env|file):\S+$", description="where the key is: env:NAME")
    filter: str | None = option(default=None, min_length=1, description="a condition in ODSQL")
    # The most that the Explore API gives at once.
    page_size: int = option(default=100, ge=1, le=100)
