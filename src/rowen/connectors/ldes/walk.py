"""One run over a stream: requests every page that may have new members, and decides which versions are stored.

The checkpoint after the last member of a page marks the page as read. So either the members and this mark are stored
in one transaction, or the page is read again.
"""

import asyncio
import hashlib
import heapq
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple

from rowen.concurrency import end
from rowen.connectors.base import Known, StoredState, Tools, is_unread, unread_url
from rowen.connectors.ldes.client import LdesOptions, StreamClient, body_of
from rowen.connectors.ldes.cursor import CONTEXTS, DELETED, Frontier, FrontierPage, LdesCursor
from rowen.connectors.ldes.members import StreamMember
from rowen.connectors.ldes.page import PageAnswer, StreamBody, read_page
from rowen.connectors.ldes.rdf import microseconds, moment_of
from rowen.errors import FetchError, ItemError, SourceError, SourceGoneError
from rowen.model.dates import in_utc
from rowen.model.items import (
    Checkpoint,
    Complete,
    Document,
    Failed,
    Fetched,
    Gone,
    Incomplete,
    NoteName,
    Observation,
    Unchanged,
    Validators,
)
from rowen.net.response import Response
from rowen.net.target import redact

# Parallel requests: the next pages arrive while one is parsed. More do not speed up two parsing processes; the pace
# of the host limits all of them.
AHEAD = 4
# Maximum number of members that wait to be sorted by time, at 2 kB each; with bounds, a few pages of them wait.
MOST_WAITING = 200_000
# Objects whose latest version is kept in memory until the database has it; a run has a few groups of 500 in progress.
MOST_RECENT = 20_000
# Fetched parts may lack parts of their own; a decision, its article and its legal ground need three rounds.
_MOST_ROUNDS = 5
_WITHOUT_TIME = -1  # members without a time come before all others
_NO_NUMBER = bytes(8)


class Decision(NamedTuple):
    """The observations and notes of some members; `fresh` counts new versions, `latest` is their latest time."""

    observations: list[Observation]
    notes: dict[NoteName, Any]
    fresh: int
    latest: int | None


class Versions:
    """Decides which members are later versions than the stored versions; members may come in any order.

    Each version has a place: 32 bytes that sort chronologically. It consists of the time, the sequence number and the
    hash of the name, so that two versions with the same time have a stable order. The place of the stored version is
    stored as the body hash of its item.
    """

    def __init__(self, known: Known, *, by_object: bool, language: str | None) -> None:
        self._known = known
        self._by_object = by_object
        self._language = language
        self._recent: OrderedDict[str, bytes] = OrderedDict()

    async def decide(self, members: Sequence[StreamMember]) -> Decision:
        """Return the observations of these members, in order."""
        named = [(self.url(member), member) for member in members]
        urls = list(dict(named))
        stored = await self._known.look_up(urls)
        deleted = await self._known.recall(DELETED, urls) if self._by_object else {}
        observations: list[Observation] = []
        notes: dict[NoteName, Any] = {}
        fresh, latest = 0, None
        for url, member in named:
            place, before = _place(member), stored.get(url)
            if not self._is_later(url, place, before, deleted):
                is_stored = before is not None and before.body_hash == place and url not in self._recent
                if place.hex() > deleted.get(url, "") and is_stored:
                    observations.append(Unchanged(url))
                continue
            fresh += 1
            if member.time is not None and (latest is None or member.time > latest):
                latest = member.time
            self._recent[url] = place
            self._recent.move_to_end(url)
            if len(self._recent) > MOST_RECENT:
                self._recent.popitem(last=False)
            if member.deletes and self._by_object:
                notes[DELETED, url] = place.hex()
                # Yield this even if nothing is stored yet, since an earlier version may not be written yet.
                observations.append(Gone(url, "The stream lists it as deleted."))
                continue
            at = moment_of(member.time) if member.time is not None else None
            document = Document(
                url,
                member.title,
                member.text,
                tags=member.tags,
                record={"member": member.name, "version_of": member.version_of, "time": at, "rdf": member.tree},
                language=self._language,
                validators=Validators(body_hash=place),
            )
            observations.append(Fetched(document))
        return Decision(observations, notes, fresh, latest)

    def url(self, member: StreamMember) -> str:
        """Return the URL of a member's item; a fragment becomes a route, since it distinguishes nodes."""
        name = member.version_of if self._by_object and member.version_of else member.name
        head, mark, fragment = name.partition("#")
        return name if not mark or fragment.startswith(("/", "!")) else f"{head}#/{fragment}"

    def _is_later(self, url: str, place: bytes, stored: StoredState | None, deleted: Mapping[str, Any]) -> bool:
        last = self._recent.get(url, b"")
        if url in deleted:
            last = max(last, bytes.fromhex(deleted[url]))
        if stored is not None and stored.body_hash is not None:
            # A full run reads the stored version again, but still skips older versions.
            is_read_anew = self._known.mode == "full" and stored.body_hash == place and url not in self._recent
            return place > last and (place > stored.body_hash or is_read_anew)
        return place > last


def _place(member: StreamMember) -> bytes:
    time = member.version_time if member.version_time is not None else member.time
    sequence = member.version_sequence or member.sequence
    name = hashlib.sha256(member.name.encode("utf-8", "surrogatepass")).digest()[:16]
    begin = time.to_bytes(8) if time is not None and time > 0 else _NO_NUMBER
    return begin + (sequence.to_bytes(8) if sequence else _NO_NUMBER) + name


class _Visit(NamedTuple):
    """The result of a request: an answer, an unchanged page, a gone page, or the reason why reading failed."""

    page: FrontierPage
    answer: PageAnswer | None = None
    response: Response | None = None
    is_gone: bool = False
    why: str | None = None


class LdesWalk:
    """One run. The root and the description of the stream come from the cursor, or are determined first."""

    def __init__(self, url: str, options: LdesOptions, tools: Tools, *, known: Known, client: StreamClient) -> None:
        self._url = url
        self._options = options
        self._tools = tools
        self._known = known
        self._client = client
        window = [in_utc(at) if at else None for at in (options.after, options.before)]
        self._window = [at.isoformat() if at else None for at in window]
        self._after, self._before = (microseconds(at) if at else None for at in window)
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
        """Yield the observations of all new members, and a checkpoint after each page."""
        memory = self._memory = await self._load()
        by_object = self._options.versions == "latest" and memory.stream.is_versioned
        self._by_object = by_object
        self._versions = Versions(self._known, by_object=by_object, language=self._options.language)
        self._frontier = Frontier(self._known, is_complete=memory.complete, newest_first=self._newest_first)
        await self._frontier.load(memory.root)
        # False until the end of this run: members of a page may be stored before the pages behind it are requested.
        memory.complete = False
        async with aclosing(self._visits()) as visits:
            async for visit in visits:
                for observation in await self._take(visit):
                    yield observation
        for observation in await self._emit(self._in_order(None)):
            yield observation
        if self._open:
            self._trouble = self._trouble or f"{len(self._open)} transactions of {redact(self._url)} are not over yet."
        complete = self._trouble is None
        for failed in self._known.failed if complete else ():
            # Such URLs stand for pages, and all pages were read now.
            if is_unread(failed.url):
                yield Gone(failed.url, "The page was read.")
        memory.complete = complete
        if memory.to_cursor() != self._known.cursor or self._client.fresh:
            yield self._checkpoint({})
        yield Complete(keeps_unseen=True) if complete else Incomplete(self._trouble or "")

    async def _load(self) -> LdesCursor:
        """Return the stored cursor, or a new cursor for the root of the stream."""
        memory = LdesCursor.of(self._known.cursor)
        shape = await self._client.shape_in_file()
        if memory is None:
            root = await self._client.enter(shape=shape)
            self._first = root.page, root.response
            return LdesCursor(root.page, root.stream, self._window)
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
            self._client.contexts.update(batch)
        return memory

    async def _visits(self) -> AsyncGenerator[_Visit]:
        """Request pages, a few in parallel; yield the results in the order of the requests."""
        under_way: deque[tuple[FrontierPage, asyncio.Task[_Visit]]] = deque()
        try:
            while True:
                while len(under_way) < AHEAD and (page := self._frontier.pop()) is not None:
                    under_way.append((page, asyncio.create_task(self._visit(page))))
                if not under_way:
                    return
                page, task = under_way.popleft()
                visit = await task
                self._rank = min((page.rank for page, _ in under_way), default=None)
                yield visit
        finally:
            await end(task for _, task in under_way)

    async def _visit(self, page: FrontierPage) -> _Visit:
        try:
            if self._first and self._first[0] == page.url:
                (_, response), self._first = self._first, None
            else:
                note = page.note
                response = await self._client.get(page.url, etag=note.etag, last_modified=note.last_modified)
            if response.not_modified:
                return _Visit(page)
            if response.status == 410:
                return _Visit(page, is_gone=True)
            if not response.ok:
                return _Visit(page, why=f"{redact(page.url)} answered with status {response.status}.")
            return _Visit(page, await self._read(page, response), response)
        except (FetchError, SourceError, ItemError) as problem:
            return _Visit(page, why=str(problem))

    async def _read(self, page: FrontierPage, response: Response) -> PageAnswer:
        """Read a page, and fetch missing parts of its members from other documents."""
        body = body_of(response)
        contexts = dict(await self._client.with_contexts(body))
        stream, language = self._memory.stream, self._options.language
        more: list[StreamBody] = []
        answer = await self._tools.parse(read_page, body, page.url, stream, contexts, language, self._by_object)
        requested: set[str] = set()
        for _ in range(_MOST_ROUNDS):
            documents: list[StreamBody] = []
            for url in answer.wanted:
                own = url.partition("#")[0]
                if own in requested:
                    continue
                requested.add(own)
                try:
                    documents.append(await self._client.document(own))
                except (FetchError, SourceError):
                    continue  # without this document, the member has only the parts in its page
            if not documents:
                break
            for document in documents:
                contexts.update(await self._client.with_contexts(document))
            more += documents
            answer = await self._tools.parse(
                read_page, body, page.url, stream, contexts, language, self._by_object, more
            )
        return answer

    async def _take(self, visit: _Visit) -> list[Observation]:
        """Return the observations of a visit, as a list, since passing single members through generators is slow."""
        page, is_first = visit.page, visit.page.url == self._memory.root and not self._memory.pages
        observations: list[Observation] = []
        if visit.why is not None:
            if is_first:
                raise SourceError(visit.why)
            self._trouble = self._trouble or f"A page cannot be read: {visit.why}"
            self._frontier.release(page.url)
            url = unread_url(self._url, "page", page.url)
            observations.append(Failed(url, visit.why, hint="The next run requests it again."))
        elif visit.is_gone:
            if is_first:
                raise SourceGoneError(f"{redact(page.url)} is gone (status 410). Its stored items are kept.")
            self._frontier.release(page.url)
            observations.append(self._checkpoint(self._frontier.finished(page, closed=True)))
        elif visit.answer is not None and visit.response is not None:
            await self._take_page(page, visit.answer, visit.response)
        bound = None
        if self._is_ordered:
            # No later member can come before the lowest rank of the pages that were not read.
            ranks = [rank for rank in (self._rank, self._frontier.rank) if rank is not None]
            bound = min(ranks, default=None)
        return observations + await self._emit(self._in_order(bound))

    async def _take_page(self, page: FrontierPage, answer: PageAnswer, response: Response) -> None:
        after, before = self._after, self._before
        # Keep only pages that may have members within the window.
        relations = [
            relation
            for relation in answer.relations
            if relation.url != page.url
            and (after is None or relation.high is None or relation.high >= after)
            and (before is None or relation.low is None or relation.low <= before)
        ]
        notes: dict[NoteName, Any] = dict(await self._frontier.discover(page, relations))
        if response.redirects and response.url != page.url:
            self._frontier.meet(response.url)
        # After a redirect, the validators belong to another page.
        etag, last_modified = (None, None) if response.redirects else (response.etag, response.last_modified)
        page.note = replace(page.note, etag=etag, last_modified=last_modified)
        cache_control = response.headers.get("Cache-Control", "").lower()
        closed = answer.immutable or "immutable" in {word.strip() for word in cache_control.split(",")}
        self._memory.pages += page.before is None
        # A member without a time is left out if there is a window.
        members = [
            member
            for member in answer.members
            if (after is None and before is None)
            or (
                member.time is not None
                and (after is None or member.time > after)
                and (before is None or member.time < before)
            )
        ]
        page.left = len(members)
        page.finished = {**notes, **self._frontier.finished(page, closed=closed)}
        if answer.broken:
            self._trouble = self._trouble or f"{redact(page.url)} has {answer.broken} members that are no IRIs."
        if self._is_ordered or not members:
            # Ordered members have to wait for the pages behind this page.
            self._frontier.release(page.url)
        for member in members:
            self._queue(member, page)
        self._finished.append(page)

    def _queue(self, member: StreamMember, page: FrontierPage) -> None:
        """Queue a member; the members of a transaction wait until the transaction is complete."""
        if member.transaction is None:
            self._push(member, page)
            return
        several = self._open.setdefault(member.transaction, [])
        several.append((member, page))
        if member.is_final:
            # Other members of the transaction may come later, if pages are unordered or the newest members come first.
            self._over[member.transaction] = None
            if len(self._over) > MOST_WAITING:
                del self._over[next(iter(self._over))]
        elif member.transaction not in self._over:
            return
        del self._open[member.transaction]
        for waiting in several:
            self._push(*waiting)

    def _push(self, member: StreamMember, page: FrontierPage) -> None:
        if not self._is_ordered:
            self._ready.append((member, page))
            return
        way = -1 if self._newest_first else 1
        time = member.time if member.time is not None else _WITHOUT_TIME
        entry = way * time, way * member.sequence, way * member.is_final, next(self._numbers), member, page
        heapq.heappush(self._heap, entry)
        if len(self._heap) > MOST_WAITING:
            raise SourceError(
                f"The pages of {redact(self._url)} have no bounds of time, so that more than {MOST_WAITING:,} members "
                "would have to be kept in memory to put them in order.",
                hint="Set order=fast.",
            )

    def _in_order(self, bound: int | None) -> list[tuple[StreamMember, FrontierPage]]:
        """Return the queued members before the rank `bound`, or all if it is None, in their order."""
        ready, self._ready = self._ready, []
        while self._heap and (bound is None or self._heap[0][0] < bound):
            *_, member, page = heapq.heappop(self._heap)
            ready.append((member, page))
        return ready

    async def _emit(self, ready: Sequence[tuple[StreamMember, FrontierPage]]) -> list[Observation]:
        """Return the observations of members, and a checkpoint if these were the last members of a page."""
        observations: list[Observation] = []
        notes: dict[NoteName, Any] = {}
        if ready:
            decision = await self._versions.decide([member for member, _ in ready])
            observations += decision.observations
            notes |= decision.notes
            self._memory.members += decision.fresh
            if decision.latest is not None:
                latest = moment_of(decision.latest)
                self._memory.last_member_at = max(self._memory.last_member_at or "", latest)
            for page, handed_on in Counter(page for _, page in ready).items():
                page.left -= handed_on
                if decision.fresh:
                    self._frontier.release(page.url)
        for page in [page for page in self._finished if page.left == 0 and page.finished is not None]:
            self._finished.remove(page)
            notes |= page.finished or {}
        if notes:
            observations.append(self._checkpoint(notes))
        return observations

    def _checkpoint(self, notes: dict[NoteName, Any]) -> Checkpoint:
        fresh, self._client.fresh = self._client.fresh, {}
        self._memory.contexts.update((url, note["sha256"]) for url, note in fresh.items())
        contexts: dict[NoteName, Any] = {(CONTEXTS, url): note for url, note in fresh.items()}
        return Checkpoint(self._memory.to_cursor(), notes={**notes, **contexts})
