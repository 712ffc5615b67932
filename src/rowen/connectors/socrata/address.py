"""Addresses of Socrata portals, and what a user can set."""

import re
from typing import ClassVar, Literal
from urllib.parse import parse_qs, unquote, urlsplit

from rowen.connectors.catalog.options import CatalogOptions, web_url
from rowen.connectors.plain_options import option
from rowen.model.url import SEGMENT, quoted

__all__ = ["SocrataOptions", "accept", "domain_of", "identifier_in", "item", "recognise"]

_PREFIX = "socrata:"
_API = "/api/catalog/v1"
_CENTRAL = re.compile(r"api\.(?:us|eu)\.socrata\.com", re.IGNORECASE)
_TELLING = re.compile(r"https?://[^/]+(?:\.socrata\.com(?:[/:].*)?|/api/catalog/v1/?)", re.IGNORECASE)


def recognise(address: str) -> str | None:
    """The portal of `socrata:https://…`, of a host of Socrata's, or of an address of the catalog API."""
    told = address.startswith(_PREFIX) or _TELLING.fullmatch(address.partition("?")[0])
    return accept(address) if told else None


def accept(address: str) -> str | None:
    """The portal of any web address that a user says to be one; the shared API needs to be told which."""
    url = web_url(address, "socrata")
    if url is None:
        return None
    parts = urlsplit(url)
    if not _CENTRAL.fullmatch(parts.hostname or ""):
        return f"{parts.scheme}://{parts.netloc}"
    domains = parse_qs(parts.query).get("domains", [""])[0].split(",")
    return f"https://{domains[0]}" if len(domains) == 1 and re.fullmatch(r"[\w.-]+", domains[0]) else None


def domain_of(site: str) -> str:
    """What the API calls a portal."""
    return urlsplit(site).hostname or ""


def item(site: str, identifier: str) -> str:
    """The URL of a dataset, which outlives its title."""
    return f"{site}/d/{quoted(identifier, safe=SEGMENT)}"


def identifier_in(url: str) -> str:
    """The identifier in the URL of a dataset."""
    return unquote(url.rpartition("/d/")[2], errors="surrogatepass")


Sort = Literal["calendars", "charts", "datasets", "files", "filters", "forms", "links", "maps", "stories"]


class SocrataOptions(CatalogOptions):
    """Options of kind `socrata`."""

    secret_neutral: ClassVar[frozenset[str]] = CatalogOptions.secret_neutral | {"only"}

    app_token: str | None = option(
        default=None, pattern=r"^(env|file):\S+$", description="where the token is: env:NAME"
    )
    only: tuple[Sort, ...] = option(default=("datasets", "maps"), description="which sorts of assets; empty for all")
    # A record has some kB, so that a page has 1 to 2 MB.
    page_size: int = option(default=500, ge=1, le=10_000)
