"""Asking a SPARQL endpoint, and reading its rows: what is cut off is told from what is all."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from rowen.connectors.catalog.portal_client import PortalClient
from rowen.formats.errors import UnreadableError
from rowen.formats.json import read_json
from rowen.formats.rdf.graph import Blank, Iri, Literal, Term, short
from rowen.net.response import Response

__all__ = ["FORM", "RESULTS", "Endpoint", "Rows", "read_rows"]

RESULTS = "application/sparql-results+json"
_ACCEPT = f"{RESULTS}, application/json;q=0.5"
FORM = "application/x-www-form-urlencoded"
_CAP = 10_000  # limits of endpoints are multiples of it (Virtuoso: 10,000), so that a multiple may be cut off
_TIMED_OUT = re.compile(r"S1T", re.IGNORECASE)

Row = Mapping[str, Term]


class Rows(NamedTuple):
    """What was answered. `is_cut` tells that the endpoint gave no more than it is willing to.

    `in_time` is False where it says that its time was over: rows may then be missing anywhere.
    """

    rows: Sequence[Row]
    is_cut: bool = False
    clock: datetime | None = None
    in_time: bool = True


class Endpoint:
    """One endpoint, asked by forms that are posted: questions are too long for addresses."""

    def __init__(self, portal: PortalClient, url: str) -> None:
        self._portal = portal
        self._url = url

    async def ask(self, question: str, *names: str, could_be_less: bool = False, once: bool = False) -> Rows:
        """The rows of an answer that has these variables.

        A question that `could_be_less` and is too much for the endpoint raises `TooMuchError`, as does one that is
        asked `once`.
        """
        response = await self._portal.post(
            self._url,
            urlencode({"query": question}, errors="surrogatepass").encode(),
            media_type=FORM,
            accept=_ACCEPT,
            could_be_less=could_be_less,
            once=once,
        )
        rows = read_rows(read_json(response.body, self._url), self._url, *names)
        in_time = not _TIMED_OUT.search(response.headers.get("X-SQL-State", ""))
        return Rows(rows, not in_time or _is_cut(response, len(rows)), self._portal.clock(response), in_time)


def read_rows(answer: Any, where: str, *names: str) -> list[Row]:
    """The rows of results in JSON. What a variable is not bound to is left out of its row."""
    try:
        head, bindings = answer["head"].get("vars"), answer["results"]["bindings"]
    except (TypeError, KeyError, AttributeError):
        head, bindings = None, None
    if not isinstance(head, list) or not isinstance(bindings, list) or not set(names) <= set(map(str, head)):
        raise UnreadableError(f"{where} answered something else than was asked for.")
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


def _is_cut(response: Response, count: int) -> bool:
    """Whether an answer of this size was cut: the endpoint says so, or it is exactly what endpoints allow at most."""
    cap = response.headers.get("X-SPARQL-MaxRows", "")
    return count > 0 and (count % _CAP == 0 or cap == str(count))
