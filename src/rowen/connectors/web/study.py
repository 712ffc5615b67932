"""Studies the first pages of a site before a walk, to learn its boilerplate and to detect interstitials."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from rowen.concurrency import together
from rowen.connectors.base import Known
from rowen.connectors.web.boilerplate import LEAST_PAGES, SAMPLE, Boilerplate, Edge, learn
from rowen.connectors.web.interstitial import LEAST, PERHAPS, PageMark, mark_of
from rowen.connectors.web.memory import SiteCursor
from rowen.connectors.web.scope import SiteScope
from rowen.connectors.web.visit import (
    NOT_FOLLOWED,
    Answer,
    Bridged,
    BrokenPage,
    Closed,
    FetchedPage,
    Moved,
    Same,
)
from rowen.model.hashes import Hash
from rowen.model.url import canonical
from rowen.net.target import redact

PageRequest = Callable[[str, int, bool], Awaitable[Answer]]
"""Requests a URL at a depth; conditionally if the flag is true."""

# Half of the limit of a walk; four are common: to https, to www, to a language and to the front page.
MOST_HOPS = 5
# A front page that links to one page, which links to all others, is common. A site that is a chain of pages is studied
# incompletely, and still walked.
MOST_LEVELS = 3
# Together with the root, four pages with one text. Twice as many would prove no more; fewer may be chance.
PROBES = 3
# Links of the root that are looked up among the stored pages, as many as a walk looks up at a time.
LINKS = 128


@dataclass(slots=True)
class Study:
    """The result of a study; `trusted` is false if the boilerplate has changed, and all pages must be read again.

    `edges` avoid requests in the next study; `answers` are the pages that were requested, which the walk reuses.
    """

    boilerplate: Boilerplate = field(default_factory=Boilerplate)
    edges: dict[str, Edge] = field(default_factory=dict)
    trusted: bool = True
    answers: dict[str, Answer] = field(default_factory=dict)

    def forget_unchanged(self) -> None:
        """Drop the answers "unchanged", since those pages must be read again when the boilerplate changes."""
        self.answers = {url: answer for url, answer in self.answers.items() if not isinstance(answer, Same)}


async def study(
    root: str, *, pages: int, depth: int, scope: Callable[[str], SiteScope], request: PageRequest, before: SiteCursor
) -> Study:
    """Request the root and the first pages linked from it, in the order of the walk, down to `depth`."""
    answers: dict[str, Answer] = {}
    url, answer = root, await request(root, 0, before.studied)
    for _ in range(MOST_HOPS):
        answers[url] = answer
        if not isinstance(answer, Moved) or answer.to in answers:
            break
        url = answer.to
        answer = await request(url, 0, before.studied)
    if not isinstance(answer, FetchedPage | Same | Bridged):
        return Study(before.boilerplate, before.edges, answers=answers)
    depths = {url: 0}
    for level in range(1, min(depth, MOST_LEVELS) + 1):
        urls = _next_links(depths, answers, scope(url), min(SAMPLE, pages))
        others = await together(*(request(link, level, before.studied) for link in urls))
        answers.update(zip(urls, others, strict=True))
        depths.update(dict.fromkeys(urls, level))
        if before.studied and any(isinstance(other, BrokenPage | Closed) for other in others):
            return Study(before.boilerplate, before.edges, answers=answers)
    edges = await _edges(depths, answers, request, before, scope(url))
    boilerplate = learn(list(edges.values()))
    trusted = before.studied and boilerplate == before.boilerplate
    studied = Study(boilerplate, edges, trusted, answers)
    if not trusted:
        studied.forget_unchanged()
    return studied


def _next_links(depths: dict[str, int], answers: dict[str, Answer], scope: SiteScope, count: int) -> list[str]:
    """Return links of the requested pages that were not requested yet, until there are `count` pages in total."""
    urls = {canonical(url): url for url in depths}
    for url in depths:
        match answers[url]:
            case FetchedPage(document, robots):
                # For an unchanged page, only links that may be followed are stored.
                links = () if robots & NOT_FOLLOWED else document.links
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
    depths: dict[str, int], answers: dict[str, Answer], request: PageRequest, before: SiteCursor, scope: SiteScope
) -> dict[str, Edge]:
    """Return the edges of the requested pages; the edge of an unchanged page is taken from the cursor or read again.

    Answers that the next walk may know only as bridges (an index, a second spelling, a repeated body) are left out.
    """
    edges: dict[str, Edge] = {}
    bodies: set[bytes] = set()
    for url, depth in depths.items():
        answer = answers[url]
        edges_before = before.edges.get(url)
        if isinstance(answer, Same) and answer.body_hash in bodies:
            continue
        if isinstance(answer, Same):
            if edges_before is not None and edges_before.body == answer.body_hash:
                edges[url] = edges_before
            elif len(depths) >= LEAST_PAGES:
                answer = await request(url, depth, False)
        if isinstance(answer, FetchedPage) and not answer.leads_on and not (depth and scope.is_index(url)):
            preferred = answer.document.record.get("canonical")
            if not (isinstance(preferred, str) and scope.is_variant(url, preferred)):
                edges[url] = Edge.of(answer.document)
        body = edges[url].body if url in edges else None
        if body in bodies:
            del edges[url]
        elif body is not None:
            bodies.add(body)
    return edges


class Front:
    """Compares the first answers of a site with its stored pages, to detect one page in place of many."""

    def __init__(
        self, root: str, answers: dict[str, Answer], known: Known, *, before: SiteCursor, request: PageRequest
    ) -> None:
        self._root = root
        self._answers = answers
        self._known = known
        self._before = before
        self._request = request

    async def find_whole(self) -> str | None:
        """Return why the whole site is hidden, if the root and its former links all return one page; else None."""
        # Find the current target of the root with all its URLs, and the page that the root led to in the last walk.
        url, arrived = self._root, {_bare(self._root)}
        answer = self._answers.get(url)
        while isinstance(answer, Moved) and _bare(answer.to) not in arrived and len(arrived) <= MOST_HOPS:
            url = answer.to
            arrived.add(_bare(url))
            answer = self._answers.get(url)
        if isinstance(answer, Moved) and _bare(answer.to) not in arrived:
            answer = None
        entry = self._root
        for _ in range(MOST_HOPS):
            bridge = self._before.bridges.get(entry)
            if bridge is None or bridge.to is None:
                break
            entry = bridge.to
        stored = (await self._known.look_up([entry])).get(entry)
        if stored is None or answer is None or isinstance(answer, Same):
            return None
        # Select some stored pages that the root linked to; none if it still links to one of them.
        links = [link for link in stored.links if canonical(link) != canonical(stored.url)][:LINKS]
        linked = await self._known.look_up(links) if links else {}
        now = {canonical(link) for link in answer.document.links} if isinstance(answer, FetchedPage) else set()
        behind = [] if any(canonical(url) in now for url in linked) else list(linked)[:PROBES]
        if len(behind) < LEAST - 1:
            return None
        urls = [url for url in behind if url not in self._answers]
        others = await together(*(self._request(url, 1, self._before.studied) for url in urls))
        self._answers.update(zip(urls, others, strict=True))
        mark = mark_of(answer.document) if isinstance(answer, FetchedPage) else None
        for other in (self._answers[url] for url in behind):
            if isinstance(other, Moved):
                is_alike = _bare(other.to) in arrived
            else:
                is_alike = isinstance(other, FetchedPage) and mark_of(other.document) == mark
            if not is_alike:
                return None
        return (
            f"{redact(self._root)} and pages that it linked to, such as {redact(behind[0])}, all answer with one page"
            f" now: {PERHAPS}"
        )

    async def find_shared_mark(self, pages: int) -> PageMark | None:
        """Return the mark that at least half of the first pages share although their stored texts differ; else None."""
        changed = {url: answer for url, answer in self._answers.items() if isinstance(answer, FetchedPage)}
        stored = await self._known.look_up(list(changed)) if len(changed) >= LEAST else {}
        texts: defaultdict[Hash, set[Hash | None]] = defaultdict(set)
        for url, page in changed.items():
            if url in stored:
                before = stored[url].content_hash
                if before != self._before.boilerplate.strip(page.document).content_hash:
                    texts[mark_of(page.document)].add(before)
        for mark, replaced in texts.items():
            if len(replaced) >= LEAST and 2 * len(replaced) >= pages:
                return mark
        return None


async def hides(mark: PageMark, links: Sequence[str], known: Known, request: PageRequest) -> bool:
    """Request some stored pages among `links`; return whether enough were requested and all have the mark `mark`."""
    stored = await known.look_up(list(dict.fromkeys(links))[:LINKS]) if links else {}
    answers = await together(*(request(url, 1, True) for url in list(stored)[:PROBES]))

    def has_mark(answer: Answer) -> bool:
        match answer:
            case FetchedPage(document):
                return mark_of(document) == mark
            case Moved(to):
                return isinstance(mark, str) and _bare(to) == _bare(mark)
        return False

    return len(answers) >= LEAST - 1 and all(map(has_mark, answers))


def _bare(url: str) -> str:
    """Return a URL without query and fragment, in which a portal may record the requested page."""
    return url.partition("#")[0].partition("?")[0]
