"""Before a walk: whether something stands in front of a site, told by the root and what it led to."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from rowen.concurrency import together
from rowen.connectors.base import Held, Known
from rowen.connectors.web.interstitial import LEAST, PERHAPS, PageMark, mark_of
from rowen.connectors.web.memory import SiteCursor
from rowen.connectors.web.study import MOST_HOPS, Ask
from rowen.connectors.web.visit import Answer, FetchedPage, Moved, Same
from rowen.model.hashes import Hash
from rowen.model.url import canonical
from rowen.net.target import redact

__all__ = ["Front", "hides"]

PROBES = 3
"""With the root, four pages that say the same. Twice as many would cost more and tell no more; fewer may be chance."""

LINKS = 128
"""So many links of the root are looked up to find pages that we hold: as many as a walk looks up at a time."""


class Front:
    """The first answers of a site compared with what we hold of it."""

    def __init__(self, root: str, answers: dict[str, Answer], known: Known, *, before: SiteCursor, look: Ask) -> None:
        self._root = root
        self._answers = answers
        self._known = known
        self._before = before
        self._look = look

    async def whole(self) -> str | None:
        """Why all of the site is hidden: the root changed, leads to nothing that it led to, and that answers alike."""
        arrived, answer = self._arrival()
        entry = self._entry()
        held = (await self._known.look_up([entry])).get(entry)
        if held is None or answer is None or isinstance(answer, Same):
            return None
        behind = await self._behind(held, answer)
        if len(behind) < LEAST - 1:
            return None
        others = await together(*(self._ask(url) for url in behind))
        if not all(self._is_alike(arrived, answer, other) for other in others):
            return None
        return (
            f"{redact(self._root)} and pages that it led to, such as {redact(behind[0])}, all answer with one page now:"
            f" {PERHAPS}"
        )

    async def shared_by(self, pages: int) -> PageMark | None:
        """What at least half of the first pages now say, all of which said something else of their own.

        Fewer cannot hide the boilerplate of the site, which six in ten have to share.
        """
        changed = {url: answer for url, answer in self._answers.items() if isinstance(answer, FetchedPage)}
        held = await self._known.look_up(list(changed)) if len(changed) >= LEAST else {}
        texts: defaultdict[Hash, set[Hash | None]] = defaultdict(set)
        for url, page in changed.items():
            if url in held and held[url].content_hash != self._before.boilerplate.strip(page.document).content_hash:
                texts[mark_of(page.document)].add(held[url].content_hash)
        for mark, replaced in texts.items():
            if len(replaced) >= LEAST and 2 * len(replaced) >= pages:
                return mark
        return None

    def _arrival(self) -> tuple[set[str], Answer | None]:
        """Where the root leads now, by all its names, and what answers there."""
        url, names = self._root, set[str]()
        for _ in range(MOST_HOPS + 1):
            names.add(_bare(url))
            answer = self._answers.get(url)
            if not isinstance(answer, Moved) or _bare(answer.to) in names:
                return names, answer
            url = answer.to
        return names, None

    def _entry(self) -> str:
        """The page that the root was, or led to, in the last walk."""
        url = self._root
        for _ in range(MOST_HOPS):
            bridge = self._before.bridges.get(url)
            if bridge is None or bridge.to is None:
                break
            url = bridge.to
        return url

    async def _behind(self, held: Held, answer: Answer) -> list[str]:
        """Some pages that we hold and the root led to; none if it still leads to one of them."""
        links = [link for link in held.links if canonical(link) != canonical(held.url)][:LINKS]
        found: Mapping[str, Held] = await self._known.look_up(links) if links else {}
        now = {canonical(link) for link in answer.document.links} if isinstance(answer, FetchedPage) else set()
        return [] if any(canonical(url) in now for url in found) else list(found)[:PROBES]

    async def _ask(self, url: str) -> Answer:
        if url not in self._answers:
            self._answers[url] = await self._look(url, 1, self._before.studied)
        return self._answers[url]

    def _is_alike(self, arrived: set[str], answer: Answer, other: Answer) -> bool:
        if isinstance(other, Moved):
            return _bare(other.to) in arrived
        if not (isinstance(answer, FetchedPage) and isinstance(other, FetchedPage)):
            return False
        return mark_of(answer.document) == mark_of(other.document)


async def hides(mark: PageMark, links: Sequence[str], known: Known, look: Ask) -> bool:
    """Whether pages that we hold, and that pages with a mark led to, have this mark themselves now."""
    found = await known.look_up(list(dict.fromkeys(links))[:LINKS]) if links else {}
    answers = await together(*(look(url, 1, True) for url in list(found)[:PROBES]))
    return len(answers) >= LEAST - 1 and all(_has(mark, answer) for answer in answers)


def _has(mark: PageMark, answer: Answer) -> bool:
    match answer:
        case FetchedPage(document):
            return mark_of(document) == mark
        case Moved(to):
            return isinstance(mark, str) and _bare(to) == _bare(mark)
    return False


def _bare(url: str) -> str:
    """An address without what a portal notes in it: where somebody wanted to go."""
    return url.partition("#")[0].partition("?")[0]
