"""A walk over a site, breadth first, in an order that depends on the site alone.

Answers are awaited out of order but taken in order: what is followed, in which order, to which depth and up to
which limit is the same whether pages come whole or as "not modified". So a refresh walks as a rebuild would.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from rowen.connectors.base import Held, Known
from rowen.connectors.web.dates import Dates
from rowen.connectors.web.memory import Bridge, Memory
from rowen.connectors.web.options import WebOptions
from rowen.connectors.web.scope import Scope, variant
from rowen.connectors.web.study import Study, study
from rowen.connectors.web.visit import Answer, Broken, Closed, Missing, Moved, NoPage, Page, Same, Visitor
from rowen.errors import SourceError, SourceGoneError
from rowen.fetch.robots import Robots
from rowen.model.item import Failed, Fetched, Gone, Observation, Skipped, Unchanged
from rowen.model.url import canonical

__all__ = ["Crawl"]

AHEAD = 4
LEAST_AHEAD = 8
LOOKED_UP = 128


class _Place(NamedTuple):
    url: str
    depth: int


class _Visit(NamedTuple):
    place: _Place
    held: Held | None
    answer: "asyncio.Task[Answer]"


class Crawl:
    """One walk. `memory` is what the next one will remember; `unproven` tells why it may have missed something."""

    def __init__(
        self,
        root: str,
        options: WebOptions,
        *,
        known: Known,
        visitor: Visitor,
        robots: Robots | None,
        memory: Memory,
        dates: Dates,
        concurrency: int,
    ) -> None:
        self.memory = Memory(as_of=memory.as_of, sitemap_trust=memory.sitemap_trust)
        self.unproven: str | None = None
        self._root = root
        self._options = options
        self._known = known
        self._visitor = visitor
        self._robots = robots
        self._before = memory
        self._dates = dates
        self._ahead = max(LEAST_AHEAD, AHEAD * concurrency)
        self._scope = Scope(root, options)
        self._queue: deque[_Place] = deque()
        self._held: dict[str, Held | None] = {}
        self._met: set[str] = set()
        self._bodies: dict[bytes, str] = {}
        self._spellings: set[tuple[str, bytes]] = set()
        self._count = 0
        self._study = Study()

    async def walk(self, seeds: Iterable[str] = ()) -> AsyncGenerator[Observation]:
        """Look at everything that the root and the seeds lead to."""
        self._meet(self._root, 0)
        for seed in seeds:
            self._meet(seed, 1)
        await self._study_site()
        under_way: deque[_Visit] = deque()
        try:
            while True:
                await self._send_out(under_way)
                if not under_way:
                    return
                visit = under_way.popleft()
                for observation in self._take(visit.place, visit.held, await visit.answer):
                    yield observation
                if self._count >= self._options.max_pages:
                    return
        finally:
            for visit in under_way:
                visit.answer.cancel()
            await asyncio.gather(*(visit.answer for visit in under_way), return_exceptions=True)

    async def _send_out(self, under_way: deque[_Visit]) -> None:
        """Keep enough visits under way, each with what we hold of its URL."""
        places = [self._queue.popleft() for _ in range(min(len(self._queue), self._ahead - len(under_way)))]
        if not places:
            return
        await self._look_up(places)
        for place in places:
            have = self._held.pop(place.url)
            bridge = self._before.bridges.get(place.url)
            answer = asyncio.create_task(self._visit(place, have, bridge))
            under_way.append(_Visit(place, have, answer))

    async def _look_up(self, places: list[_Place]) -> None:
        """Learn what we hold of some places, and with the same question of those that come next."""
        if all(place.url in self._held for place in places):
            return
        coming = islice(self._queue, max(0, LOOKED_UP - len(places)))
        urls = [place.url for place in (*places, *coming) if place.url not in self._held]
        found = await self._known.look_up(urls)
        self._held.update((url, found.get(url)) for url in urls)

    async def _study_site(self) -> None:
        """Learn the shell of the site, unless a single page is all that is wanted."""
        if self._options.max_depth and self._options.max_pages > 1 and not self._options.select:
            self._study = await study(
                self._root,
                pages=self._options.max_pages,
                scope=lambda root: Scope(root, self._options),
                look=self._look,
                before=self._before,
            )
        self.memory.shell, self.memory.sample = self._study.shell, self._study.sample

    async def _look(self, url: str, depth: int, conditionally: bool) -> Answer:
        held = (await self._known.look_up([url])).get(url) if conditionally else None
        bridge = self._before.bridges.get(url) if conditionally else None
        return await self._ask(_Place(url, depth), held, bridge)

    async def _visit(self, place: _Place, held: Held | None, bridge: Bridge | None) -> Answer:
        early = self._study.answers.pop(canonical(place.url), None)
        if early is not None:
            return early
        return await (self._ask(place, held, bridge) if self._study.trusted else self._ask(place, None, None))

    async def _ask(self, place: _Place, held: Held | None, bridge: Bridge | None) -> Answer:
        if self._robots is not None and not (await self._robots.rules(place.url)).allows(place.url):
            return NoPage(Bridge())
        if held is None or held.body_hash is None or not place.depth or not self._dates.claims(place.url):
            return await self._visitor.visit(place.url, place.depth, held, bridge)
        if self._dates.spares(place.url):
            return Same(held.links, held.body_hash)
        answer = await self._visitor.visit(place.url, place.depth, held, bridge)
        if isinstance(answer, Same | Page):
            self._dates.check(held_true=isinstance(answer, Same))
        return answer

    def _take(self, place: _Place, held: Held | None, answer: Answer) -> Iterator[Observation]:
        match answer:
            case Same():
                yield from self._take_same(place, held, answer)
            case Page():
                yield from self._take_page(place, answer)
            case Moved(to):
                yield from self._take_redirect(place, to)
            case NoPage(bridge):
                if place.depth == 0:
                    raise SourceError(f"{place.url} is no page that can be read, or robots.txt keeps it from us.")
                self._bridge(place, bridge)
            case Missing(status):
                if place.depth == 0:
                    raise SourceGoneError(f"{place.url} answered with status {status}.", hint="Nothing was deleted.")
                if held is not None:
                    yield Gone(place.url, f"status {status}")
            case Broken() | Closed():
                yield from self._take_trouble(place, held, answer)

    def _take_same(self, place: _Place, held: Held | None, same: Same) -> Iterator[Observation]:
        if self._is_known_by_another_name(place.url, same.body_hash):
            self._bridge(place, Bridge(same.links, held.etag if held else None, held.last_modified if held else None))
            return
        self._count += 1
        depth = place.depth if held is not None and held.depth != place.depth else None
        yield Unchanged(place.url, same.validators, depth)
        self._follow(same.links, place.depth)

    def _take_page(self, place: _Place, page: Page) -> Iterator[Observation]:
        document, validators = page.document, page.document.validators
        links = () if page.robots & {"nofollow", "none"} else document.links
        bridge = Bridge(links, validators.etag, validators.last_modified)
        preferred = document.record.get("canonical")
        if document.record.get("noindex") or page.robots & {"noindex", "none"}:
            self._bridge(place, bridge)
        elif preferred and self._is_variant(place.url, preferred):
            self._bridge(place, bridge._replace(links=(preferred, *links)))
        elif self._is_known_by_another_name(place.url, validators.body_hash):
            self._bridge(place, bridge)
        else:
            self._count += 1
            yield Fetched(self._study.shell.strip(document))
            self._follow(links, place.depth)

    def _take_redirect(self, place: _Place, to: str) -> Iterator[Observation]:
        """Go where it points next, at the same depth; a root that has moved moves the borders of the site."""
        if place.url == self._root and place.depth == 0:
            self._scope = Scope(to, self._options)
            self._root = to
        self.memory.bridges[place.url] = Bridge((to,))
        self._meet(to, place.depth, first=True)
        return iter(())

    def _take_trouble(self, place: _Place, held: Held | None, trouble: Broken | Closed) -> Iterator[Observation]:
        """Keep what we hold and go on along what we know of it."""
        if place.depth == 0:
            raise SourceError(trouble.why, hint=trouble.hint if isinstance(trouble, Broken) else None)
        bridge = self._before.bridges.get(place.url)
        if isinstance(trouble, Closed):
            yield Skipped(place.url, trouble.why)
        else:
            yield Failed(place.url, trouble.why, trouble.hint)
        if held is not None:
            self._count += 1
            self._follow(held.links, place.depth)
        elif bridge is not None:
            self._bridge(place, bridge)
        elif self._known.count and not self._before.known and (isinstance(trouble, Closed) or trouble.passing):
            self.unproven = f"{place.url} could not be asked, and may lead to pages that we hold."

    def _bridge(self, place: _Place, bridge: Bridge) -> None:
        self.memory.bridges[place.url] = bridge
        self._follow(bridge.links, place.depth)

    def _follow(self, links: Iterable[str], depth: int) -> None:
        if depth < self._options.max_depth:
            for link in links:
                self._meet(link, depth + 1)

    def _meet(self, url: str, depth: int, *, first: bool = False) -> None:
        """Queue a URL that belongs to the site and was not met before."""
        page = self._scope.page(url)
        if page is None or page.name in self._met:
            return
        self._met.add(page.name)
        if first:
            self._queue.appendleft(_Place(page.url, depth))
        else:
            self._queue.append(_Place(page.url, depth))

    def _is_variant(self, url: str, preferred: str) -> bool:
        """Whether a page's preferred address is another spelling of its own, and one that we would visit."""
        page = self._scope.page(preferred)
        if page is None or page.name == canonical(url):
            return False
        return variant(page.url).partition("?")[0] == variant(url).partition("?")[0]

    def _is_known_by_another_name(self, url: str, body_hash: bytes | None) -> bool:
        """Whether the very same body was taken under a spelling of this URL before."""
        if body_hash is None:
            return False
        first = self._bodies.setdefault(body_hash, url)
        if first == url:
            return False
        self._spellings.add((variant(first), body_hash))
        spelling = (variant(url), body_hash)
        is_known = spelling in self._spellings
        self._spellings.add(spelling)
        return is_known
