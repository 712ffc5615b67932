"""Before a walk: a look at the site's first pages, to learn its boilerplate."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from rowen.connectors.web.boilerplate import LEAST_PAGES, SAMPLE, Boilerplate, Edge, learn
from rowen.connectors.web.memory import SiteCursor
from rowen.connectors.web.scope import SiteScope
from rowen.connectors.web.visit import Answer, BrokenPage, Closed, FetchedPage, Moved, Same
from rowen.model.url import canonical

__all__ = ["Ask", "Study", "study"]

Ask = Callable[[str, int, bool], Awaitable[Answer]]
"""Asks for a URL at a depth; with the flag as "is it still what we hold?", without it for the whole page."""

# Half of those that a walk follows: http to https, to www, to a language, to the front page are four.
MOST_HOPS = 5


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


async def study(root: str, *, pages: int, scope: Callable[[str], SiteScope], look: Ask, before: SiteCursor) -> Study:
    """Look at the root and the first pages that it leads to."""
    answers: dict[str, Answer] = {}
    url, answer = await _root(root, look, answers, before.studied)
    if not isinstance(answer, FetchedPage | Same):
        return Study(before.boilerplate, before.edges, answers=answers)
    urls = _first_links(url, answer, scope(url), min(SAMPLE, pages))
    others = await asyncio.gather(*(look(each, 1, before.studied) for each in urls[1:]))
    answers.update(zip(urls[1:], others, strict=True))
    if before.studied and any(isinstance(got, BrokenPage | Closed) for got in others):
        return Study(before.boilerplate, before.edges, answers=answers)
    edges = await _edges(urls, answers, look, before)
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


def _first_links(root: str, answer: FetchedPage | Same, scope: SiteScope, count: int) -> list[str]:
    links = answer.document.links if isinstance(answer, FetchedPage) else answer.links
    urls = {canonical(root): root}
    for link in links:
        clean = scope.clean(link)
        if len(urls) < count and clean is not None and scope.takes(clean):
            urls.setdefault(canonical(clean), clean)
    return list(urls.values())


async def _edges(urls: list[str], answers: dict[str, Answer], look: Ask, before: SiteCursor) -> dict[str, Edge]:
    """The edges of the pages among the answers; a page that did not change is remembered, or asked for as a whole."""
    edges: dict[str, Edge] = {}
    for depth, url in enumerate(urls):
        answer = answers[url]
        remembered = before.edges.get(url)
        if isinstance(answer, Same):
            if remembered is not None and remembered.body == answer.body_hash:
                edges[url] = remembered
                continue
            if len(urls) >= LEAST_PAGES:
                answer = await look(url, min(depth, 1), False)
        if isinstance(answer, FetchedPage):
            edges[url] = Edge.of(answer.document)
    return edges
