"""One run over a stream: every page that may have news is asked for, and members are handed on.

A page is noted as read in the checkpoint that follows its last member, so that members and page are one transaction,
or the page is read again.
"""

import asyncio
import heapq
from collections import Counter, deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

from rowen.connectors.base import Known, Tools, is_unread, unread_url
from rowen.connectors.ldes.client import StreamClient, body_of
from rowen.connectors.ldes.cursor import CONTEXTS, LdesCursor
from rowen.connectors.ldes.entry import enter, shape_in_file
from rowen.connectors.ldes.frontier import Frontier, FrontierPage
from rowen.connectors.ldes.members import StreamMember
from rowen.connectors.ldes.options import LdesOptions
from rowen.connectors.ldes.page import PageAnswer, Relation, StreamBody, read_page
from rowen.connectors.ldes.times import microseconds, moment_of
from rowen.connectors.ldes.versions import Versions
from rowen.errors import FetchError, ItemError, SourceError, SourceGoneError
from rowen.model.dates import in_utc
from rowen.model.items import Checkpoint, Complete, Failed, Gone, Incomplete, NoteName, Observation
from rowen.net.response import Response
from rowen.net.target import redact

__all__ = ["LdesWalk"]

AHEAD = 4
"""Pages that are asked for at a time: the next ones come in while one is read. More do not speed up two processes that
parse; the pace of the host holds for all of them."""

MOST_HELD = 200_000
"""Members that wait for their turn in the order of time, at 2 kB each; where pages tell their times, a few pages do."""

_MOST_ROUNDS = (
    5  # parts that are fetched may lack parts of their own; a decision, its article, its legal ground are three
)
_WITHOUT_TIME = -1  # before all times: members of which none is told
_GONE = 410


class _Visit(NamedTuple):
    """What became of asking for a page: an answer, or that it is the same, gone, or not to be had (`why`)."""

    page: FrontierPage
    answer: PageAnswer | None = None
    response: Response | None = None
    is_gone: bool = False
    why: str | None = None


class LdesWalk:
    """One run. `root` and the description of the stream are remembered, or found out first."""

    def __init__(self, url: str, options: LdesOptions, tools: Tools, *, known: Known, client: StreamClient) -> None:
        self._url = url
        self._options = options
        self._tools = tools
        self._known = known
        self._client = client
        window = [in_utc(at) if at else None for at in (options.after, options.before)]
        self._window = [at.isoformat() if at else None for at in window]
        self._bounds = [microseconds(at) if at else None for at in window]
        self._is_ordered = options.order != "fast"
        self._newest_first = options.order == "descending"
        self._rank: int | None = None
        self._trouble: str | None = None
        self._first: tuple[str, Response] | None = None
        self._heap: list[tuple[int, int, int, int, StreamMember, FrontierPage]] = []
        self._ready: list[tuple[StreamMember, FrontierPage]] = []
        self._numbers = count()
        self._open: dict[str, list[tuple[StreamMember, FrontierPage]]] = {}
        self._over: dict[str, None] = {}
        self._finished: deque[FrontierPage] = deque()

    async def observations(self) -> AsyncGenerator[Observation]:
        """All that is new, and a checkpoint after each page."""
        memory = self._memory = await self._remembered()
        by_object = self._options.versions == "latest" and memory.stream.is_versioned
        self._by_object = by_object
        self._versions = Versions(self._known, by_object=by_object, language=self._options.language)
        self._frontier = Frontier(self._known, is_complete=memory.complete, newest_first=self._newest_first)
        await self._frontier.load(memory.root)
        # Until this run has come to its end: news of one page may be stored, and the pages behind it not be asked for.
        memory.complete = False
        async with aclosing(self._visits()) as visits:
            async for visit in visits:
                for seen in await self._take(visit):
                    yield seen
        for seen in await self._emit(self._in_order(None)):
            yield seen
        if self._open:
            self._trouble = self._trouble or f"{len(self._open)} transactions of {redact(self._url)} are not over yet."
        complete = self._trouble is None
        for failed in self._known.failed if complete else ():
            # What is kept under such a name is a page, which was read now.
            if is_unread(failed.url):
                yield Gone(failed.url, "The page was read.")
        memory.complete = complete
        if memory.to_cursor() != self._known.cursor or self._client.fresh:
            yield self._checkpoint({})
        yield Complete(keeps_unseen=True) if complete else Incomplete(self._trouble or "")

    async def _remembered(self) -> LdesCursor:
        memory = LdesCursor.of(self._known.cursor)
        shape = await shape_in_file(self._options, self._tools, self._client)
        if memory is None:
            entered = await enter(self._url, self._options, self._tools, self._client, shape=shape)
            self._first = entered.root, entered.response
            return LdesCursor(entered.root, entered.stream, self._window)
        if memory.window != self._window:
            raise SourceError(
                f"The window of {redact(self._url)} (after, before) was {memory.window} and is now {self._window}: "
                "members of both would be mixed. Nothing was read.",
                hint="Set the options back, or sync in full to begin anew.",
            )
        if shape is not None and shape != memory.stream.shape:
            raise SourceError(
                f"The shape in {self._options.shape_file} is another one than {redact(self._url)} was read with: "
                "members of both would be mixed. Nothing was read.",
                hint="Sync in full to begin anew.",
            )
        async for batch in self._known.recall_all(CONTEXTS):
            self._client.remember(batch)
        return memory

    async def _visits(self) -> AsyncGenerator[_Visit]:
        """Ask for pages, some at a time; their answers come in the order in which they were asked for."""
        asked: deque[tuple[FrontierPage, asyncio.Task[_Visit]]] = deque()
        try:
            while True:
                while len(asked) < AHEAD and (page := self._frontier.pop()) is not None:
                    asked.append((page, asyncio.create_task(self._visit(page))))
                if not asked:
                    return
                page, task = asked.popleft()
                visit = await task
                self._rank = min((one.rank for one, _ in asked), default=None)
                yield visit
        finally:
            for _, task in asked:
                task.cancel()
            await asyncio.gather(*(task for _, task in asked), return_exceptions=True)

    async def _visit(self, page: FrontierPage) -> _Visit:
        try:
            response = await self._ask(page)
            if response.not_modified:
                return _Visit(page)
            if response.status == _GONE:
                return _Visit(page, is_gone=True)
            if not response.ok:
                return _Visit(page, why=f"{redact(page.url)} answered with status {response.status}.")
            return _Visit(page, await self._read(page, response), response)
        except (FetchError, SourceError, ItemError) as problem:
            return _Visit(page, why=str(problem))

    async def _ask(self, page: FrontierPage) -> Response:
        first, self._first = (self._first, None) if self._first and self._first[0] == page.url else (None, self._first)
        if first is not None:
            return first[1]
        return await self._client.get(page.url, etag=page.note.etag, last_modified=page.note.last_modified)

    async def _read(self, page: FrontierPage, response: Response) -> PageAnswer:
        """What a page says, with what of its members lies elsewhere."""
        given = body_of(response)
        contexts = dict(await self._client.with_contexts(given))
        stream, language = self._memory.stream, self._options.language
        answer = await self._tools.parse(read_page, given, page.url, stream, contexts, language, self._by_object)
        more: list[StreamBody] = []
        asked: set[str] = set()
        for _ in range(_MOST_ROUNDS):
            wanted = [url for url in answer.wanted if url.partition("#")[0] not in asked]
            found = [document for url in wanted if (document := await self._elsewhere(url, asked)) is not None]
            if not found:
                break
            for document in found:
                contexts.update(await self._client.with_contexts(document))
            more += found
            answer = await self._tools.parse(
                read_page, given, page.url, stream, contexts, language, self._by_object, more
            )
        return answer

    async def _elsewhere(self, url: str, asked: set[str]) -> StreamBody | None:
        """A document that a part of a member is in, once; where there is none, the member is what its page says."""
        own = url.partition("#")[0]
        if own in asked:
            return None
        asked.add(own)
        try:
            return await self._client.document(own)
        except (FetchError, SourceError):
            return None

    async def _take(self, visit: _Visit) -> list[Observation]:
        """What a visit gave; a list, since handing single members from generator to generator is dear."""
        page, is_first = visit.page, visit.page.url == self._memory.root and not self._memory.pages
        seen: list[Observation] = []
        if visit.why is not None:
            if is_first:
                raise SourceError(visit.why)
            self._trouble = self._trouble or f"A page cannot be read: {visit.why}"
            self._frontier.release(page.url)
            url = unread_url(self._url, "page", page.url)
            seen.append(Failed(url, visit.why, hint="The next run asks for it again."))
        elif visit.is_gone:
            if is_first:
                raise SourceGoneError(f"{redact(page.url)} is gone (status 410). What it showed before is kept.")
            self._frontier.release(page.url)
            seen.append(self._checkpoint(self._frontier.finished(page, closed=True)))
        elif visit.answer is not None and visit.response is not None:
            await self._take_page(page, visit.answer, visit.response)
        return seen + await self._emit(self._in_order(self._bound() if self._is_ordered else None))

    def _bound(self) -> int | None:
        """Until which rank nothing can come any more: that of the first page which is not read."""
        ranks = [rank for rank in (self._rank, self._frontier.rank) if rank is not None]
        return min(ranks, default=None)

    async def _take_page(self, page: FrontierPage, answer: PageAnswer, response: Response) -> None:
        relations = [one for one in answer.relations if one.url != page.url and self._may_have(one)]
        notes: dict[NoteName, Any] = dict(await self._frontier.discover(page, relations))
        if response.redirects and response.url != page.url:
            self._frontier.meet(response.url)
        is_own = not response.redirects
        page.note = replace(
            page.note,
            etag=response.etag if is_own else None,
            last_modified=response.last_modified if is_own else None,
        )
        closed = answer.immutable or _is_immutable(response)
        self._memory.pages += page.before is None
        members = [member for member in answer.members if self._is_wanted(member)]
        page.left = len(members)
        page.finished = {**notes, **self._frontier.finished(page, closed=closed)}
        if answer.broken:
            self._trouble = self._trouble or f"{redact(page.url)} has {answer.broken} members that are no IRIs."
        if self._is_ordered or not members:
            # In an order the pages behind it have to be waited for before its members are handed on.
            self._frontier.release(page.url)
        for member in members:
            self._queue(member, page)
        self._finished.append(page)

    def _queue(self, member: StreamMember, page: FrontierPage) -> None:
        """Let a member wait for its turn; those of a transaction wait until that is over."""
        if member.transaction is not None:
            several = self._open.setdefault(member.transaction, [])
            several.append((member, page))
            if member.is_final:
                # Its other members may come later: the newest ones come first, or pages in no order.
                self._over[member.transaction] = None
                if len(self._over) > MOST_HELD:
                    del self._over[next(iter(self._over))]
            elif member.transaction not in self._over:
                return
            del self._open[member.transaction]
            for one, its_page in several:
                self._push(one, its_page)
            return
        self._push(member, page)

    def _push(self, member: StreamMember, page: FrontierPage) -> None:
        if not self._is_ordered:
            self._ready.append((member, page))
            return
        way = -1 if self._newest_first else 1
        time = member.time if member.time is not None else _WITHOUT_TIME
        entry = way * time, way * member.sequence, way * member.is_final, next(self._numbers), member, page
        heapq.heappush(self._heap, entry)
        if len(self._heap) > MOST_HELD:
            raise SourceError(
                f"{redact(self._url)} does not tell the times of its pages, so that more than {MOST_HELD:,} members "
                "would have to be held to put them in order.",
                hint="Set order=fast.",
            )

    def _in_order(self, bound: int | None) -> list[tuple[StreamMember, FrontierPage]]:
        """The members whose turn it is: those before a time, or all."""
        ready, self._ready = self._ready, []
        while self._heap and (bound is None or self._heap[0][0] < bound):
            *_, member, page = heapq.heappop(self._heap)
            ready.append((member, page))
        return ready

    async def _emit(self, ready: Sequence[tuple[StreamMember, FrontierPage]]) -> list[Observation]:
        """Hand members on; pages whose last one went are finished."""
        seen: list[Observation] = []
        notes: dict[NoteName, Any] = {}
        if ready:
            decision = await self._versions.decide([member for member, _ in ready])
            seen += decision.observations
            notes |= decision.notes
            self._memory.members += decision.fresh
            if decision.latest is not None:
                latest = moment_of(decision.latest)
                self._memory.last_member_at = max(self._memory.last_member_at or "", latest)
            for page, handed_on in Counter(page for _, page in ready).items():
                page.left -= handed_on
                if decision.fresh:
                    self._frontier.release(page.url)
        is_moved = bool(notes)
        for page in [one for one in self._finished if one.left == 0 and one.finished is not None]:
            self._finished.remove(page)
            notes |= page.finished or {}
        if notes or is_moved:
            seen.append(self._checkpoint(notes))
        return seen

    def _checkpoint(self, notes: dict[NoteName, Any]) -> Checkpoint:
        fresh, self._client.fresh = self._client.fresh, {}
        self._memory.contexts.update((url, note["sha256"]) for url, note in fresh.items())
        told: dict[NoteName, Any] = {(CONTEXTS, url): note for url, note in fresh.items()}
        return Checkpoint(self._memory.to_cursor(), notes={**notes, **told})

    def _is_wanted(self, member: StreamMember) -> bool:
        """Whether a member is within the window; one without a time is only if there is none."""
        after, before = self._bounds
        if after is None and before is None:
            return True
        time = member.time
        return time is not None and (after is None or time > after) and (before is None or time < before)

    def _may_have(self, relation: Relation) -> bool:
        """Whether a page may hold members within the window."""
        after, before = self._bounds
        is_early = after is not None and relation.high is not None and relation.high < after
        is_late = before is not None and relation.low is not None and relation.low > before
        return not (is_early or is_late)


def _is_immutable(response: Response) -> bool:
    told = response.headers.get("Cache-Control", "").lower()
    return "immutable" in {word.strip() for word in told.split(",")}
