"""Before a walk: a look at the site's first pages, to learn its shell."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from rowen.connectors.web.memory import Memory
from rowen.connectors.web.scope import Scope
from rowen.connectors.web.shell import LEAST_PAGES, SAMPLE, Edge, Shell, learn
from rowen.connectors.web.visit import Answer, Broken, Closed, Moved, Page, Same
from rowen.model.url import canonical

__all__ = ["Look", "Study", "study"]

Look = Callable[[str, int, bool], Awaitable[Answer]]
"""Asks for a URL at a depth; with the flag as "is it still what we hold?", without it for the whole page."""

MOST_HOPS = 5


@dataclass(slots=True)
class Study:
    """What was learned. Where the shell is another than before, nothing that we hold proves a page unchanged.

    `edges` are what it was learned from, and spare the next study the bodies of pages that have not changed.
    `answers` are those of the pages that were asked for: the walk need not ask again.
    """

    shell: Shell = field(default_factory=Shell)
    edges: dict[str, Edge] = field(default_factory=dict)
    trusted: bool = True
    answers: dict[str, Answer] = field(default_factory=dict)

    def forget_unchanged(self) -> None:
        """Ask again for pages that are what we hold: under another shell they are to be read anew."""
        self.answers = {url: answer for url, answer in self.answers.items() if not isinstance(answer, Same)}


async def study(root: str, *, pages: int, scope: Callable[[str], Scope], look: Look, before: Memory) -> Study:
    """Look at the root and the first pages that it leads to."""
    answers: dict[str, Answer] = {}
    url, answer = await _root(root, look, answers, before.studied)
    if not isinstance(answer, Page | Same):
        return Study(before.shell, before.edges, answers=answers)
    urls = _first_links(url, answer, scope(url), min(SAMPLE, pages))
    others = await asyncio.gather(*(look(each, 1, before.studied) for each in urls[1:]))
    answers.update(zip(urls[1:], others, strict=True))
    if before.studied and any(isinstance(got, Broken | Closed) for got in others):
        return Study(before.shell, before.edges, answers=answers)
    edges = await _edges(urls, answers, look, before)
    shell = learn(list(edges.values()))
    trusted = before.studied and shell == before.shell
    studied = Study(shell, edges, trusted, answers)
    if not trusted:
        studied.forget_unchanged()
    return studied


async def _root(root: str, look: Look, answers: dict[str, Answer], conditionally: bool) -> tuple[str, Answer]:
    url, answer = root, await look(root, 0, conditionally)
    for _ in range(MOST_HOPS):
        answers[url] = answer
        if not isinstance(answer, Moved) or answer.to in answers:
            break
        url = answer.to
        answer = await look(url, 0, conditionally)
    return url, answer


def _first_links(root: str, answer: Page | Same, scope: Scope, count: int) -> list[str]:
    links = answer.document.links if isinstance(answer, Page) else answer.links
    urls = {canonical(root): root}
    for link in links:
        clean = scope.clean(link)
        if len(urls) < count and clean is not None and scope.takes(clean):
            urls.setdefault(canonical(clean), clean)
    return list(urls.values())


async def _edges(urls: list[str], answers: dict[str, Answer], look: Look, before: Memory) -> dict[str, Edge]:
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
        if isinstance(answer, Page):
            edges[url] = Edge.of(answer.document)
    return edges
