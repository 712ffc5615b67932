"""The options of catalogs of any kind, their addresses, and the templates of landing pages."""

import re
from string import Formatter
from typing import Any, ClassVar
from urllib.parse import urlsplit

from rowen.connectors.plain_options import PlainOptions, option
from rowen.errors import BadUrlError
from rowen.model.url import quoted
from rowen.net.target import parse

_PLACEHOLDERS = ("id", "name")
_SAFE = ":@~"  # what identifiers are made of, and what means nothing in a path or a query
_WEB = re.compile(r"https?://[^/\s{}]+", re.IGNORECASE)
_EUROPA = re.compile(r"https?://data\.europa\.eu/88u/dataset/([^/?#]+)", re.IGNORECASE)
_GEONETWORK = re.compile(r"(https?://[^?#]*/srv)/(?:[a-z]{3}/)?csw\b[^?#]*", re.IGNORECASE)
# SDMX names no pages; these services have one for each dataflow.
_DATAFLOWS = {
    "ec.europa.eu": "https://ec.europa.eu/eurostat/databrowser/view/{name}/default/table",
    "data-api.ecb.europa.eu": "https://data.ecb.europa.eu/data/datasets/{name}",
}


def check_template(template: str) -> str:
    """Return a template that makes addresses; raises `ValueError` for one that cannot."""
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
    """Return the address that a template makes for one record; nothing for a record without an identifier."""
    if not identifier:
        return ""
    return template.format(id=quoted(identifier, safe=_SAFE), name=quoted(name or identifier, safe=_SAFE))


def page_at_europa(iri: str) -> str:
    """Return the page of a dataset of data.europa.eu."""
    match = _EUROPA.fullmatch(iri)
    return f"https://data.europa.eu/data/datasets/{match[1]}" if match else ""


def page_of_geonetwork(service: str, identifier: str) -> str:
    """Return the page of a record in a GeoNetwork, from the address of its catalogue service."""
    match = _GEONETWORK.match(service)
    return f"{match[1]}/api/records/{quoted(identifier)}" if match and identifier else ""


def page_of_dataflow(service: str, name: str) -> str:
    """Return the page of a dataflow at a statistical office."""
    try:
        known = _DATAFLOWS.get(urlsplit(service).hostname or "")
    except ValueError:
        return ""
    return filled(known, identifier=name, name=name) if known else ""


_WEB_ADDRESS = re.compile(r"https?://", re.IGNORECASE)


class DocumentOptions(PlainOptions):
    """Options of catalogs in documents; `language` is the one to prefer where a record has several.

    `record_version` is raised when records are read into something else than before: all are read again then, and what
    is only read otherwise is announced as amended.
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
        """Return the options that decide how a record is read, and the version of the mapping."""
        made = {"landing_page": self.landing_page} if self.landing_page else {}
        return {"language": self.language, "records": self.record_version, **made}

    def listing(self) -> dict[str, Any]:
        """Return the options that decide whether an unchanged document must be read again."""
        return {"headers": self.headers, "language": self.language, "landing_page": self.landing_page}

    def as_catalog(self) -> "CatalogOptions":
        """Return these options as options of a paged catalog."""
        return CatalogOptions(
            headers=self.headers,
            delay_s=self.delay_s,
            language=self.language,
            max_records=self.max_records,
            landing_page=self.landing_page,
        )


class CatalogOptions(DocumentOptions):
    """Options of paged catalogs that may list what was modified."""

    # What most protocols give at once; more is refused or cut, fewer cost requests.
    page_size: int = option(default=100, ge=1, le=10_000, description="records to ask for at once")
    # A choice: an index shows a record within minutes of its stamp, and a job may stamp for as long as it runs.
    overlap_h: float = option(default=1.0, ge=0, description="how far before the cursor to ask again")
    # Edits without a new date show only then: a week bounds them at a seventh of the cost of a daily walk.
    reconcile_days: float = option(default=7.0, ge=0, description="after how long to walk the whole catalog again")

    def listing(self) -> dict[str, Any]:
        """Return the options that decide which records are listed, without those that decide how they are requested."""
        asking = {"page_size", "overlap_h", "reconcile_days", "delay_s", "max_records", "aliases"}
        return self.model_dump(mode="json", exclude=asking)

    def as_catalog(self) -> "CatalogOptions":
        """Return these options."""
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
