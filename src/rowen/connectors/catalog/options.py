"""The options of all catalog connectors, the addresses of catalogs, and the templates of landing pages."""

import re
from string import Formatter
from typing import Any, ClassVar
from urllib.parse import urlsplit

from rowen.connectors.plain_options import PlainOptions, option
from rowen.errors import BadUrlError
from rowen.model.url import quoted
from rowen.net.target import parse

_PLACEHOLDERS = ("id", "name")
_SAFE = ":@~"  # characters that identifiers contain and that have no meaning in a path or a query
_WEB = re.compile(r"https?://[^/\s{}]+", re.IGNORECASE)
_EUROPA = re.compile(r"https?://data\.europa\.eu/88u/dataset/([^/?#]+)", re.IGNORECASE)
_GEONETWORK = re.compile(r"(https?://[^?#]*/srv)/(?:[a-z]{3}/)?csw\b[^?#]*", re.IGNORECASE)
# SDMX has no field for a web page; these services have a page for each dataflow.
_DATAFLOWS = {
    "ec.europa.eu": "https://ec.europa.eu/eurostat/databrowser/view/{name}/default/table",
    "data-api.ecb.europa.eu": "https://data.ecb.europa.eu/data/datasets/{name}",
}


def check_template(template: str) -> str:
    """Return the template of a landing page; raise `ValueError` if it cannot produce addresses."""
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
    """Return the address that a template gives for one record; empty for a record without an identifier."""
    if not identifier:
        return ""
    return template.format(id=quoted(identifier, safe=_SAFE), name=quoted(name or identifier, safe=_SAFE))


def page_at_europa(iri: str) -> str:
    """Return the web page of a dataset of data.europa.eu; empty for any other IRI."""
    match = _EUROPA.fullmatch(iri)
    return f"https://data.europa.eu/data/datasets/{match[1]}" if match else ""


def page_of_geonetwork(service: str, identifier: str) -> str:
    """Return the web page of a record in GeoNetwork, derived from its CSW address; empty for another service."""
    match = _GEONETWORK.match(service)
    return f"{match[1]}/api/records/{quoted(identifier)}" if match and identifier else ""


def page_of_dataflow(service: str, name: str) -> str:
    """Return the web page of a dataflow; empty for a service with unknown pages."""
    try:
        known = _DATAFLOWS.get(urlsplit(service).hostname or "")
    except ValueError:
        return ""
    return filled(known, identifier=name, name=name) if known else ""


_WEB_ADDRESS = re.compile(r"https?://", re.IGNORECASE)


class DocumentOptions(PlainOptions):
    """Options of catalogs in documents; `language` is the preferred language of records in several languages.

    `record_version` is increased when the mapping of records changes. All records are then read again, and an item
    that differs only by the new mapping is announced as amended.
    """

    record_version: ClassVar[int] = 4

    secret_neutral: ClassVar[frozenset[str]] = PlainOptions.secret_neutral | {"landing_page", "aliases"}

    headers: dict[str, str] = option(default_factory=dict, description="headers to send; env:NAME and file:PATH refer")
    delay_s: float | None = option(default=None, ge=0, description="least time between two requests")
    landing_page: str | None = option(
        default=None,
        check=check_template,
        description="where the page of a record is that names none: https://…/{id} or {name}",
    )
    aliases: tuple[str, ...] = option(
        default=(), description="other addresses of the same portal, which are recognised when added"
    )
    max_records: int | None = option(
        default=None, ge=1, description="most records; default: ten times those of the last run, at most 10 million"
    )

    def reading(self) -> dict[str, Any]:
        """Return the options that affect the mapping of a record, and the version of the mapping."""
        made = {"landing_page": self.landing_page} if self.landing_page else {}
        return {"language": self.language, "records": self.record_version, **made}

    def listing(self) -> dict[str, Any]:
        """Return the options that require an unchanged document to be read again when they change."""
        return {"headers": self.headers, "language": self.language, "landing_page": self.landing_page}

    def as_catalog(self) -> "CatalogOptions":
        """Return the same options as options of a paged catalog."""
        return CatalogOptions(
            headers=self.headers,
            delay_s=self.delay_s,
            language=self.language,
            max_records=self.max_records,
            landing_page=self.landing_page,
        )


class CatalogOptions(DocumentOptions):
    """Options of paged catalogs, which may be able to list modified records."""

    # Most protocols return this many records at once; more are refused or truncated, and fewer cost more requests.
    page_size: int = option(default=100, ge=1, le=10_000, description="records to ask for at once")
    # A judgement: an index shows a record within minutes of its stamp, and a job may stamp records as long as it runs.
    overlap_h: float = option(default=1.0, ge=0, description="how far before the cursor to ask again")
    # Only a whole walk shows edits without a new date: a week limits the delay at a seventh of the cost of daily walks.
    reconcile_days: float = option(default=7.0, ge=0, description="after how long to walk the whole catalog again")

    def listing(self) -> dict[str, Any]:
        """Return the options that select records, without the options for the size and timing of requests."""
        asking = {"page_size", "overlap_h", "reconcile_days", "delay_s", "max_records", "aliases"}
        return self.model_dump(mode="json", exclude=asking)

    def as_catalog(self) -> "CatalogOptions":
        """Return these options unchanged."""
        return self


def web_url(address: str, kind: str) -> str | None:
    """Return the URL of `KIND:https://…` or of a plain web address; None for anything else."""
    bare = address.removeprefix(f"{kind}:")
    if not _WEB_ADDRESS.match(bare):
        return None
    try:
        return parse(bare).url
    except BadUrlError:
        return None
