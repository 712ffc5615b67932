"""Pages of a catalog, as Hydra links them: the older vocabulary and the newer one, addresses as nodes or as texts."""

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from rowen.formats.rdf.graph import Graph, Iri, Literal, Node
from rowen.model.url import joined
from rowen.net.response import Response, next_link

__all__ = ["Paging", "paging_of", "with_parameters"]

_NEXT = ("hydra:next", "hydra:nextPage")
_PAGES = frozenset({"hydra:PagedCollection", "hydra:PartialCollectionView", "hydra:Collection"})
_NUMBER = re.compile(r"\d{1,12}")


class Paging(NamedTuple):
    """Where the next page is, and how many records there are in all, if the catalog tells."""

    following: str | None
    total: int | None
    told: bool


def paging_of(graph: Graph, response: Response, source: str) -> Paging:
    """What an answer tells of its pages. The next one is asked for at the source's own host.

    Catalogs behind other servers often know themselves by another name than they are reached by.
    """
    about = [node for node in graph if graph.types(node) & _PAGES or graph.says(node, *_NEXT)]
    nexts = sorted({link for node in about for link in _links(graph, node)} - {response.url})
    named = nexts[0] if nexts else next_link(response.headers.get("Link", ""))
    following = joined(response.url, named) if named else None
    totals = {int(text) for node in graph for text in _numbers(graph, node)}
    following = _at_home(following, source) if following else None
    if following == _at_home(response.url, source):
        following = None
    return Paging(following, max(totals, default=None), bool(about or totals))


def _links(graph: Graph, node: Node) -> set[str]:
    values = (value for name in _NEXT for value in graph.values(node, name))
    return {value.text.strip() if isinstance(value, Literal) else value for value in values if _is_link(value)}


def _is_link(value: object) -> bool:
    return isinstance(value, Iri) or (isinstance(value, Literal) and bool(value.text.strip()))


def _numbers(graph: Graph, node: Node) -> list[str]:
    values = graph.values(node, "hydra:totalItems")
    return [
        value.text.strip() for value in values if isinstance(value, Literal) and _NUMBER.fullmatch(value.text.strip())
    ]


def _at_home(url: str, source: str) -> str:
    parts, home = urlsplit(url), urlsplit(source)
    return urlunsplit((home.scheme, home.netloc, parts.path, parts.query, ""))


def with_parameters(url: str, **values: str | int) -> str:
    """The same address with these parameters in place of its own of that name; the others are left as they are."""
    parts = urlsplit(url)
    kept = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] not in values]
    query = urlencode([*kept, *((name, str(value)) for name, value in values.items())], errors="surrogatepass")
    return urlunsplit(parts._replace(query=query))
