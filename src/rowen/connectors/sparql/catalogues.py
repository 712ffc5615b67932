"""One catalogue of an endpoint that has many: data.europa.eu, which gathers two hundred, names each by its page."""

import re
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

__all__ = ["Asked", "asked_of", "catalogue_iri", "page_of"]

_EUROPA = "data.europa.eu"
_ENDPOINT = f"https://{_EUROPA}/sparql"
_PAGE = f"https://{_EUROPA}/data/catalogues/"
_IRI = f"http://{_EUROPA}/88u/catalogue/"
# The page for people in any language, the IRI, and the registry.
_PATH = re.compile(
    r"/(?:data/(?:[a-z]{2}/)?catalogues|88u/catalogue|api/hub/repo/catalogues)/([\w.~-]+)(?:/datasets)?/?"
)
_LIST = re.compile(r"/data/(?:[a-z]{2}/)?datasets/?")
_SHORT = re.compile(r"[\w.~-]+")


class Asked(NamedTuple):
    """Where to ask, and for the datasets of which catalogue; None for all."""

    endpoint: str
    catalogue: str | None


def page_of(address: str) -> str | None:
    """The page of a catalogue of data.europa.eu, by which it is known, whichever of its addresses is given."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    if (parts.hostname or "").removeprefix("www.") != _EUROPA:
        return None
    if found := _PATH.fullmatch(parts.path):
        return _PAGE + found[1]
    # A list of datasets that are chosen by one catalogue is that catalogue.
    chosen = parse_qs(parts.query).get("catalog", []) if _LIST.fullmatch(parts.path) else []
    return _PAGE + chosen[0] if len(chosen) == 1 and _SHORT.fullmatch(chosen[0]) else None


def asked_of(url: str, catalogue: str | None) -> Asked:
    """What a source asks: an endpoint, or the catalogue whose page its URL is."""
    if page := page_of(url):
        return Asked(_ENDPOINT, catalogue_iri(page.removeprefix(_PAGE), _ENDPOINT))
    return Asked(url, catalogue_iri(catalogue, url) if catalogue else None)


def catalogue_iri(named: str, endpoint: str) -> str:
    """The IRI of a catalogue; for data.europa.eu its short name will do."""
    if ":" in named:
        return named
    return _IRI + named if urlsplit(endpoint).hostname == _EUROPA else named
