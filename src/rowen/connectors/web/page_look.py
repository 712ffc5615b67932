"""A look at some pages of a site, without a walk: what they say now, at the depth and under the names that they have.

What would change the shape of the site is left to a walk: a page that redirects now, or prefers another address, or
asks not to be indexed. Other boilerplate is, too: the walk notices by the bodies of its first pages, and then reads all
pages anew.
"""

from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import replace

from rowen.concurrency import together
from rowen.connectors.base import Held, Known
from rowen.connectors.web.boilerplate import Boilerplate
from rowen.connectors.web.interstitial import Interstitials, Member, mark_of
from rowen.connectors.web.options import WebOptions
from rowen.connectors.web.scope import SiteScope
from rowen.connectors.web.visit import (
    NOT_FOLLOWED,
    Answer,
    BrokenPage,
    Closed,
    FetchedPage,
    Missing,
    Moved,
    Same,
    Visitor,
    is_left_out,
    kept_out,
    told,
)
from rowen.errors import SourceError, SourceGoneError
from rowen.model.items import Document, Fetched, Gone, Observation, Skipped, Unchanged
from rowen.model.url import canonical
from rowen.net.robots import Robots

__all__ = ["PageLook"]

# Of pages that differed before, one may become the same as another: that is an edit. Three that do are one page in
# front of them, such as a login. A walk may lose more, since it sees how large the site is.
_LOSABLE = 1
_ELSEWHERE = "it leads elsewhere now"
_NO_PAGE = "it is no page of its own any more"


class PageLook:
    """One look at some pages."""

    def __init__(
        self,
        root: str,
        options: WebOptions,
        *,
        known: Known,
        visitor: Visitor,
        robots: Robots | None,
        boilerplate: Boilerplate,
        concurrency: int,
    ) -> None:
        self._options = options
        self._known = known
        self._visitor = visitor
        self._robots = robots
        self._boilerplate = boilerplate
        self._concurrency = concurrency
        self._scope = SiteScope(root, options)
        self._root = canonical(root)
        self._front = Interstitials(_LOSABLE if known.losable < known.count else None)

    async def observations(self, urls: Sequence[str]) -> AsyncGenerator[Observation]:
        """What is seen of each; pages that became others are told at the end, when it is clear what stands there."""
        held = await self._known.look_up(urls)
        wanted = [held[url] for url in urls if url in held]
        for start in range(0, len(wanted), self._concurrency):
            some = wanted[start : start + self._concurrency]
            answers = await together(*(self._ask(one) for one in some))
            for one, answer in zip(some, answers, strict=True):
                for observation in self._take(one, answer):
                    yield observation
        for document in self._front.rest():
            yield Fetched(document)

    async def _ask(self, held: Held) -> Answer:
        if self._robots is not None and (closed := await kept_out(self._robots, held.url)):
            return closed
        return await self._visitor.visit(held.url, held.depth, held, None)

    def _take(self, held: Held, answer: Answer) -> Iterator[Observation]:
        match answer:
            case Same():
                yield Unchanged(held.url, answer.validators)
            case FetchedPage():
                yield from self._take_page(held, answer)
            case Missing(status) if canonical(held.url) == self._root:
                raise SourceGoneError(f"{held.url} answered with status {status}.")
            case Missing(status):
                yield Gone(held.url, f"status {status}")
            case BrokenPage(why, _, hint) if canonical(held.url) == self._root:
                raise SourceError(why, hint=hint)
            case BrokenPage() | Closed():
                yield told(held.url, answer, keeps_copy=not is_left_out(held, answer))
            case Moved():
                yield Skipped(held.url, _ELSEWHERE)
            case _:
                yield Skipped(held.url, _NO_PAGE)

    def _take_page(self, held: Held, page: FetchedPage) -> Iterator[Observation]:
        document = page.document
        if document.links and page.robots & NOT_FOLLOWED:
            document = replace(document, links=())
        if page.leads_on or self._is_reshaped(held, document):
            yield Skipped(held.url, _NO_PAGE)
            return
        stored = self._boilerplate.strip(document)
        if stored.content_hash == held.content_hash:
            yield Fetched(stored)
            return
        ready, refused = self._front.take(mark_of(document), Member(held.url, held.depth, (held,), stored))
        for one in ready:
            yield Fetched(one)
        for member in refused:
            yield Skipped(member.url, self._front.why or "")

    def _is_reshaped(self, held: Held, document: Document) -> bool:
        """Whether a page would be no page of ours on a walk, or none that is stored under this address."""
        preferred = document.record.get("canonical")
        return bool(
            (self._options.select and not document.text)
            or (held.depth and self._scope.is_index(held.url))
            or (isinstance(preferred, str) and self._scope.is_variant(held.url, preferred))
        )
