"""Before a walk: a look at the site's first pages, to learn its boilerplate."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from rowen.concurrency import together
from rowen.connectors.web.boilerplate import LEAST_PAGES, SAMPLE, Boilerplate, Edge, learn
from rowen.connectors.web.memory import SiteCursor
from rowen.connectors.web.scope import SiteScope
from rowen.connectors.web.visit import Answer, Bridged, BrokenPage, Closed, FetchedPage, Moved, Same
from rowen.model.url import canonical

__all__ = ["Ask", "Study", "study"]

Ask = Callable[[str, int, bool], Awaitable[Answer]]
"""Asks for a URL at a depth; with the flag as "is it still what we hold?", without it for the whole page."""

# Half of those that a walk follows: http to https, to www, to a language, to the front page are four.
MOST_HOPS = 5
# A front that leads to one page, and that to all others, is common; a site that is a chain of pages is walked anyway.
MOST_LEVELS = 3


@dataclass(slots=True)
class Study:
    """What was learned. Under other boilerplate than the last run's, nothing that we hold proves a page unchanged.

    `edges` are what it was learned from, and spare the next study the bodies of pages that have not changed.
    `answers` are those of the pages that were asked for: the walk need not ask again.
    """

    boilerplate: Boilerplate = field(default_factory=Boilerplate)
    edges: dict[str, Edge] = field(default_factory=dict)
    trusted: bool = True
    answers: dict[str, Answer] = field(default_factory=dict)

    def forget_unchanged(self) -> None:
        """Ask again for pages that are what we hold: under other boilerplate they are to be read anew."""
        self.answers = {url: answer for url, answer in self.answers.items() if not isinstance(answer, Same)}


async def study(
    root: str, *, pages: int, depth: int, scope: Callable[[str], SiteScope], look: Ask, before: SiteCursor
) -> Study:
    """Look at the root and the first pages that it leads to, in the order of the walk, down to a depth."""
    answers: dict[str, Answer] = {}
    url, answer = await _root(root, look, answers, before.studied)
    if not isinstance(answer, FetchedPage | Same | Bridged):
        return Study(before.boilerplate, before.edges, answers=answers)
    depths = {url: 0}
    for level in range(1, min(depth, MOST_LEVELS) + 1):
        urls = _next_links(depths, answers, scope(url), min(SAMPLE, pages))
        others = await together(*(look(each, level, before.studied) for each in urls))
        answers.update(zip(urls, others, strict=True))
        depths.update(dict.fromkeys(urls, level))
        if before.studied and any(isinstance(got, BrokenPage | Closed) for got in others):
            return Study(before.boilerplate, before.edges, answers=answers)
    edges = await _edges(depths, answers, look, before, scope(url))
    boilerplate = learn(list(edges.values()))
    trusted = before.studied and boilerplate == before.boilerplate
    studied = Study(boilerplate, edges, trusted, answers)
    if not trusted:
        studied.forget_unchanged()
    return studied


async def _root(root: str, look: Ask, answers: dict[str, Answer], conditionally: bool) -> tuple[str, Answer]:
    url, answer = root, await look(root, 0, conditionally)
    for _ in range(MOST_HOPS):
        answers[url] = answer
        if not isinstance(answer, Moved) or answer.to in answers:
            break
        url = answer.to
        answer = await look(url, 0, conditionally)
    return url, answer


def _next_links(depths: dict[str, int], answers: dict[str, Answer], scope: SiteScope, count: int) -> list[str]:
    """What the pages looked at lead to and was not looked at, until there are enough of them."""
    urls = {canonical(url): url for url in depths}
    for url in depths:
        match answers[url]:
            case FetchedPage(document, robots):
                # Of a page that was read before, only the links that may be followed are remembered.
                links = () if robots & {"nofollow", "none"} else document.links
            case Same(links):
                pass
            case Bridged(bridge):
                links = bridge.links
            case _:
                links = ()
        for link in links:
            clean = scope.clean(link)
            if len(urls) < count and clean is not None and scope.takes(clean):
                urls.setdefault(canonical(clean), clean)
    return list(urls.values())[len(depths) :]


async def _edges(
    depths: dict[str, int], answers: dict[str, Answer], look: Ask, before: SiteCursor, scope: SiteScope
) -> dict[str, Edge]:
    """The edges of the pages among the answers; a page that did not change is remembered, or asked for as a whole.

    What is no page of its own (an index, a second spelling, a body that came before) is left out: the next walk may
    know it as a bridge only.
    """
    edges: dict[str, Edge] = {}
    bodies: set[bytes] = set()
    for url, depth in depths.items():
        answer = answers[url]
        remembered = before.edges.get(url)
        if isinstance(answer, Same) and answer.body_hash in bodies:
            continue
        if isinstance(answer, Same):
            if remembered is not None and remembered.body == answer.body_hash:
                edges[url] = remembered
            elif len(depths) >= LEAST_PAGES:
                answer = await look(url, depth, False)
        if isinstance(answer, FetchedPage) and not _leads_on_only(url, depth, answer, scope):
            edges[url] = Edge.of(answer.document)
        body = edges[url].body if url in edges else None
        if body in bodies:
            del edges[url]
        elif body is not None:
            bodies.add(body)
    return edges


def _leads_on_only(url: str, depth: int, page: FetchedPage, scope: SiteScope) -> bool:
    """Whether a page tells by itself that it is none of ours."""
    if page.leads_on or (depth and scope.is_index(url)):
        return True
    preferred = page.document.record.get("canonical")
    return isinstance(preferred, str) and scope.is_variant(url, preferred)
