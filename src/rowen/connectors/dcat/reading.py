"""The contents of one answer of a catalog: its items, its paging, and listed items without a description."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from rowen.connectors.base import unread_url
from rowen.connectors.catalog.dates import moment
from rowen.connectors.catalog.dcat import ITEMS, item_url
from rowen.connectors.catalog.listing import Row
from rowen.formats.json import payload_of
from rowen.formats.rdf.graph import Blank, Graph, Iri, Literal, Node
from rowen.formats.rdf.syntax import UNREAD, UnreadStatement
from rowen.model.items import Failed
from rowen.model.url import joined
from rowen.net.response import Response, next_link

_NEXT = ("hydra:next", "hydra:nextPage")
_PAGES = frozenset({"hydra:PagedCollection", "hydra:PartialCollectionView", "hydra:Collection"})
_NUMBER = re.compile(r"\d{1,12}")


class Paging(NamedTuple):
    """The URL of the next page, and the declared number of records; `is_paged` if the answer states either."""

    following: str | None
    total: int | None
    is_paged: bool


def paging_of(graph: Graph, response: Response, source: str) -> Paging:
    """Return the paging of an answer; the next page is requested from the source's own host.

    Catalogs behind other servers often link to themselves by a host name that differs from the public one.
    """
    about = [node for node in graph if graph.types(node) & _PAGES or graph.says(node, *_NEXT)]
    links: set[str] = {response.url}
    for value in (value for node in about for name in _NEXT for value in graph.values(node, name)):
        link = value.text.strip() if isinstance(value, Literal) else value
        links |= {link} if link and not isinstance(link, Blank) else set()
    links.remove(response.url)
    named = min(links) if links else next_link(response.headers.get("Link", ""))
    following = joined(response.url, named) if named else None
    numbers = (value for node in graph for value in graph.values(node, "hydra:totalItems"))
    texts = (number.text.strip() for number in numbers if isinstance(number, Literal))
    totals = {int(text) for text in texts if _NUMBER.fullmatch(text)}

    def at_home(url: str) -> str:
        parts, home = urlsplit(url), urlsplit(source)
        return urlunsplit((home.scheme, home.netloc, parts.path, parts.query, ""))

    following = at_home(following) if following else None
    if following == at_home(response.url):
        following = None
    return Paging(following, max(totals, default=None), bool(about or totals))


def with_parameters(url: str, **values: str | int) -> str:
    """Return an address with some of its query parameters replaced or added."""
    parts = urlsplit(url)
    others = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] not in values]
    query = urlencode([*others, *((name, str(value)) for name, value in values.items())], errors="surrogatepass")
    return urlunsplit(parts._replace(query=query))


# The maximum number of waiting records and files, 30 MB at 3 kB each; beyond it, the oldest are yielded incomplete.
MOST_WAITING = 10_000
# How long a dataset waits if no file was found on another page than its dataset so far. A judgement: waiting for one
# more page keeps one more page of records in memory.
PATIENCE_PAGES = 5
# The number of consecutive pages without a waiting file: if files are listed after all datasets, five would be too few.
MOST_IDLE_PAGES = 50
_CARRIED = 0


@dataclass(slots=True)
class RecordPart:
    """A node with its RDF statements, its page, and the files that it refers to but that are not described yet."""

    graph: Graph
    node: Node
    page: int
    address: str
    lacks: set[Iri] = field(default_factory=set)


class Joining:
    """The records and files that wait for each other while the pages of a catalog are read.

    `carried` contains datasets left waiting by a walk that began in the middle: their files may be described on
    earlier pages.
    """

    def __init__(self, carried: Iterable[RecordPart] = ()) -> None:
        self._waiting: dict[Node, RecordPart] = {part.node: replace(part, page=_CARRIED) for part in carried}
        self._files: dict[Iri, RecordPart] = {}
        self._page = 0
        self._moved = 0
        self._proved = False

    @property
    def is_waiting(self) -> bool:
        """Return whether a dataset is waiting for a file."""
        return bool(self._waiting)

    @property
    def begin(self) -> str | None:
        """Return the first page that must be read again to restore the waiting parts; None if no part is waiting."""
        parts = [part for part in (*self._waiting.values(), *self._files.values()) if part.page != _CARRIED]
        return min(parts, key=lambda part: part.page).address if parts else None

    def feed(self, graph: Graph, nodes: Iterable[Node], address: str, borders: Container[Node]) -> Iterator[RecordPart]:
        """Yield complete datasets, and datasets that have waited long enough; datasets of this page come first."""
        self._page += 1
        named: set[Node] = set()
        for node in nodes:
            files = {file for file in graph.values(node, "dcat:distribution") if isinstance(file, Iri)}
            named |= files
            lacks = {file for file in files if file not in graph}
            if not lacks:
                yield RecordPart(graph, node, self._page, address)
                continue
            part = RecordPart(graph.part(node, borders), node, self._page, address, lacks)
            self._give(part)
            if part.lacks:
                self._moved = self._page
                self._waiting[node] = part
            else:
                yield part
        for node in graph:
            if isinstance(node, Iri) and node not in named and "dcat:Distribution" in graph.types(node):
                self._files[node] = RecordPart(graph.part(node, borders), node, self._page, address)
        for file in list(self._files)[: max(0, len(self._files) - MOST_WAITING)]:
            del self._files[file]
        for part in list(self._waiting.values()):
            self._give(part)
            if not part.lacks:
                del self._waiting[part.node]
                yield part
        # Yield the parts that have waited for too many pages, or together with too many others, without their files.
        waiting = list(self._waiting.values())
        hopeful = self._proved or bool(self._files)
        if hopeful and self._page - self._moved <= MOST_IDLE_PAGES:
            late = waiting[: max(0, len(waiting) - MOST_WAITING)]
        else:
            late = [part for part in waiting if self._page - part.page >= PATIENCE_PAGES and part.page != _CARRIED]
        for part in late:
            del self._waiting[part.node]
            yield part

    def finish(self) -> list[RecordPart]:
        """Return the parts that are still waiting after the last page."""
        waiting, self._waiting = [*self._waiting.values()], {}
        return waiting

    def _give(self, part: RecordPart) -> None:
        for file in [file for file in part.lacks if file in self._files]:
            part.graph.adopt(self._files.pop(file).graph, file)
            part.lacks.discard(file)
            self._moved = self._page
            self._proved = True


_LISTED = ("dcat:dataset", "dcat:service", "dcat:resource")
_OTHERS = frozenset(
    {"dcat:Catalog", "dcat:CatalogRecord", "hydra:Collection", "hydra:PagedCollection", "hydra:PartialCollectionView"}
)


@dataclass(slots=True)
class Contents:
    """The items of an answer; `missing` counts listed items that the answer does not describe.

    `borders` contains nodes that are no part of any other node. `modified` contains the dates of the catalog records
    about items. `broken` contains unreadable RDF statements that belong to no item of the answer: they may hide any
    other item.
    """

    graph: Graph
    paging: Paging
    broken: tuple[UnreadStatement, ...] = ()
    items: frozenset[Node] = frozenset()
    borders: frozenset[Node] = frozenset()
    missing: int = 0
    is_catalog: bool = False
    modified: dict[Node, datetime] = field(default_factory=dict)

    def __post_init__(self) -> None:
        graph = self.graph
        types = {node: names for node in graph if (names := graph.types(node))}
        typed = {node for node, names in types.items() if names & ITEMS and "dcat:Catalog" not in names}
        others = {node for node, names in types.items() if names & _OTHERS} - typed
        listed = {value for node in graph for name in _LISTED for value in graph.nodes(node, name)} - others
        named = {value for value in listed if value in graph and _says_something(graph, value)}
        # The nodes to which other nodes refer by a property that does not list items.
        mentions = {
            value
            for node in graph
            for name in graph.said(node)
            if name not in _LISTED and name not in ("foaf:primaryTopic", "hydra:member")
            for value in graph.nodes(node, name)
            if (value in typed or value in named) and value != node and value not in listed
        }
        is_listing = bool(listed & typed)

        def is_part(node: Node) -> bool:
            """Return whether a node only occurs because another node refers to it."""
            is_dataset = types.get(node, set()) & ITEMS == {"dcat:Dataset"}
            return node in mentions and (isinstance(node, Blank) or (is_listing and is_dataset))

        self.items = frozenset(
            node for node in typed | named if node in listed or (_says_something(graph, node) and not is_part(node))
        )
        unlisted = len(self.items - listed)
        self.missing = max(0, len({node for node in listed if node not in self.items}) - unlisted)
        self.borders = self.items | frozenset(others) | frozenset(node for node in typed if isinstance(node, Iri))
        self.is_catalog = bool(self.items or self.paging.is_paged or others or listed)
        for node in (node for node, names in types.items() if "dcat:CatalogRecord" in names):
            values = graph.values(node, "dct:modified")
            dates = [at for value in values if isinstance(value, Literal) and (at := moment(value.text))]
            for topic in graph.nodes(node, "foaf:primaryTopic") if dates else ():
                self.modified[topic] = max(dates)
        if self.broken:
            # For each node, the nodes that refer to it.
            above: dict[Node, set[Node]] = {}
            for node in graph:
                for name in graph.said(node):
                    for value in graph.nodes(node, name) if name != "rdf:type" else ():
                        above.setdefault(value, set()).add(node)
            self.broken = tuple(
                statement for statement in self.broken if statement.node is None or not self._has(statement.node, above)
            )

    def _has(self, node: Node, above: Mapping[Node, set[Node]]) -> bool:
        """Return whether a node is an item or part of an item."""
        waiting, seen = [node], set[Node]()
        while waiting:
            node = waiting.pop()
            if node in self.items:
                return True
            if node not in seen and node not in self.borders:
                seen.add(node)
                waiting += above.get(node, ())
        return False

    def urls(self, source: str) -> set[str]:
        """Return the URLs of the items."""
        return {item_url(self.graph, node, source) for node in self.items}


def payload_of_part(part: RecordPart, borders: frozenset[Node]) -> bytes | None:
    """Return the payload of a broken item: its broken RDF statements, else all its RDF statements."""
    whole = part.graph.part(part.node, borders)
    broken = [value.text for node in whole.broken for value in whole.values(node, UNREAD) if isinstance(value, Literal)]
    said = {name: [str(value) for value in values] for name, values in part.graph.said(part.node).items()}
    return "\n".join(sorted(broken)).encode("utf-8", "replace") if broken else payload_of(said)


def unread(broken: UnreadStatement, source: str) -> Row:
    """Return a quarantined row for a broken RDF statement with an unknown subject."""
    why = f"A statement cannot be read: {broken.why}."
    return Row(Failed(unread_url(source, broken.payload.strip()), why, payload=broken.payload), named=False)


def _says_something(graph: Graph, node: Node) -> bool:
    return any(name != "rdf:type" for name in graph.said(node))
