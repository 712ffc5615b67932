"""A walk over a site, breadth first, in an order that depends on the site alone.

Answers are awaited out of order but taken in order: what is followed, in which order, to which depth and up to
which limit is the same whether pages come whole or as "not modified". So a refresh walks as a rebuild would.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from rowen.connectors.base import Held, Known
from rowen.connectors.web.boilerplate import Boilerplate
from rowen.connectors.web.dates import Dates
from rowen.connectors.web.front import Front, hides
from rowen.connectors.web.interstitial import Interstitials, Member, PageMark, mark_of
from rowen.connectors.web.memory import OMITTED, TOLD, Bridge, SiteCursor
from rowen.connectors.web.options import WebOptions
from rowen.connectors.web.scope import PageUrl, SiteScope, Spellings
from rowen.connectors.web.study import Study, study
from rowen.connectors.web.visit import (
    NOT_FOLLOWED,
    NOT_INDEXED,
    Answer,
    Bridged,
    BrokenPage,
    Closed,
    FetchedPage,
    Missing,
    Moved,
    NoPage,
    Same,
    Visitor,
    is_left_out,
    kept_out,
    told,
)
from rowen.errors import SourceError, SourceGoneError
from rowen.model.items import Checkpoint, Document, Fetched, Gone, Observation, Redirected, Skipped, Unchanged
from rowen.model.url import canonical
from rowen.net.robots import Robots

__all__ = ["Crawl"]

# Visits under way for each request that may be sent at once: pages come out of order, and are taken in order. Twice as
# many would only wait in memory; with one each, a slow page would hold up all others.
AHEAD = 4
# For sites that are asked one page at a time.
LEAST_AHEAD = 8
# Places that are looked up by one statement, instead of one each.
LOOKED_UP = 128
# Half of the 20 that browsers follow: each is a request.
MOST_REDIRECTS = 10
# Requests: a site of ten thousand pages that is rearranged is asked for a tenth more, once.
MOST_VANISHED = 1000
# URLs that may be asked for, for each page that is allowed: redirects and second names lead to pages, but some lead on
# without end. A walk that is cut off here is not complete, and deletes nothing.
ASKS_PER_PAGE = 20
# The same for sources of a few pages, where a list of redirects would use it up.
LEAST_ASKS = 1000
# With more places than that, a walk on which half of them failed proves nothing about the rest; on a site of ten pages
# it is a matter of single pages, which are quarantined one by one.
LEAST_DOUBTED = 10

_RESELECT = "Has the site a new design? The option select of the source says which part to keep."


class _Place(NamedTuple):
    url: str
    depth: int
    hops: int = 0


class _PageVisit(NamedTuple):
    place: _Place
    held: Held | None
    answer: "asyncio.Task[Answer]"


class Crawl:
    """One walk. `memory` is what the next one will remember; `unproven` tells why it may have missed something.

    `beyond` counts the addresses that were met and not asked for, since there were pages enough.
    """

    def __init__(
        self,
        root: str,
        options: WebOptions,
        *,
        known: Known,
        visitor: Visitor,
        robots: Robots | None,
        memory: SiteCursor,
        dates: Dates,
        concurrency: int,
    ) -> None:
        self.memory = SiteCursor(
            as_of=memory.as_of, sitemap_trust=memory.sitemap_trust, known=True, reading=options.leading
        )
        self.unproven: str | None = None
        self.beyond = self.generated = 0
        self._options = options
        self._known = known
        self._visitor = visitor
        self._robots = robots
        self._before = memory
        self._dates = dates
        # Of these the copy is older than what the site had when it was last asked.
        self._failed = frozenset(one.url for one in known.failed)
        self._ahead = max(LEAST_AHEAD, AHEAD * concurrency)
        self._scope = SiteScope(root, options)
        self._root = self._scope.clean(root) or root
        self._queue: deque[_Place] = deque()
        self._held: dict[str, Held | None] = {}
        self._met: set[str] = set()
        self._spellings = Spellings()
        self._movers: dict[str, list[Held]] = {}
        self._troubles: dict[str, BrokenPage | Closed] = {}
        self._count = 0
        self._read = 0
        self._new = 0
        self._asked = 0
        self._study = Study(trusted=memory.boilerplate == Boilerplate())
        self._front = Interstitials(known.losable if known.losable < known.count else None)

    @property
    def known(self) -> int:
        """How many pages there are, as far as can be told by now: those that were taken, and places still to see."""
        return min(self._options.max_pages, self._count + len(self._met) - self._asked)

    @property
    def refused(self) -> bool:
        """Whether pages were refused because something stands in front of them: then nothing is to be remembered."""
        return self._front.why is not None

    async def walk(self, seeds: Iterable[str] = ()) -> AsyncGenerator[Observation]:
        """Look at everything that the root and the seeds lead to."""
        self._meet(self._root, 0)
        for seed in seeds:
            self._meet(seed, 1)
        await self._study_site()
        if not self._known.count:
            # A first crawl that is killed has read all that it stored with this boilerplate.
            yield Checkpoint(
                SiteCursor(
                    boilerplate=self.memory.boilerplate, edges=self.memory.edges, reading=self.memory.reading
                ).to_cursor()
            )
        elif not self._study.trusted:
            # One that is killed leaves pages that were read with other boilerplate than the rest.
            yield Checkpoint(replace(self._before, pages=0).to_cursor())
        under_way: deque[_PageVisit] = deque()
        try:
            while True:
                await self._send_out(under_way)
                if not under_way:
                    for observation in await self._look_behind():
                        yield observation
                    if not self._queue or self._count >= self._options.max_pages:
                        break
                    continue
                visit = under_way.popleft()
                for observation in self._take(visit.place, visit.held, await self._settled(visit)):
                    yield observation
                if self._is_enough():
                    break
        finally:
            for visit in under_way:
                visit.answer.cancel()
            await asyncio.gather(*(visit.answer for visit in under_way), return_exceptions=True)
        async for redirected in self._redirects_of_vanished():
            yield redirected
        # Who asks for one page watches it, and wants no other.
        self.beyond = len(under_way) + len(self._queue) if self._options.max_pages > 1 else 0
        for document in self._front.rest():
            yield Fetched(document)
        if not self._study.trusted:
            self.memory.pages = self._read
        elif self._known.count and not self._before.studied:
            self.memory.pages = 0
        if self._options.select and not self._count and not self._troubles:
            why = f"The selector {self._options.select!r} matches nothing on {self._asked} pages."
            raise SourceError(why, hint=_RESELECT)
        self.unproven = self._front.why or self.unproven
        if self._asked > LEAST_DOUBTED and 2 * len(self._troubles) > self._asked:
            self.unproven = f"{len(self._troubles)} of {self._asked} pages could not be read."

    async def _redirects_of_vanished(self) -> AsyncGenerator[Observation]:
        """Ask pages that nothing links to any more where they are now: a site that was rearranged redirects them.

        Nothing is asked unless there are new pages, and no more pages than are new.
        """
        if not self._new or self.unproven or self._options.max_pages == 1:
            return
        left = min(self._new, MOST_VANISHED)
        async for batch in self._known.everything():
            vanished = [held for held in batch if canonical(held.url) not in self._met][:left]
            left -= len(vanished)
            for start in range(0, len(vanished), self._ahead):
                asked = vanished[start : start + self._ahead]
                async with asyncio.TaskGroup() as asking:
                    targets = [asking.create_task(self._target(held)) for held in asked]
                for held, target in zip(asked, targets, strict=True):
                    if (page := target.result()) is not None:
                        yield Redirected(held.url, page.url)
            if not left:
                return

    async def _target(self, held: Held) -> PageUrl | None:
        """Return the page of this walk that an address leads to, over any number of redirects."""
        url = held.url
        for _ in range(MOST_REDIRECTS):
            answer = await self._ask(_Place(url, held.depth or 1), None, None)
            page = self._scope.page(answer.to) if isinstance(answer, Moved) else None
            if page is None or page.name in self._met:
                return page
            url = page.url
        return None

    def _is_enough(self) -> bool:
        """Whether the walk has its pages; one that finds hardly any among endless places is cut off."""
        self._asked += 1
        if self._asked >= LEAST_ASKS + ASKS_PER_PAGE * self._options.max_pages:
            self.unproven = f"{self._asked} URLs were asked for only {self._count} pages; the others were left out."
            return True
        return self._count >= self._options.max_pages

    async def _send_out(self, under_way: deque[_PageVisit]) -> None:
        """Keep enough visits under way, each with what we hold of its URL."""
        wanted = min(self._ahead, self._options.max_pages - self._count) - len(under_way)
        places = [self._queue.popleft() for _ in range(min(len(self._queue), wanted))]
        if not places:
            return
        await self._look_up(places)
        for place in places:
            have = self._held.pop(place.url)
            bridge = self._before.bridges.get(place.url)
            answer = asyncio.create_task(self._visit(place, have, bridge))
            under_way.append(_PageVisit(place, have, answer))

    async def _look_up(self, places: list[_Place]) -> None:
        """Learn what we hold of some places, and with the same question of those that come next."""
        if all(place.url in self._held for place in places):
            return
        coming = islice(self._queue, max(0, LOOKED_UP - len(places)))
        urls = [place.url for place in (*places, *coming) if place.url not in self._held]
        found = await self._known.look_up(urls)
        self._held.update((url, found.get(url)) for url in urls)

    async def _study_site(self) -> None:
        """Learn the boilerplate of the site, unless a single page is all that is wanted."""
        if self._options.max_depth and self._options.max_pages > 1 and not self._options.select:
            self._study = await study(
                self._root,
                pages=self._options.max_pages,
                depth=self._options.max_depth,
                scope=lambda root: SiteScope(root, self._options),
                look=self._look,
                before=self._before,
            )
        if self._front.watches and self._options.max_depth and self._options.max_pages > 1:
            await self._look_for_interstitials()
        self.memory.boilerplate, self.memory.edges = self._study.boilerplate, self._study.edges

    async def _look_for_interstitials(self) -> None:
        """Before a page is taken: whether something stands in front of the site, or of most of its first pages."""
        if self._root not in self._study.answers:
            self._study.answers[self._root] = await self._look(self._root, 0, self._before.studied)
        front = Front(self._root, self._study.answers, self._known, before=self._before, look=self._look)
        if why := await front.whole():
            raise SourceError(why)
        mark = await front.shared_by(len(self._study.edges))
        if mark is not None:
            self._front.refuse(mark)
            self._study = Study(self._before.boilerplate, self._before.edges, answers=self._study.answers)
        elif not self._study.trusted:
            self._study.forget_unchanged()

    async def _look_behind(self) -> list[Observation]:
        """At the end of a walk that misses too much: whether pages that changed hide what they led to."""
        if not self._front.watches or self._known.count - self._count <= self._known.losable:
            return []
        kept: list[Observation] = []
        for mark, members in self._front.suspects():
            ahead = [link for one in members for held in one.held for link in held.links if not self._has_met(link)]
            if await hides(mark, ahead, self._known, self._look):
                for one in self._front.refuse(mark):
                    kept.extend(self._leave_alone(one))
        return kept

    def _has_met(self, link: str) -> bool:
        page = self._scope.page(link)
        return page is None or page.name in self._met

    async def _look(self, url: str, depth: int, conditionally: bool) -> Answer:
        held = (await self._known.look_up([url])).get(url) if conditionally else None
        bridge = self._before.bridges.get(url) if conditionally else None
        return await self._ask(_Place(url, depth), held, bridge)

    async def _visit(self, place: _Place, held: Held | None, bridge: Bridge | None) -> Answer:
        early = self._study.answers.pop(place.url, None)
        if early is not None:
            return early
        return await (self._ask(place, held, bridge) if self._study.trusted else self._ask(place, None, None))

    async def _ask(self, place: _Place, held: Held | None, bridge: Bridge | None) -> Answer:
        if self._robots is not None and (closed := await kept_out(self._robots, place.url)):
            return closed
        has_news = place.url in self._failed or not self._dates.claims(place.url)
        if held is None or held.body_hash is None or not place.depth or has_news:
            return await self._visitor.visit(place.url, place.depth, held, bridge)
        if self._dates.spares(place.url):
            return Same(held.links, held.body_hash)
        answer = await self._visitor.visit(place.url, place.depth, held, bridge)
        if isinstance(answer, Same | FetchedPage):
            self._dates.check(held_true=isinstance(answer, Same))
        return answer

    async def _settled(self, visit: _PageVisit) -> Answer:
        """The answer of a visit; what is no bridge any more, although it did not change, is asked for its page."""
        answer = await visit.answer
        if isinstance(answer, Bridged) and not self._still_holds(visit.place, answer.bridge):
            return await self._visitor.visit(visit.place.url, visit.place.depth, None, None)
        return answer

    def _still_holds(self, place: _Place, bridge: Bridge) -> bool:
        if bridge.to is not None:
            return self._prefers(place.url, bridge.to)
        return bridge.twin is None or self._spellings.has_another(place.url, bridge.twin)

    def _take(self, place: _Place, held: Held | None, answer: Answer) -> Iterator[Observation]:
        match answer:
            case Same():
                yield from self._take_same(place, held, answer)
            case FetchedPage():
                yield from self._take_page(place, held, answer)
            case Moved(to):
                yield from self._take_redirect(place, held, to)
            case Bridged(bridge):
                yield from self._bridge(place, held, bridge)
            case NoPage(bridge):
                if place.depth == 0:
                    raise SourceError(f"{place.url} is no page that can be read, or robots.txt keeps it from us.")
                yield from self._bridge(place, held, bridge)
            case Missing(status):
                if place.depth == 0:
                    raise SourceGoneError(f"{place.url} answered with status {status}.")
                if held is not None:
                    yield Gone(place.url, f"status {status}")
            case BrokenPage() | Closed():
                yield from self._take_trouble(place, held, answer)

    def _take_same(self, place: _Place, held: Held | None, same: Same) -> Iterator[Observation]:
        if self._spellings.has_another(place.url, same.body_hash):
            etag, modified = (held.etag, held.last_modified) if held else (None, None)
            yield from self._bridge(place, None, Bridge(same.links, etag, modified, twin=same.body_hash))
            return
        self._count += 1
        depth = place.depth if held is not None and held.depth != place.depth else None
        yield Unchanged(place.url, same.validators, depth)
        self._follow(same.links, place.depth)

    def _take_page(self, place: _Place, held: Held | None, page: FetchedPage) -> Iterator[Observation]:
        document, validators = page.document, page.document.validators
        if document.depth != place.depth:
            document = replace(document, depth=place.depth)
        if document.links and page.robots & NOT_FOLLOWED:
            document = replace(document, links=())
        bridge = Bridge(document.links, validators.etag, validators.last_modified)
        preferred = document.record.get("canonical")
        stored: Document | None = None
        replaced = self._replaced(place, held, document)
        if self._is_in_front(place, held, document) and (replaced or held is None):
            pass
        elif self._options.select and not document.text:
            yield from self._take_unselected(place, held, bridge)
        elif place.depth and self._scope.is_index(place.url):
            self.generated += 1
            yield from self._bridge(place, None, bridge)
        elif page.leads_on:
            if page.robots & NOT_INDEXED and not document.record.get("noindex"):
                bridge = bridge._replace(robots=OMITTED if page.omits_robots else TOLD)
            yield from self._bridge(place, None, bridge)
        elif preferred and self._prefers(place.url, preferred):
            yield from self._bridge(place, held, bridge._replace(to=preferred))
        elif self._spellings.has_another(place.url, validators.body_hash):
            yield from self._bridge(place, None, bridge._replace(twin=validators.body_hash))
        else:
            self._count += 1
            self._read += 1
            self._new += held is None
            stored = self._study.boilerplate.strip(document)
            self._follow(document.links, place.depth)
        if held is None or replaced:
            yield from self._line_up(mark_of(document), Member(place.url, place.depth, replaced, stored))
        elif stored is not None:
            yield Fetched(stored)

    def _take_unselected(self, place: _Place, held: Held | None, bridge: Bridge) -> Iterator[Observation]:
        """A page without the part that is wanted leads on; if it had that part before, its last copy stays."""
        if held is None:
            yield from self._bridge(place, None, bridge)
            return
        why = f"The selector {self._options.select!r} matches nothing on {place.url} any more."
        yield from self._keep(place, held, BrokenPage(why, False, _RESELECT))
        self._follow(bridge.links, place.depth)

    def _is_in_front(self, place: _Place, held: Held | None, document: Document) -> bool:
        """Whether a page is known to stand in front of others: by what it says, or because they redirect to it."""
        return self._front.is_refused(mark_of(document)) or (held is None and self._front.is_refused(place.url))

    def _replaced(self, place: _Place, held: Held | None, document: Document) -> tuple[Held, ...]:
        """What a page would replace: what we hold of it, or of the one that redirects to it, where that says otherwise.

        Several that redirect to one address have that in common.
        """
        ours = (held,) if held is not None else tuple(self._movers.get(canonical(place.url), ()))
        if len(ours) != 1:
            return ()
        says = self._study.boilerplate.strip(document).content_hash
        return tuple(one for one in ours if one.content_hash != says)

    def _line_up(self, mark: PageMark, member: Member) -> Iterator[Observation]:
        """Let a page wait until it is clear that it does not stand in front of others."""
        ready, refused = self._front.take(mark, member)
        for document in ready:
            yield Fetched(document)
        for one in refused:
            yield from self._leave_alone(one)

    def _leave_alone(self, refused: Member) -> Iterator[Observation]:
        """Keep what we hold of a page that something stands in front of, and go on along what we know of it."""
        why = self._front.why or ""
        if refused.depth == 0:
            raise SourceError(why)
        self.memory.bridges.pop(refused.url, None)
        for held in refused.held:
            yield Skipped(held.url, why)
            self._follow(held.links, refused.depth)

    def _take_redirect(self, place: _Place, held: Held | None, to: str) -> Iterator[Observation]:
        """Go where it points, at the same depth; a root that has moved moves the borders of the site."""
        if place.depth == 0:
            self._scope = SiteScope(to, self._options)
        page = self._scope.page(to)
        if page is not None and self._leads_back(place.url, page.url):
            yield from self._take_trouble(place, held, BrokenPage(f"{place.url} redirects in a circle.", False))
        elif place.hops >= MOST_REDIRECTS:
            why = f"{place.url} is the end of {MOST_REDIRECTS} redirects, and redirects again."
            yield from self._take_trouble(place, held, BrokenPage(why, False))
        else:
            yield from self._bridge(place, held, Bridge(to=page.url if page else to))
            if held is not None and (page is None or page.name != canonical(place.url)):
                target = page.url if page is not None else to.partition("?")[0]
                yield from self._line_up(target, Member(place.url, place.depth, (held,)))

    def _take_trouble(self, place: _Place, held: Held | None, trouble: BrokenPage | Closed) -> Iterator[Observation]:
        """Keep what we hold and go on along what we know of it."""
        if place.depth == 0:
            raise SourceError(trouble.why, hint=trouble.hint if isinstance(trouble, BrokenPage) else None)
        name, bridge = canonical(place.url), self._before.bridges.get(place.url)
        self._troubles[name] = trouble
        if is_left_out(held, trouble):
            yield told(place.url, trouble, keeps_copy=False)
            return
        if held is not None:
            yield from self._keep(place, held, trouble)
        else:
            yield told(place.url, trouble)
        for moved in self._movers.pop(name, ()):
            yield from self._keep(place, moved, trouble)
        if held is None and bridge is not None:
            yield from self._bridge(place, None, bridge)
        elif held is None and self._may_hide_pages(trouble):
            self.unproven = f"{place.url} could not be asked, and may lead to pages that we hold."
            self.memory.known = False

    def _may_hide_pages(self, trouble: BrokenPage | Closed) -> bool:
        """Whether what is in trouble may have been a bridge that we do not remember."""
        return bool(self._known.count) and not self._before.known and (isinstance(trouble, Closed) or trouble.passing)

    def _keep(self, place: _Place, held: Held, trouble: BrokenPage | Closed) -> Iterator[Observation]:
        self._count += 1
        yield told(held.url, trouble)
        self._follow(held.links, place.depth)

    def _bridge(self, place: _Place, held: Held | None, bridge: Bridge) -> Iterator[Observation]:
        """Go on from what is no page. What we hold of it stays until the page that it sends us to is there."""
        self.memory.bridges[place.url] = bridge
        if bridge.to is not None and (page := self._scope.page(bridge.to)) is not None:
            yield from self._send_on(place, held, page)
        self._follow(bridge.links, place.depth)

    def _send_on(self, place: _Place, held: Held | None, page: PageUrl) -> Iterator[Observation]:
        name = canonical(place.url)
        self._meet(page.url, place.depth, hops=place.hops + 1, again=page.name == name)
        if page.name == name:
            return
        movers = [*self._movers.pop(name, ()), *([held] if held else ())]
        if trouble := self._troubles.get(page.name):
            for moved in movers:
                yield from self._keep(place, moved, trouble)
        else:
            self._movers.setdefault(page.name, []).extend(movers)
            for moved in movers:
                yield Redirected(moved.url, page.url)

    def _follow(self, links: Iterable[str], depth: int) -> None:
        if depth < self._options.max_depth:
            for link in links:
                self._meet(link, depth + 1)

    def _meet(self, url: str, depth: int, *, hops: int = 0, again: bool = False) -> None:
        """Queue a URL that belongs to the site and was not met before: first, if something sent us there."""
        page = self._scope.page(url)
        if page is None or (page.name in self._met and not again):
            return
        self._met.add(page.name)
        if hops:
            self._queue.appendleft(_Place(page.url, depth, hops))
        else:
            self._queue.append(_Place(page.url, depth))

    def _prefers(self, url: str, preferred: str) -> bool:
        """Whether a page is to be taken at another address instead; not if that one sends us back here."""
        return self._scope.is_variant(url, preferred) and not self._leads_back(url, preferred)

    def _leads_back(self, url: str, to: str) -> bool:
        """Whether redirects and preferences go in a circle."""
        for _ in range(MOST_REDIRECTS):
            page = self._scope.page(to)
            if page is None or page.url == url:
                return page is not None
            bridge = self.memory.bridges.get(page.url)
            if bridge is None or bridge.to is None:
                return False
            to = bridge.to
        return False
