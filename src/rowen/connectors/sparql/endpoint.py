"""Build queries for a SPARQL endpoint, read the rows of its responses, and detect truncated responses."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

from rowen.connectors.catalog.portal_client import PortalClient
from rowen.formats import UnreadableError
from rowen.formats.json import read_json
from rowen.formats.rdf.graph import Blank, Iri, Literal, Term, short

RESULTS = "application/sparql-results+json"
_ACCEPT = f"{RESULTS}, application/json;q=0.5"
FORM = "application/x-www-form-urlencoded"
_CAP = 10_000  # endpoints limit rows to a multiple of this (Virtuoso: 10,000): so many rows may be truncated
_TIMED_OUT = re.compile(r"S1T", re.IGNORECASE)

Row = Mapping[str, Term]


class Rows(NamedTuple):
    """The rows of a response; `is_cut` if it may be truncated, `in_time` is false after a timeout of the endpoint."""

    rows: Sequence[Row]
    is_cut: bool = False
    clock: datetime | None = None
    in_time: bool = True


class Endpoint:
    """A SPARQL endpoint; queries are sent by POST, since they are too long for URLs."""

    def __init__(self, portal: PortalClient, url: str) -> None:
        self._portal = portal
        self._url = url

    async def ask(self, query: str, *names: str, could_be_less: bool = False, once: bool = False) -> Rows:
        """Return the rows with these variables.

        If the query `could_be_less` or is sent only `once`, raise `TooMuchError` when the endpoint is too slow for it.
        """
        response = await self._portal.request(
            self._url,
            body=urlencode({"query": query}, errors="surrogatepass").encode(),
            media_type=FORM,
            accept=_ACCEPT,
            could_be_less=could_be_less,
            once=once,
        )
        rows = read_rows(read_json(response.body, self._url), self._url, *names)
        in_time = not _TIMED_OUT.search(response.headers.get("X-SQL-State", ""))
        cap = response.headers.get("X-SPARQL-MaxRows", "")
        is_cut = not in_time or (bool(rows) and (len(rows) % _CAP == 0 or cap == str(len(rows))))
        return Rows(rows, is_cut, self._portal.clock(response), in_time)


def read_rows(answer: Any, where: str, *names: str) -> list[Row]:
    """Return the rows of JSON results, without unbound and unreadable cells."""
    try:
        head, bindings = answer["head"].get("vars"), answer["results"]["bindings"]
    except (TypeError, KeyError, AttributeError):
        head, bindings = None, None
    if not isinstance(head, list) or not isinstance(bindings, list) or not set(names) <= set(map(str, head)):
        raise UnreadableError(f"{where} answered another query.")
    return [{name: term for name in row if (term := _term(row[name]))} for row in bindings if isinstance(row, dict)]


def _term(cell: Any) -> Term | None:
    match cell:
        case {"type": "uri", "value": str(value)}:
            return Iri(value)
        case {"type": "bnode", "value": str(value)}:
            return Blank(f"_:{value.removeprefix('_:')}")
        case {"type": "literal" | "typed-literal", "value": str(value)}:
            language, datatype = cell.get("xml:lang"), cell.get("datatype")
            named = short(datatype) if isinstance(datatype, str) else None
            return Literal(
                value, language if isinstance(language, str) else None, named if named != "xsd:string" else None
            )
    return None


_PREFIXES = """PREFIX dcat: <http://www.w3.org/ns/dcat#>
PREFIX dct: <http://purl.org/dc/terms/>
PREFIX foaf: <http://xmlns.com/foaf/0.1/>
PREFIX adms: <http://www.w3.org/ns/adms#>
"""
_CLASSES = "{ dcat:Dataset dcat:DatasetSeries dcat:DataService }"
_LISTS = "{ dcat:dataset dcat:service }"
_PARTS = (
    "dct:publisher, dct:creator, dcat:contactPoint, dct:license, dct:rights, dct:accessRights, dct:spatial, "
    "dct:temporal, dct:provenance, dct:conformsTo, adms:identifier, foaf:page, dcat:keyword"
)
_FILE = "dcat:distribution"
_SAFE = re.compile(r"[a-zA-Z][\w+.-]*:[^\x00-\x20\x7f\ud800-\udfff<>\"{}|\\^`]*")


def floor_of(since: datetime) -> str:
    """Return the day before `since`: dates are compared as strings, and time zones shift them by up to a day."""
    return (since - timedelta(days=1)).date().isoformat()


class Queries:
    """Builds the queries for the datasets of an endpoint, of one of its graphs, or of one catalogue."""

    def __init__(self, graph: str | None = None, catalogue: str | None = None) -> None:
        self._from = f"FROM <{graph}>\n" if graph else ""
        self._catalogue = catalogue
        # The catalogue comes first, since it selects a small part of the endpoint.
        self._listed = f"VALUES ?lists {_LISTS} <{catalogue}> ?lists ?d . " if catalogue else ""

    def identifiers(self, after: str, since: datetime | None, limit: int) -> str:
        """Return a query for the next identifiers after `after`, sorted by code points."""
        behind = f"FILTER(STR(?d) > {_quoted(after)})" if after else ""
        return (
            f"{_PREFIXES}SELECT DISTINCT (STR(?d) AS ?iri)\n{self._from}"
            f"WHERE {{ {self._all(since)} {behind} }}\nORDER BY ?iri\nLIMIT {limit}"
        )

    def existence(self, iri: str) -> str:
        """Return a query that finds a dataset if it still exists."""
        return (
            f"{_PREFIXES}SELECT DISTINCT (STR(?d) AS ?iri)\n{self._from}"
            f"WHERE {{ VALUES ?d {{ <{iri}> }} {self._all(None)} }}\nLIMIT 1"
        )

    def catalogue(self) -> str:
        """Return a query for one RDF statement about the catalogue, to test whether the catalogue exists."""
        return f"{_PREFIXES}SELECT ?p\n{self._from}WHERE {{ <{self._catalogue}> ?p ?o }}\nLIMIT 1"

    def count(self, since: datetime | None) -> str:
        """Return a query for the number of distinct datasets."""
        return f"{_PREFIXES}SELECT (COUNT(DISTINCT ?d) AS ?n)\n{self._from}WHERE {{ {self._all(since)} }}"

    def descriptions(self, iris: Sequence[str]) -> str:
        """Return a query for all RDF statements about some datasets, their parts and their files."""
        these = "VALUES ?d { " + " ".join(f"<{iri}>" for iri in iris) + " }"
        # Each filter follows its pattern directly: a link may lead to a whole catalog, which must not be followed.
        return (
            f"{_PREFIXES}SELECT ?d ?s ?p ?o ?end\n{self._from}WHERE {{\n"
            f"{{ {these} ?d ?p ?o . BIND(?d AS ?s) }}\n"
            f"UNION {{ {these} ?d ?l ?s . FILTER(?l IN ({_PARTS}) || isBlank(?s)) FILTER(?l != {_FILE}) ?s ?p ?o }}\n"
            f"UNION {{ {these} ?d {_FILE} ?s . ?s ?p ?o }}\n"
            f"UNION {{ {these} ?d {_FILE} ?x . ?x ?m ?s . FILTER(isBlank(?s)) ?s ?p ?o }}\n"
            f"UNION {{ {these} ?d ?l ?x . FILTER(isBlank(?x) && ?l != {_FILE})\n"
            "  ?x ?m ?s . FILTER(isBlank(?s)) ?s ?p ?o }\n"
            f"UNION {{ {these} VALUES ?end {_CLASSES} ?d a ?end }}\n}}\nORDER BY BOUND(?end)"
        )

    def _all(self, since: datetime | None) -> str:
        every = f"{self._listed}VALUES ?class {_CLASSES} ?d a ?class . FILTER(isIRI(?d))"
        if since is None:
            return every
        # A dataset without a comparable date may have changed at any time.
        undated = '!BOUND(?m) || !REGEX(STR(?m), "^[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]")'
        return f"{every} OPTIONAL {{ ?d dct:modified ?m }} FILTER({undated} || STR(?m) >= {_quoted(floor_of(since))})"


def is_safe(iri: str) -> bool:
    """Return whether an IRI can be inserted in a query."""
    return bool(_SAFE.fullmatch(iri))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'
