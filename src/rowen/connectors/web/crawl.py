"""A breadth-first walk over a site, in an order that depends only on the site.

Responses may arrive in any order, but are handled in the order of the walk. Links are followed in the same order, to
the same depth and up to the same limit, whether a page is received completely or as "not modified". A refresh
therefore visits the same pages as a rebuild.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from rowen.concurrency import end
from rowen.connectors.base import Known, StoredState
from rowen.connectors.web.boilerplate import Boilerplate
from rowen.connectors.web.hints import Dates
from rowen.connectors.web.interstitial import Interstitials, Member, PageMark, mark_of
from rowen.connectors.web.memory import OMITTED, TOLD, Bridge, SiteCursor
from rowen.connectors.web.options import WebOptions
from rowen.connectors.web.scope import PageUrl, SiteScope, Spellings
from rowen.connectors.web.study import Front, Study, hides, study
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
    disallowed,
    is_left_out,
    observation_of,
)
from rowen.errors import SourceError, SourceGoneError
from rowen.model.items import Checkpoint, Document, Fetched, Gone, Observation, Redirected, Skipped, Unchanged
from rowen.model.url import canonical
from rowen.net.robots import Robots

# More than one, so that a slow page does not stop the walk; the pace per host is set elsewhere.
DEFAULT_CONCURRENCY = 3
# Visits in progress for each parallel request: pages arrive out of order, and are handled in order. Twice as many would
# only wait in memory; with one each, a slow page would hold up all others.
AHEAD = 4
# Minimum, for sites that are requested one page at a time.
LEAST_AHEAD = 8
# Pages that are looked up by one SQL statement.
LOOKED_UP = 128
# Browsers follow 20; each redirect is a request.
MOST_REDIRECTS = 10
# Maximum number of requests for vanished pages: a rearranged site of ten thousand pages costs a tenth more, once.
MOST_VANISHED = 1000
# URLs that may be requested for each page of `max_pages`: redirects and second URLs lead to pages, but some continue
# without end. A walk that is stopped here is not complete, and deletes nothing.
REQUESTS_PER_PAGE = 20
# The minimum for sources of a few pages, where a list of redirects would use it up.
LEAST_REQUESTS = 1000
# If a walk has more requests than this and half of them failed, it proves nothing about the rest. On a site of ten
# pages, failed pages are quarantined one by one.
LEAST_DOUBTED = 10

_RESELECT = "If the site has a new design, set the option select of the source to the part to keep."


class _Place(NamedTuple):
    url: str
    depth: int
    hops: int = 0


class _PageVisit(NamedTuple):
    place: _Place
    stored: StoredState | None
    answer: "asyncio.Task[Answer]"


class Crawl:
    """One walk. `memory` is the cursor for the next walk; `unproven` is the reason why pages may have been missed.

    `beyond` counts the URLs that were not requested because of the limit of pages.
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
        # The stored copies of failed pages are older than the last request.
        self._failed = frozenset(item.url for item in known.failed)
        self._ahead = max(LEAST_AHEAD, AHEAD * (options.concurrency or DEFAULT_CONCURRENCY))
        self._scope = SiteScope(root, options)
        self._root = self._scope.clean(root) or root
        self._queue: deque[_Place] = deque()
        self._looked_up: dict[str, StoredState | None] = {}
        self._met: set[str] = set()
        self._spellings = Spellings()
        self._movers: dict[str, list[StoredState]] = {}
        self._troubles: dict[str, BrokenPage | Closed] = {}
        self._count = self._read = self._new = self._requested = 0
        self._study = Study(trusted=memory.boilerplate == Boilerplate())
        self._front = Interstitials(known.losable if known.losable < known.count else None)

    @property
    def known(self) -> int:
        """Return the number of pages expected so far: the pages that were read, and the URLs still to visit."""
        return min(self._options.max_pages, self._count + len(self._met) - self._requested)

    @property
    def refused(self) -> bool:
        """Return whether pages were refused as interstitials; then the stored cursor must stay unchanged."""
        return self._front.why is not None

    async def walk(self, seeds: Iterable[str] = ()) -> AsyncGenerator[Observation]:
        """Visit all pages that are reachable from the root and the seeds."""
        self._meet(self._root, 0)
        for seed in seeds:
            self._meet(seed, 1)
        await self._study_site()
        if not self._known.count:
            # If a first crawl is killed, all its pages were read with this boilerplate.
            yield Checkpoint(
                SiteCursor(
                    boilerplate=self.memory.boilerplate, edges=self.memory.edges, reading=self.memory.reading
                ).to_cursor()
            )
        elif not self._study.trusted:
            # If this walk is killed, some stored pages were read with other boilerplate than the rest.
            yield Checkpoint(replace(self._before, pages=0).to_cursor())
        under_way: deque[_PageVisit] = deque()
        try:
            while True:
                await self._send_out(under_way)
                if not under_way:
                    for observation in await self._check_waiting():
                        yield observation
                    if not self._queue or self._count >= self._options.max_pages:
                        break
                    continue
                visit = under_way.popleft()
                for observation in self._take(visit.place, visit.stored, await self._settled(visit)):
                    yield observation
                self._requested += 1
                if self._requested >= LEAST_REQUESTS + REQUESTS_PER_PAGE * self._options.max_pages:
                    requested = f"{self._requested} URLs were requested for only {self._count} pages"
                    self.unproven = f"{requested}; the others were left out."
                    break
                if self._count >= self._options.max_pages:
                    break
        finally:
            await end(visit.answer for visit in under_way)
        async for redirected in self._redirects_of_vanished():
            yield redirected
        # A source with `max_pages` 1 leaves no pages out.
        self.beyond = len(under_way) + len(self._queue) if self._options.max_pages > 1 else 0
        for document in self._front.rest():
            yield Fetched(document)
        if not self._study.trusted:
            self.memory.pages = self._read
        elif self._known.count and not self._before.studied:
            self.memory.pages = 0
        if self._options.select and not self._count and not self._troubles:
            why = f"The selector {self._options.select!r} matches nothing on {self._requested} pages."
            raise SourceError(why, hint=_RESELECT)
        self.unproven = self._front.why or self.unproven
        if self._requested > LEAST_DOUBTED and 2 * len(self._troubles) > self._requested:
            self.unproven = f"{len(self._troubles)} of {self._requested} pages could not be read."

    async def _redirects_of_vanished(self) -> AsyncGenerator[Observation]:
        """Request stored pages that are no longer linked, up to the number of new pages.

        A rearranged site redirects old URLs to new ones.
        """
        if not self._new or self.unproven or self._options.max_pages == 1:
            return
        left = min(self._new, MOST_VANISHED)
        async for batch in self._known.everything():
            vanished = [stored for stored in batch if canonical(stored.url) not in self._met][:left]
            left -= len(vanished)
            for start in range(0, len(vanished), self._ahead):
                some = vanished[start : start + self._ahead]
                async with asyncio.TaskGroup() as asking:
                    targets = [asking.create_task(self._target(stored)) for stored in some]
                for stored, target in zip(some, targets, strict=True):
                    if (page := target.result()) is not None:
                        yield Redirected(stored.url, page.url)
            if not left:
                return

    async def _target(self, stored: StoredState) -> PageUrl | None:
        """Return the page of this walk that a stored URL redirects to; None if there is none."""
        url = stored.url
        for _ in range(MOST_REDIRECTS):
            answer = await self._request_place(_Place(url, stored.depth or 1), None, None)
            page = self._scope.page(answer.to) if isinstance(answer, Moved) else None
            if page is None or page.name in self._met:
                return page
            url = page.url
        return None

    async def _send_out(self, under_way: deque[_PageVisit]) -> None:
        """Start visits until enough are in progress, each with the stored state of its URL."""
        wanted = min(self._ahead, self._options.max_pages - self._count) - len(under_way)
        places = [self._queue.popleft() for _ in range(min(len(self._queue), wanted))]
        if not all(place.url in self._looked_up for place in places):
            # The same SQL statement looks up the next URLs.
            coming = islice(self._queue, max(0, LOOKED_UP - len(places)))
            urls = [place.url for place in (*places, *coming) if place.url not in self._looked_up]
            states = await self._known.look_up(urls)
            self._looked_up.update((url, states.get(url)) for url in urls)
        for place in places:
            stored = self._looked_up.pop(place.url)
            answer = asyncio.create_task(self._visit(place, stored, self._before.bridges.get(place.url)))
            under_way.append(_PageVisit(place, stored, answer))

    async def _study_site(self) -> None:
        """Learn the boilerplate of a site with several pages, and detect interstitials in front of its first pages."""
        if self._options.max_depth and self._options.max_pages > 1 and not self._options.select:
            self._study = await study(
                self._root,
                pages=self._options.max_pages,
                depth=self._options.max_depth,
                scope=lambda root: SiteScope(root, self._options),
                request=self._request,
                before=self._before,
            )
        if self._front.watches and self._options.max_depth and self._options.max_pages > 1:
            if self._root not in self._study.answers:
                self._study.answers[self._root] = await self._request(self._root, 0, self._before.studied)
            front = Front(self._root, self._study.answers, self._known, before=self._before, request=self._request)
            if why := await front.find_whole():
                raise SourceError(why)
            mark = await front.find_shared_mark(len(self._study.edges))
            if mark is not None:
                self._front.refuse(mark)
                self._study = Study(self._before.boilerplate, self._before.edges, answers=self._study.answers)
            elif not self._study.trusted:
                self._study.forget_unchanged()
        self.memory.boilerplate, self.memory.edges = self._study.boilerplate, self._study.edges

    async def _check_waiting(self) -> list[Observation]:
        """Detect interstitials at the end of a walk that misses many pages, since changed pages may hide the others."""
        if not self._front.watches or self._known.count - self._count <= self._known.losable:
            return []
        observations: list[Observation] = []
        for mark, members in self._front.suspects():
            links = [link for member in members for stored in member.replaced for link in stored.links]
            ahead = [link for link in links if (page := self._scope.page(link)) and page.name not in self._met]
            if await hides(mark, ahead, self._known, self._request):
                for member in self._front.refuse(mark):
                    observations.extend(self._leave_alone(member))
        return observations

    async def _request(self, url: str, depth: int, conditionally: bool) -> Answer:
        stored = (await self._known.look_up([url])).get(url) if conditionally else None
        bridge = self._before.bridges.get(url) if conditionally else None
        return await self._request_place(_Place(url, depth), stored, bridge)

    async def _visit(self, place: _Place, stored: StoredState | None, bridge: Bridge | None) -> Answer:
        early = self._study.answers.pop(place.url, None)
        if early is not None:
            return early
        if not self._study.trusted:
            stored = bridge = None
        return await self._request_place(place, stored, bridge)

    async def _request_place(self, place: _Place, stored: StoredState | None, bridge: Bridge | None) -> Answer:
        if self._robots is not None and (answer := await disallowed(self._robots, place.url)):
            return answer
        has_news = place.url in self._failed or not self._dates.claims(place.url)
        if stored is None or stored.body_hash is None or not place.depth or has_news:
            return await self._visitor.visit(place.url, place.depth, stored, bridge)
        if self._dates.avoids(place.url):
            return Same(stored.links, stored.body_hash)
        answer = await self._visitor.visit(place.url, place.depth, stored, bridge)
        if isinstance(answer, Same | FetchedPage):
            self._dates.check(held_true=isinstance(answer, Same))
        return answer

    async def _settled(self, visit: _PageVisit) -> Answer:
        """Return the answer of a visit; an unchanged bridge that no longer is a bridge is requested again as a page."""
        place, answer = visit.place, await visit.answer
        if isinstance(answer, Bridged):
            bridge = answer.bridge
            if bridge.to is not None:
                is_bridge = self._prefers(place.url, bridge.to)
            else:
                is_bridge = bridge.twin is None or self._spellings.has_another(place.url, bridge.twin)
            if not is_bridge:
                return await self._visitor.visit(place.url, place.depth, None, None)
        return answer

    def _take(self, place: _Place, stored: StoredState | None, answer: Answer) -> Iterator[Observation]:
        match answer:
            case Same(links, digest) if self._spellings.has_another(place.url, digest):
                etag, modified = (stored.etag, stored.last_modified) if stored else (None, None)
                yield from self._bridge(place, None, Bridge(links, etag, modified, twin=digest))
            case Same(links):
                self._count += 1
                is_moved = stored is not None and stored.depth != place.depth
                yield Unchanged(place.url, answer.validators, place.depth if is_moved else None)
                self._follow(links, place.depth)
            case FetchedPage():
                yield from self._take_page(place, stored, answer)
            case Moved(to):
                yield from self._take_redirect(place, stored, to)
            case Bridged(bridge):
                yield from self._bridge(place, stored, bridge)
            case NoPage(bridge):
                if place.depth == 0:
                    raise SourceError(f"{place.url} cannot be read as a page, or robots.txt disallows it.")
                yield from self._bridge(place, stored, bridge)
            case Missing(status):
                if place.depth == 0:
                    raise SourceGoneError(f"{place.url} answered with status {status}.")
                if stored is not None:
                    yield Gone(place.url, f"status {status}")
            case BrokenPage() | Closed():
                yield from self._take_trouble(place, stored, answer)

    def _take_page(self, place: _Place, stored: StoredState | None, page: FetchedPage) -> Iterator[Observation]:
        document, validators = page.document, page.document.validators
        if document.depth != place.depth:
            document = replace(document, depth=place.depth)
        if document.links and page.robots & NOT_FOLLOWED:
            document = replace(document, links=())
        bridge = Bridge(document.links, validators.etag, validators.last_modified)
        preferred = document.record.get("canonical")
        new: Document | None = None
        # Find the stored page with another text that this page would replace: its own copy, or one redirecting to it.
        # Several pages that redirect to one URL are not replaced here: that URL counts them.
        own = (stored,) if stored is not None else tuple(self._movers.get(canonical(place.url), ()))
        replaced: tuple[StoredState, ...] = ()
        if len(own) == 1 and own[0].content_hash != self._study.boilerplate.strip(document).content_hash:
            replaced = own
        # A known interstitial has the same text, or is the target of other pages' redirects.
        mark = mark_of(document)
        is_in_front = self._front.is_refused(mark) or (stored is None and self._front.is_refused(place.url))
        if is_in_front and (replaced or stored is None):
            pass
        elif self._options.select and not document.text and stored is None:
            yield from self._bridge(place, None, bridge)
        elif self._options.select and not document.text and stored is not None:
            # The page had the selected part before: its last copy stays.
            why = f"The selector {self._options.select!r} matches nothing on {place.url} any more."
            yield from self._keep(place, stored, BrokenPage(why, False, _RESELECT))
            self._follow(document.links, place.depth)
        elif place.depth and self._scope.is_index(place.url):
            self.generated += 1
            yield from self._bridge(place, None, bridge)
        elif page.leads_on:
            if page.robots & NOT_INDEXED and not document.record.get("noindex"):
                bridge = bridge._replace(robots=OMITTED if page.omits_robots else TOLD)
            yield from self._bridge(place, None, bridge)
        elif preferred and self._prefers(place.url, preferred):
            yield from self._bridge(place, stored, bridge._replace(to=preferred))
        elif self._spellings.has_another(place.url, validators.body_hash):
            yield from self._bridge(place, None, bridge._replace(twin=validators.body_hash))
        else:
            self._count += 1
            self._read += 1
            self._new += stored is None
            new = self._study.boilerplate.strip(document)
            self._follow(document.links, place.depth)
        if stored is None or replaced:
            yield from self._line_up(mark, Member(place.url, place.depth, replaced, new))
        elif new is not None:
            yield Fetched(new)

    def _line_up(self, mark: PageMark, member: Member) -> Iterator[Observation]:
        """Queue a page until it is known to be no interstitial, and yield the pages that are ready."""
        ready, refused = self._front.take(mark, member)
        yield from map(Fetched, ready)
        for hidden in refused:
            yield from self._leave_alone(hidden)

    def _leave_alone(self, refused: Member) -> Iterator[Observation]:
        """Keep the stored page that an interstitial hides, and follow its stored links."""
        why = self._front.why or ""
        if refused.depth == 0:
            raise SourceError(why)
        self.memory.bridges.pop(refused.url, None)
        for stored in refused.replaced:
            yield Skipped(stored.url, why)
            self._follow(stored.links, refused.depth)

    def _take_redirect(self, place: _Place, stored: StoredState | None, to: str) -> Iterator[Observation]:
        """Follow a redirect at the same depth; a redirect of the root moves the scope of the site."""
        if place.depth == 0:
            self._scope = SiteScope(to, self._options)
        page = self._scope.page(to)
        if page is not None and self._leads_back(place.url, page.url):
            yield from self._take_trouble(place, stored, BrokenPage(f"{place.url} redirects in a circle.", False))
        elif place.hops >= MOST_REDIRECTS:
            why = f"{place.url} is the end of {MOST_REDIRECTS} redirects, and redirects again."
            yield from self._take_trouble(place, stored, BrokenPage(why, False))
        else:
            yield from self._bridge(place, stored, Bridge(to=page.url if page else to))
            if stored is not None and (page is None or page.name != canonical(place.url)):
                target = page.url if page is not None else to.partition("?")[0]
                yield from self._line_up(target, Member(place.url, place.depth, (stored,)))

    def _take_trouble(
        self, place: _Place, stored: StoredState | None, trouble: BrokenPage | Closed
    ) -> Iterator[Observation]:
        """Report a page that could not be read, keep the stored page, and follow its stored links."""
        if place.depth == 0:
            raise SourceError(trouble.why, hint=trouble.hint if isinstance(trouble, BrokenPage) else None)
        name, bridge = canonical(place.url), self._before.bridges.get(place.url)
        self._troubles[name] = trouble
        if is_left_out(stored, trouble):
            yield observation_of(place.url, trouble, keeps_copy=False)
            return
        if stored is not None:
            yield from self._keep(place, stored, trouble)
        else:
            yield observation_of(place.url, trouble)
        for moved in self._movers.pop(name, ()):
            yield from self._keep(place, moved, trouble)
        is_temporary = isinstance(trouble, Closed) or trouble.passing
        if stored is None and bridge is not None:
            yield from self._bridge(place, None, bridge)
        elif stored is None and self._known.count and not self._before.known and is_temporary:
            # The URL may be a bridge that is missing in the cursor.
            self.unproven = f"{place.url} could not be requested, and may lead to stored pages."
            self.memory.known = False

    def _keep(self, place: _Place, stored: StoredState, trouble: BrokenPage | Closed) -> Iterator[Observation]:
        self._count += 1
        yield observation_of(stored.url, trouble)
        self._follow(stored.links, place.depth)

    def _bridge(self, place: _Place, stored: StoredState | None, bridge: Bridge) -> Iterator[Observation]:
        """Record a bridge and follow it; a stored page under its URL stays until the target is read."""
        self.memory.bridges[place.url] = bridge
        if bridge.to is not None and (page := self._scope.page(bridge.to)) is not None:
            name = canonical(place.url)
            self._meet(page.url, place.depth, hops=place.hops + 1, again=page.name == name)
            if page.name != name:
                movers = [*self._movers.pop(name, ()), *([stored] if stored else ())]
                if trouble := self._troubles.get(page.name):
                    for moved in movers:
                        yield from self._keep(place, moved, trouble)
                else:
                    self._movers.setdefault(page.name, []).extend(movers)
                    for moved in movers:
                        yield Redirected(moved.url, page.url)
        self._follow(bridge.links, place.depth)

    def _follow(self, links: Iterable[str], depth: int) -> None:
        if depth < self._options.max_depth:
            for link in links:
                self._meet(link, depth + 1)

    def _meet(self, url: str, depth: int, *, hops: int = 0, again: bool = False) -> None:
        """Queue a URL of the site unless it was met before; the target of a bridge is queued first."""
        page = self._scope.page(url)
        if page is None or (page.name in self._met and not again):
            return
        self._met.add(page.name)
        if hops:
            self._queue.appendleft(_Place(page.url, depth, hops))
        else:
            self._queue.append(_Place(page.url, depth))

    def _prefers(self, url: str, preferred: str) -> bool:
        """Return whether a page must be read at its canonical address, which does not lead back to `url`."""
        return self._scope.is_variant(url, preferred) and not self._leads_back(url, preferred)

    def _leads_back(self, url: str, to: str) -> bool:
        """Return whether redirects and canonical addresses from `to` lead back to `url`."""
        for _ in range(MOST_REDIRECTS):
            page = self._scope.page(to)
            if page is None or page.url == url:
                return page is not None
            bridge = self.memory.bridges.get(page.url)
            if bridge is None or bridge.to is None:
                return False
            to = bridge.to
        return False
