"""The questions to an endpoint.

Identifiers are listed in their own order, each page beginning behind the last one: an offset without an order skips
and repeats. What is said of datasets is asked for in batches, all of it in one question, since labels of blank nodes
hold within one answer only. Each dataset closes with a row of its own, and these rows come last: an answer that was
cut off, wherever that was, lacks some of them.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

__all__ = ["Questions", "floor_of", "is_safe"]

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
    """The day from which on to ask: dates are compared as texts, and zones move them by most of a day."""
    return (since - timedelta(days=1)).date().isoformat()


class Questions:
    """Questions about the datasets of an endpoint, of one of its graphs, or of one catalogue in it."""

    def __init__(self, graph: str | None = None, catalogue: str | None = None) -> None:
        self._from = f"FROM <{graph}>\n" if graph else ""
        self._catalogue = catalogue
        # What lists a dataset comes first, since it leaves a small part of the endpoint.
        self._listed = f"VALUES ?lists {_LISTS} <{catalogue}> ?lists ?d . " if catalogue else ""

    def identifiers(self, after: str, since: datetime | None, limit: int) -> str:
        """The next identifiers behind one, by their code points."""
        behind = f"FILTER(STR(?d) > {_quoted(after)})" if after else ""
        return (
            f"{_PREFIXES}SELECT DISTINCT (STR(?d) AS ?iri)\n{self._from}"
            f"WHERE {{ {self._all(since)} {behind} }}\nORDER BY ?iri\nLIMIT {limit}"
        )

    def existence(self, iri: str) -> str:
        """Whether there still is such a dataset: its identifier, or nothing."""
        return (
            f"{_PREFIXES}SELECT DISTINCT (STR(?d) AS ?iri)\n{self._from}"
            f"WHERE {{ VALUES ?d {{ <{iri}> }} {self._all(None)} }}\nLIMIT 1"
        )

    def catalogue(self) -> str:
        """Whether anything is said of the catalogue."""
        return f"{_PREFIXES}SELECT ?p\n{self._from}WHERE {{ <{self._catalogue}> ?p ?o }}\nLIMIT 1"

    def count(self, since: datetime | None) -> str:
        """How many datasets there are, each counted once, whatever is said of it."""
        return f"{_PREFIXES}SELECT (COUNT(DISTINCT ?d) AS ?n)\n{self._from}WHERE {{ {self._all(since)} }}"

    def descriptions(self, iris: Sequence[str]) -> str:
        """All that is said of some datasets, of their parts and of their files."""
        these = "VALUES ?d { " + " ".join(f"<{iri}>" for iri in iris) + " }"
        # Filters stand next to what they are about: a link may lead to a whole catalog, which must not be followed.
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
        # What has no date, or none that can be compared, may have changed at any time.
        undated = '!BOUND(?m) || !REGEX(STR(?m), "^[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]")'
        return f"{every} OPTIONAL {{ ?d dct:modified ?m }} FILTER({undated} || STR(?m) >= {_quoted(floor_of(since))})"


def is_safe(iri: str) -> bool:
    """Whether an IRI can stand in a question."""
    return bool(_SAFE.fullmatch(iri))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'
