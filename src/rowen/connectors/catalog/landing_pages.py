"""Pages for people, where a record names none: by a template of the user's, or where its kind of portal has them."""

import re
from string import Formatter
from urllib.parse import urlsplit

from rowen.model.url import quoted

__all__ = ["check_template", "filled", "page_at_europa", "page_of_dataflow", "page_of_geonetwork"]

_PLACEHOLDERS = ("id", "name")
_SAFE = ":@~"  # what identifiers are made of, and what means nothing in a path or a query
_WEB = re.compile(r"https?://[^/\s{}]+", re.IGNORECASE)
_EUROPA = re.compile(r"https?://data\.europa\.eu/88u/dataset/([^/?#]+)", re.IGNORECASE)
_GEONETWORK = re.compile(r"(https?://[^?#]*/srv)/(?:[a-z]{3}/)?csw\b[^?#]*", re.IGNORECASE)
# Those of SDMX tell no pages; these services have one for each dataflow.
_DATAFLOWS = {
    "ec.europa.eu": "https://ec.europa.eu/eurostat/databrowser/view/{name}/default/table",
    "data-api.ecb.europa.eu": "https://data.ecb.europa.eu/data/datasets/{name}",
}


def check_template(template: str) -> str:
    """A template that makes addresses; raises `ValueError` for one that cannot."""
    if not _WEB.match(template):
        raise ValueError("a landing page is a web address, whose host has no placeholder")
    try:
        fields = [(field, spec, mark) for _, field, spec, mark in Formatter().parse(template) if field is not None]
    except ValueError as problem:
        raise ValueError(f"the braces do not match: {problem}") from None
    if not fields or any(field not in _PLACEHOLDERS or spec or mark for field, spec, mark in fields):
        raise ValueError("a landing page has {id} or {name} in it, and no other braces")
    return template


def filled(template: str, *, identifier: str, name: str) -> str:
    """The address that a template makes for one record; nothing for a record without an identifier."""
    if not identifier:
        return ""
    return template.format(id=quoted(identifier, safe=_SAFE), name=quoted(name or identifier, safe=_SAFE))


def page_at_europa(iri: str) -> str:
    """Where data.europa.eu shows a dataset of its own."""
    found = _EUROPA.fullmatch(iri)
    return f"https://data.europa.eu/data/datasets/{found[1]}" if found else ""


def page_of_geonetwork(service: str, identifier: str) -> str:
    """Where a GeoNetwork shows a record, which is told by the address of its catalogue service."""
    found = _GEONETWORK.match(service)
    return f"{found[1]}/api/records/{quoted(identifier)}" if found and identifier else ""


def page_of_dataflow(service: str, name: str) -> str:
    """Where a statistical office shows a dataflow."""
    try:
        known = _DATAFLOWS.get(urlsplit(service).hostname or "")
    except ValueError:
        return ""
    return filled(known, identifier=name, name=name) if known else ""
