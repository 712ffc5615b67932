"""SPARQL endpoints that describe datasets with DCAT."""

import re
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import parse_qs, urlencode, urlsplit

from rowen.connectors.base import Known
from rowen.connectors.catalog.connector import CatalogConnector
from rowen.connectors.catalog.listing import Listing
from rowen.connectors.catalog.options import web_url
from rowen.connectors.catalog.portal_client import PortalClient
from rowen.connectors.probe import Probe
from rowen.connectors.sparql.endpoint import FORM, RESULTS, Endpoint
from rowen.connectors.sparql.listing import Identified, SparqlOptions
from rowen.net.client import Client

if TYPE_CHECKING:
    from rowen.connectors.base import Options

_EUROPA = "data.europa.eu"
_ENDPOINT = f"https://{_EUROPA}/sparql"
_PAGE = f"https://{_EUROPA}/data/catalogues/"
_IRI = f"http://{_EUROPA}/88u/catalogue/"
# The web page in any language, the IRI, and the address in the registry.
_PATH = re.compile(
    r"/(?:data/(?:[a-z]{2}/)?catalogues|88u/catalogue|api/hub/repo/catalogues)/([\w.~-]+)(?:/datasets)?/?"
)
_LIST = re.compile(r"/data/(?:[a-z]{2}/)?datasets/?")
_SHORT = re.compile(r"[\w.~-]+")


def page_of(address: str) -> str | None:
    """Return the page URL of a data.europa.eu catalogue for any of its addresses; None for any other address.

    The page URL identifies the catalogue as a source.
    """
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    if (parts.hostname or "").removeprefix("www.") != _EUROPA:
        return None
    if match := _PATH.fullmatch(parts.path):
        return _PAGE + match[1]
    # A list of datasets that is filtered by one catalogue stands for this catalogue.
    chosen = parse_qs(parts.query).get("catalog", []) if _LIST.fullmatch(parts.path) else []
    return _PAGE + chosen[0] if len(chosen) == 1 and _SHORT.fullmatch(chosen[0]) else None


def resolve_endpoint(url: str, catalogue: str | None) -> tuple[str, str | None]:
    """Return the endpoint of a source, and the IRI of the catalogue; None if neither URL nor option names one."""
    if page := page_of(url):
        url, catalogue = _ENDPOINT, page.removeprefix(_PAGE)
    is_short = catalogue is not None and ":" not in catalogue and urlsplit(url).hostname == _EUROPA
    return url, f"{_IRI}{catalogue}" if is_short else catalogue


_USUAL_PATH = re.compile(r"/sparql/?$", re.IGNORECASE)
_ASK = "ASK { ?d a <http://www.w3.org/ns/dcat#Dataset> }"


class Sparql(CatalogConnector):
    """Connector for SPARQL endpoints."""

    kind: ClassVar[str] = "sparql"
    Options: "ClassVar[type[Options]]" = SparqlOptions

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """Return the source URL of `sparql:https://…`, a URL that ends in `/sparql`, or a data.europa.eu catalogue."""
        path = address.partition("?")[0].partition("#")[0]
        is_endpoint = address.startswith("sparql:") or _USUAL_PATH.search(path) or page_of(address)
        return cls.accept(address) if is_endpoint else None

    @classmethod
    def accept(cls, address: str) -> str | None:
        """Return the source URL for a web address; None for any other address."""
        url = web_url(address, cls.kind)
        return (page_of(url) or url) if url else None

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """Return the endpoint at an address or at its `/sparql`, if it contains a dataset."""
        url = probe.url if _USUAL_PATH.search(probe.base) else f"{probe.base}/sparql"
        body = urlencode({"query": _ASK}).encode()
        match await probe.json(url, accept=RESULTS, body=body, headers={"Content-Type": FORM}):
            case {"boolean": True}:
                return cls.accept(url)
        return None

    def _open_listing(self, client: Client, known: Known) -> Listing:
        portal = PortalClient(client, self._url, self._options, now=self._tools.now)
        portal.size.limit_s = portal.idle_s = self._options.timeout_s
        endpoint, catalogue = resolve_endpoint(self._url, self._options.catalogue)
        return Identified(Endpoint(portal, endpoint), self._url, self._options, catalogue=catalogue)
