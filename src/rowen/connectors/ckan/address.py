"""Addresses of CKAN portals: the URL of the API, the URLs of datasets, and the options of the kind."""

import re
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import unquote

from rowen.connectors.catalog.options import CatalogOptions, web_url
from rowen.connectors.plain_options import option
from rowen.model.url import quoted

_API = re.compile(r"(?P<site>.*?)(?P<api>/(?:api(?:/3)?|v3)(?:/action(?:/[a-z_]+)?)?)", re.IGNORECASE)
_TELLING = re.compile(r"/api/3(?:/action(?:/[a-z_]+)?)?|/v3/action", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CkanAddress:
    """The address of a portal: its base URL or, if the API is on another server, the URL of the API."""

    action: str
    site: str

    @classmethod
    def of(cls, url: str) -> "CkanAddress":
        """Parse a source URL into the address of a portal."""
        bare = url.rstrip("/")
        if bare.endswith("/action"):
            return cls(bare, bare.removesuffix("/action").removesuffix("/v3"))
        return cls(f"{bare}/api/3/action", bare)

    def item(self, identifier: str) -> str:
        """Return the URL of a dataset by its identifier, which leads to the same page as its name but never changes."""
        return f"{self.site}/dataset/{quoted(identifier)}"

    @staticmethod
    def identifier(url: str) -> str:
        """Return the identifier in the URL of a dataset."""
        return unquote(url.rpartition("/dataset/")[2], errors="surrogatepass")


def is_typical(address: str) -> bool:
    """Return whether the address alone identifies CKAN's API."""
    match = _API.fullmatch(address.partition("?")[0].rstrip("/"))
    return match is not None and _TELLING.fullmatch(match["api"]) is not None


def accept(address: str) -> str | None:
    """Return the source URL of any web address, without the path of an API or a page; None for other text."""
    typed = web_url(address, "ckan")
    if typed is None:
        return None
    url = typed.partition("?")[0].rstrip("/")
    match = _API.fullmatch(url)
    if match is None:
        return re.sub(r"/(?:dataset|organization|group)(?:/[^/]*)*$", "", url)
    return f"{match['site']}/v3/action" if match["api"].startswith("/v3") else match["site"]


class CkanOptions(CatalogOptions):
    """Options of kind `ckan`."""

    secret_neutral: ClassVar[frozenset[str]] = CatalogOptions.secret_neutral | {"filter"}

    api_key: str | None = option(default=None, pattern=r"^(env|file):\S+$", description="where the key is: env:NAME")
    api_key_header: str = option(default="Authorization", pattern=r"^[A-Za-z][A-Za-z0-9-]*$")
    filter: str | None = option(default=None, min_length=1, description="a Solr filter query, as CKAN's `fq`")
    include_private: bool = False
    # CKAN's own limit (`ckan.search.rows_max`); if a portal returns fewer, the page size is reduced.
    page_size: int = option(default=1000, ge=1, le=10_000, description="datasets to ask for at once")
