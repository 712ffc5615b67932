"""Datasets and their files that stand on different pages find each other.

A dataset waits for the files that it names and that nothing is said of yet; files that nobody has asked for are kept.
Both only for a while: many catalogs name files that nothing is said of anywhere.
"""

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field, replace

from rowen.formats.rdf.graph import Graph, Iri, Node

__all__ = ["Joining", "RecordPart"]

MOST_WAITING = 10_000
"""Records and files that wait for their other half, 30 MB at 3 kB each; the oldest are given as they are."""

PATIENCE_PAGES = 5
"""So long a dataset waits in a catalog where no file was ever found on another page than its dataset: a choice, since
each page of waiting holds a page of records in memory.
"""

MOST_IDLE_PAGES = 50
"""So many pages may bring nothing to what is waiting: files that are listed after all datasets come later than five."""

_CARRIED = 0


@dataclass(slots=True)
class RecordPart:
    """A node with what is said of it, the page that it came from, and the files that it lacks."""

    graph: Graph
    node: Node
    page: int
    address: str
    lacks: set[Iri] = field(default_factory=set)


class Joining:
    """What is waiting while the pages of a catalog are read.

    `carried` are datasets that were left waiting by a walk which began in the middle: what they lack may stand on the
    pages before.
    """

    def __init__(self, carried: Iterable[RecordPart] = ()) -> None:
        self._waiting: dict[Node, RecordPart] = {part.node: replace(part, page=_CARRIED) for part in carried}
        self._files: dict[Iri, RecordPart] = {}
        self._page = 0
        self._moved = 0
        self._proved = False

    @property
    def is_waiting(self) -> bool:
        """Whether some dataset lacks a file."""
        return bool(self._waiting)

    @property
    def begin(self) -> str | None:
        """The page to begin with, if what is waiting had to be read again; None if nothing is."""
        parts = [part for part in (*self._waiting.values(), *self._files.values()) if part.page != _CARRIED]
        return min(parts, key=lambda part: part.page).address if parts else None

    def feed(self, graph: Graph, nodes: Iterable[Node], address: str, borders: Container[Node]) -> Iterator[RecordPart]:
        """The datasets that are whole now, or have waited long enough, those of this page first."""
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
        self._keep_files(graph, named, address, borders)
        yield from self._satisfied()
        yield from self._impatient()

    def finish(self) -> list[RecordPart]:
        """Those that wait still, when there are no more pages."""
        waiting, self._waiting = [*self._waiting.values()], {}
        return waiting

    def _keep_files(self, graph: Graph, named: set[Node], address: str, borders: Container[Node]) -> None:
        for node in graph:
            if isinstance(node, Iri) and node not in named and "dcat:Distribution" in graph.types(node):
                self._files[node] = RecordPart(graph.part(node, borders), node, self._page, address)
        for file in list(self._files)[: max(0, len(self._files) - MOST_WAITING)]:
            del self._files[file]

    def _satisfied(self) -> Iterator[RecordPart]:
        for part in list(self._waiting.values()):
            self._give(part)
            if not part.lacks:
                del self._waiting[part.node]
                yield part

    def _give(self, part: RecordPart) -> None:
        for file in [file for file in part.lacks if file in self._files]:
            part.graph.adopt(self._files.pop(file).graph, file)
            part.lacks.discard(file)
            self._moved = self._page
            self._proved = True

    def _impatient(self) -> Iterator[RecordPart]:
        """Those that have waited long enough: too many pages, or with too many others."""
        waiting = list(self._waiting.values())
        hopeful = self._proved or bool(self._files)
        if hopeful and self._page - self._moved <= MOST_IDLE_PAGES:
            late = waiting[: max(0, len(waiting) - MOST_WAITING)]
        else:
            late = [part for part in waiting if self._page - part.page >= PATIENCE_PAGES and part.page != _CARRIED]
        for part in late:
            del self._waiting[part.node]
            yield part
