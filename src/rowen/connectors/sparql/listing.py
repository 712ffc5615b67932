"""Lists the datasets of a SPARQL endpoint: identifiers in their order, then their descriptions in batches."""

import re
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from rowen.connectors.catalog.dcat import item_url, row_of_node
from rowen.connectors.catalog.listing import Listing, ListingPage, Row, Tokens
from rowen.connectors.catalog.options import CatalogOptions
from rowen.connectors.catalog.portal_client import TooMuchError
from rowen.connectors.catalog.records import one_by_one
from rowen.connectors.plain_options import option
from rowen.connectors.sparql.endpoint import Endpoint, Queries, Rows, floor_of, is_safe
from rowen.errors import BodyTooLargeError, SourceError
from rowen.formats import UnreadableError
from rowen.formats.json import payload_of
from rowen.formats.rdf.graph import Graph, Iri, Literal, short
from rowen.model.items import Failed

# Identifiers per query: half of the lowest limit of known endpoints, so that a full response is not truncated by them.
IDENTIFIERS = 5000
_SUSPICIOUS = 5  # limits are round: if the length of the last page is divisible by this, one more query confirms it
_GROWING = 8  # successful batches before a larger batch is tried, since a failed batch costs up to `timeout_s`
_NAMES = ("d", "s", "p", "o", "end")
_IRI = re.compile(r"[a-zA-Z][\w+.-]*:[^\s<>\"{}|\\^`]+")


def _check_graph(value: str) -> str:
    if not _IRI.fullmatch(value):
        raise ValueError("a graph is named by an IRI, such as https://data.example.org/graph")
    return value


def _check_catalogue(value: str) -> str:
    if not (_IRI.fullmatch(value) or re.fullmatch(r"[\w.~-]+", value)):
        raise ValueError("a catalogue is named by an IRI, or at data.europa.eu by the end of it, such as govdata")
    return value


class SparqlOptions(CatalogOptions):
    """Options of kind `sparql`; `language` is the preferred language where a record has several."""

    secret_neutral: ClassVar[frozenset[str]] = CatalogOptions.secret_neutral | {"graph", "catalogue"}

    # The IRIs of 256 datasets take about 20 kB in a query; a failed request is repeated for fewer datasets.
    page_size: int = option(default=256, ge=1, le=10_000, description="number of datasets in one query")
    graph: str | None = option(
        default=None, check=_check_graph, description="IRI of the named graph to read, instead of the default graph"
    )
    catalogue: str | None = option(
        default=None,
        check=_check_catalogue,
        description="IRI of the catalogue to read, of several; a short name at data.europa.eu",
    )
    timeout_s: float = option(default=300.0, gt=0, le=3600, description="maximum duration of an answer")

    def listing(self) -> dict[str, Any]:
        """Return the options that decide which records are listed."""
        return {**super().listing(), "timeout_s": None}


class Identified(Listing):
    """The listing of an endpoint: all datasets, dataset series and data services that have an IRI."""

    version = SparqlOptions.record_version
    dated = True
    resolution = timedelta(days=1)

    def __init__(self, endpoint: Endpoint, url: str, options: SparqlOptions, *, catalogue: str | None = None) -> None:
        self._endpoint = endpoint
        self._url = url
        self._queries = Queries(options.graph, catalogue)
        self._catalogue = catalogue
        self._options = options
        self._wanted = self._batch = options.page_size
        self._successes = 0

    async def read_pages(
        self, *, since: datetime | None = None, place: Any = None, tokens: Tokens | None = None
    ) -> AsyncGenerator[ListingPage]:
        """Yield the datasets after `place`, or from the beginning; with `since`, only datasets modified later."""
        after, listed, doubt = place.get("after", "") if isinstance(place, dict) else "", 0, None
        declared = await self.count() if since is None else None
        if declared == 0 and self._catalogue is not None:
            answer = await self._endpoint.ask(self._queries.catalogue(), "p")
            if not answer.rows:  # no statement about the catalogue: its name is wrong, or it is gone
                raise SourceError(
                    f"{self._url} has no statements about the catalogue {self._catalogue}. Nothing was deleted.",
                    hint="Check the option catalogue, or the address of the source.",
                )
        while True:
            try:
                answer = await self._endpoint.ask(self._queries.identifiers(after, since, IDENTIFIERS), "iri")
            except SourceError as problem:
                if since is None:
                    raise
                yield ListingPage((), doubt=f"The endpoint cannot filter by date: {problem}")
                return
            iris = [iri.text for row in answer.rows if isinstance(iri := row.get("iri"), Literal)]
            listed += len(iris)
            if declared is None and not answer.in_time:
                doubt = "The endpoint did not list all identifiers in its time."
            waiting = iris
            while waiting:
                batch, waiting = waiting[: self._batch], waiting[self._batch :]
                rows = await self._describe(batch, since)
                yield ListingPage(rows, {"after": batch[-1]}, declared, answer.clock)
            # If the list may have been truncated, request the next identifiers.
            if not iris or iris[-1] == after:
                break
            if declared is not None and listed >= declared and len(iris) < IDENTIFIERS:
                break
            if declared is None and len(iris) < IDENTIFIERS and len(iris) % _SUSPICIOUS != 0:
                break
            after = iris[-1]
        if iris and after and iris[-1] == after:
            doubt = "The endpoint does not list identifiers in their order."
        yield ListingPage((), None, declared, answer.clock, doubt)

    async def count(self, since: datetime | None = None) -> int | None:
        """Return the number of datasets, or of datasets modified after `since`; None if the endpoint fails."""
        try:
            answer = await self._endpoint.ask(self._queries.count(since), "n", could_be_less=True)
        except SourceError as problem:
            if since is None and not isinstance(problem, TooMuchError):
                raise
            return None
        count = answer.rows[0].get("n") if answer.rows else None
        return int(count.text) if isinstance(count, Literal) and re.fullmatch(r"\d{1,12}", count.text) else None

    async def read_record(self, url: str, handle: str | None = None) -> Row | None:
        """Return one dataset by its IRI, which `handle` contains; None if `handle` does not belong to `url`."""
        if handle is None or item_url(Graph(), Iri(handle), self._url) != url:
            return None
        if not is_safe(handle):
            return self._given_up(handle, "its IRI cannot be part of a query")
        answer = await self._endpoint.ask(self._queries.descriptions([handle]), *_NAMES, once=True)
        graph, closed = _graph_of(answer)
        if answer.is_cut or handle not in closed:
            rows = await self._cut(handle, graph, answer)
            return rows[0] if rows else self._given_up(handle, "the endpoint does not list it any more")
        return self._row(Iri(handle), graph, frozenset({Iri(handle)}), None)

    async def _describe(self, iris: Sequence[str], since: datetime | None) -> list[Row]:
        """Return the rows of some datasets; split the request while the response is too large or truncated."""
        safe = [iri for iri in iris if is_safe(iri)]
        rows = [self._given_up(iri, "its IRI cannot be part of a query") for iri in iris if not is_safe(iri)]
        if not safe:
            return rows
        try:
            answer = await self._request(safe)
        except (TooMuchError, UnreadableError, BodyTooLargeError) as problem:
            why = f"the endpoint cannot describe it: {problem}"
            return rows + (await self._halves(safe, since) or [self._given_up(safe[0], why)])
        graph, closed = _graph_of(answer)
        if answer.is_cut or not closed.issuperset(safe):
            rest = await self._halves(safe, since)
            return rows + (rest if rest is not None else await self._cut(safe[0], graph, answer))
        self._successes += 1
        if self._successes >= _GROWING and len(safe) >= self._batch:
            self._batch, self._successes = min(self._batch * 2, self._wanted), 0
        items = frozenset(map(Iri, safe))
        return rows + await one_by_one(lambda iri: self._row(Iri(iri), graph, items, since), safe)

    async def _request(self, iris: Sequence[str]) -> Rows:
        """Return the RDF statements about datasets; retry a request for one dataset if the endpoint still responds."""
        query = self._queries.descriptions(iris)
        try:
            return await self._endpoint.ask(query, *_NAMES, could_be_less=True)
        except (TooMuchError, UnreadableError):
            if len(iris) > 1:
                raise
        await self._endpoint.ask(self._queries.identifiers("", None, 1), "iri")
        return await self._endpoint.ask(query, *_NAMES, could_be_less=True)

    async def _halves(self, iris: Sequence[str], since: datetime | None) -> list[Row] | None:
        """Split the datasets in two halves, and return the rows of both; None for a single dataset."""
        if len(iris) == 1:
            return None
        middle = self._batch = len(iris) // 2
        self._successes = 0
        return await self._describe(iris[:middle], since) + await self._describe(iris[middle:], since)

    def _given_up(self, iri: str, why: str, payload: bytes | None = None) -> Row:
        return Row(self._failed(iri, why, payload), handle=iri)

    def _failed(self, iri: str, why: str, payload: bytes | None) -> Failed:
        url = item_url(Graph(), Iri(iri), self._url)
        return Failed(url, f"The dataset cannot be read: {why}.", payload=payload)

    async def _cut(self, iri: str, graph: Graph, answer: Rows) -> list[Row]:
        """Return a failed row for a dataset with a truncated description; no row if the dataset no longer exists."""
        if Iri(iri) not in graph:
            try:
                answer = await self._endpoint.ask(self._queries.existence(iri), "iri", could_be_less=True)
            except (TooMuchError, UnreadableError):
                exists = True  # only an empty response proves that the dataset is gone
            else:
                exists = answer.is_cut or bool(answer.rows)
            return [self._given_up(iri, "the endpoint lists it, but does not describe it")] if exists else []
        why = f"the endpoint returns at most {len(answer.rows)} rows"
        return [self._given_up(iri, why, payload=_payload(graph, Iri(iri)))]

    def _row(self, node: Iri, graph: Graph, borders: frozenset[Iri], since: datetime | None) -> Row:
        row = row_of_node(
            graph,
            node,
            self._url,
            options=self._options,
            borders=borders,
            payload=lambda: _payload(graph, node),
            what="dataset",
        )
        modified = row.modified
        # Whole days were requested, so a date shortly before `since` does not prove that the dataset is older.
        if modified is not None and since is not None and modified < since:
            floor = datetime.fromisoformat(floor_of(since)).replace(tzinfo=UTC)
            modified = None if modified >= floor else modified
        return row._replace(modified=modified, handle=str(node))


def _payload(graph: Graph, node: Iri) -> bytes | None:
    return payload_of({name: [str(value) for value in values] for name, values in graph.said(node).items()})


def _graph_of(answer: Rows) -> tuple[Graph, set[str]]:
    """Return the RDF graph of the rows, and the datasets whose description is complete."""
    graph, closed = Graph(), set[str]()
    for row in answer.rows:
        subject, name, value = row.get("s"), row.get("p"), row.get("o")
        if "end" in row and isinstance(row.get("d"), Iri):
            closed.add(str(row["d"]))
        elif isinstance(name, Iri) and value is not None and subject is not None and not isinstance(subject, Literal):
            graph.add(subject, short(name), value)
    return graph, closed
