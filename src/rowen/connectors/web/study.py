"""Before a walk: a look at the site's first pages, to learn its shell."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from rowen.connectors.web.memory import Memory
from rowen.connectors.web.scope import Scope
from rowen.connectors.web.shell import SAMPLE, Shell, learn, signature
from rowen.connectors.web.visit import Answer, Broken, Closed, Moved, Page, Same
from rowen.model.url import canonical

__all__ = ["Look", "Study", "study"]

Look = Callable[[str, int, bool], Awaitable[Answer]]
"""Asks for a URL at a depth; with the flag as "is it still what we hold?", without it for the whole page."""

MOST_HOPS = 5


@dataclass(slots=True)
class Study:
    """What was learned. Where the shell is another than before, nothing that we hold proves a page unchanged.

    `answers` are those of the pages that were asked for, by canonical URL: the walk need not ask again.
    """

    shell: Shell = field(default_factory=Shell)
    sample: str = ""
    trusted: bool = True
    answers: dict[str, Answer] = field(default_factory=dict)


async def study(root: str, *, pages: int, scope: Callable[[str], Scope], look: Look, before: Memory) -> Study:
    """Look at the root and the first pages that it leads to."""
    answers: dict[str, Answer] = {}
    url, answer = await _root(root, look, answers, before.known)
    if not isinstance(answer, Page | Same):
        return Study(before.shell, before.sample, answers=answers)
    urls = _first_links(url, answer, scope(url), min(SAMPLE, pages))
    others = await asyncio.gather(*(look(each, 1, before.known) for each in urls[1:]))
    answers |= {canonical(each): got for each, got in zip(urls[1:], others, strict=True)}
    if before.known and any(isinstance(got, Broken | Closed) for got in others):
        return Study(before.shell, before.sample, answers=answers)
    sample = signature((each, _body_hash(answers[canonical(each)])) for each in urls)
    if before.known and sample == before.sample:
        return Study(before.shell, sample, answers=answers)
    return await _learn(urls, answers, look, before, sample)


async def _root(root: str, look: Look, answers: dict[str, Answer], conditionally: bool) -> tuple[str, Answer]:
    url, answer = root, await look(root, 0, conditionally)
    for _ in range(MOST_HOPS):
        answers[canonical(url)] = answer
        if not isinstance(answer, Moved):
            break
        url = answer.to
        answer = answers.get(canonical(url)) or await look(url, 0, conditionally)
    return url, answer


def _first_links(root: str, answer: Page | Same, scope: Scope, count: int) -> list[str]:
    links = answer.document.links if isinstance(answer, Page) else answer.links
    urls = {canonical(root): root}
    for link in links:
        clean = scope.clean(link)
        if len(urls) < count and clean is not None and scope.takes(clean):
            urls.setdefault(canonical(clean), clean)
    return list(urls.values())


async def _learn(urls: list[str], answers: dict[str, Answer], look: Look, before: Memory, sample: str) -> Study:
    whole = dict(answers)
    for depth, url in enumerate(urls):
        if isinstance(answers.get(canonical(url)), Same):
            whole[canonical(url)] = await look(url, min(depth, 1), False)
    texts = [got.document.text for url in urls if isinstance(got := whole.get(canonical(url)), Page)]
    shell = learn(texts)
    trusted = before.known and shell == before.shell
    return Study(shell, sample, trusted, answers if trusted else whole)


def _body_hash(answer: Answer) -> bytes | None:
    match answer:
        case Page(document):
            return document.validators.body_hash
        case Same(_, body_hash):
            return body_hash
        case _:
            return None
