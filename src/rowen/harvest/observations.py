"""Observations on their way into one transaction.

A narrow selected: some items of a source are looked at again, and nothing else is asked, concluded or deleted.

Only items that we hold take part. What is new is found by a selected at the whole source, which alone tells whether a
rebuild would have it: whether a page is linked, a record listed, a file chosen.


The first documents of a source, for somebody who only looks.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from rowen.connectors.base import Connector, LooksAgain
from rowen.errors import Hint, ItemError, SourceError, UsageError, action
from rowen.harvest.known import StoredKnown
from rowen.model.caps import LONGEST_URL
from rowen.model.hashes import Hash
from rowen.model.item import (
    Checkpoint,
    Complete,
    Document,
    Failed,
    Fetched,
    Gone,
    Incomplete,
    Observation,
    Raw,
    Skipped,
    Unchanged,
)
from rowen.model.source import Source
from rowen.model.url import key
from rowen.model.url import key as key_of

__all__ = ["Group", "first_documents", "observed_url", "refuse_unable", "selected"]

# A transaction of 500 items takes 100 to 200 ms, in which its fixed cost hardly counts; a crash repeats no more.
MAX_ITEMS = 500
# A few groups are on their way at a time, each held as bodies, documents and parameters: some tens of megabytes.
MAX_BYTES = 4 * 1024 * 1024
# What is unchanged costs its URL in memory and nothing to write; a group goes on for the sake of progress alone.
MAX_UNCHANGED = 10_000


@dataclass(slots=True)
class Group:
    """At most 500 items or 4 MB that have to be looked into; what is unchanged weighs almost nothing.

    Of those that are `unchanged`, `same_bodies` were received all the same.

    Of what is said of an item to be gone and to be there, the last word counts, as it does from group to group.
    """

    fetched: list[Document | Raw] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    same_bodies: int = 0
    rechecked: list[Unchanged] = field(default_factory=list)
    gone: dict[str, Gone] = field(default_factory=dict)
    failed: list[Failed] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    checkpoint: Checkpoint | None = None
    size_bytes: int = 0
    keys: set[Hash] = field(default_factory=set)

    def supersedes(self, observation: Observation) -> bool:
        """Whether something was said already of the item of this observation, which is then of a later time.

        Asked in the order of time only: there each word of an item is an event of its own, and history keeps them all.
        """
        url = observed_url(observation)
        if url is None or len(url) > LONGEST_URL:
            return False
        key = key_of(url)
        if key in self.keys:
            return True
        self.keys.add(key)
        return False

    def add(self, observation: Observation) -> bool:
        """Take one observation in; tells whether the group should go on its way."""
        if type(observation) is Unchanged and observation.validators is None and observation.depth is None:
            self.unchanged.append(observation.url)
            self.same_bodies += observation.by_body
            if self.gone:
                self.gone.pop(observation.url, None)
            return len(self.unchanged) >= MAX_UNCHANGED
        self._add(observation)
        return self.full

    def _add(self, observation: Observation) -> None:
        match observation:
            case Unchanged():
                self.rechecked.append(observation)
                self.gone.pop(observation.url, None)
            case Fetched(item) if len(item.url) > LONGEST_URL:
                self.failed.append(_nameless(item.url))
            case Fetched(item):
                self.fetched.append(item)
                self.gone.pop(item.url, None)
                self.size_bytes += len(item.body) if isinstance(item, Raw) else len(item.text) + item.written.size_bytes
            case Gone():
                self.gone[observation.url] = observation
                self.fetched = [item for item in self.fetched if item.url != observation.url]
                self.failed = [failed for failed in self.failed if failed.url != observation.url]
            case Failed():
                self.failed.append(observation)
                self.gone.pop(observation.url, None)
            case Skipped():
                self.skipped.append(observation)
                self.gone.pop(observation.url, None)
            case Checkpoint():
                self.checkpoint = observation

    @property
    def full(self) -> bool:
        """Whether the group should go on its way."""
        items = len(self.fetched) + len(self.rechecked) + len(self.gone) + len(self.failed) + len(self.skipped)
        return (
            items >= MAX_ITEMS
            or self.size_bytes >= MAX_BYTES
            or len(self.unchanged) >= MAX_UNCHANGED
            or self.checkpoint is not None
        )

    def __bool__(self) -> bool:
        return bool(
            self.unchanged
            or self.fetched
            or self.rechecked
            or self.gone
            or self.failed
            or self.skipped
            or self.checkpoint
        )


def observed_url(observation: Observation) -> str | None:
    """The URL of the item that an observation is of; None for what is said of the source."""
    match observation:
        case Fetched(item):
            return item.url
        case Unchanged() | Gone() | Failed() | Skipped():
            return observation.url
    return None


def _nameless(url: str) -> Failed:
    return Failed(
        url,
        f"Its URL has {len(url):,} characters; no more than {LONGEST_URL:,} can be an item's name.",
        hint="Leave it out of the source.",
    )


_NO_ITEM = "it is no item of the source so far"
_UNTOLD = "the source cannot be asked for it by itself"


def refuse_unable(connector: type[Connector], source: Source) -> None:
    """Refuse to selected at single items of a source whose kind has no way to."""
    if not hasattr(connector, "look"):
        raise UsageError(
            f"A source of kind {source.kind!r} can only be looked at as a whole. Nothing was asked of {source.name!r}.",
            hint=Hint(action("sync", source.name), " does that, and pays only for what changed."),
        )


async def selected(
    connector: Connector, known: StoredKnown, urls: Sequence[str], *, skip: Callable[[Skipped], None]
) -> AsyncGenerator[Observation]:
    """What a connector sees of some items; `skip` hears of each that nothing is said about."""
    assert isinstance(connector, LooksAgain)  # noqa: S101 (the engine has refused all others)
    named = list({key(url): url for url in urls}.values())
    held = await known.stored_as(named)
    for url in named:
        if url not in held:
            skip(Skipped(url, _NO_ITEM))
    waiting = {key(url): held[url] for url in named if url in held}
    if not waiting:
        return
    async with aclosing(connector.look(known, list(waiting.values()))) as observations:
        async for observation in observations:
            if isinstance(observation, Checkpoint | Complete):
                continue
            seen = observed_url(observation)
            if seen is not None and waiting.pop(key(seen), None) is None:
                continue
            if isinstance(observation, Skipped):
                skip(observation)
            else:
                yield observation
    for url in waiting.values():
        skip(Skipped(url, _UNTOLD))


async def first_documents(
    observations: AsyncGenerator[Observation],
    read: Callable[[Raw], Awaitable[Document]],
    *,
    limit: int,
    within_s: float,
) -> tuple[list[Document], bool]:
    """So many documents at most, and whether there are more; raises where there is none, and it is said why."""
    found: list[Document] = []
    trouble: str | None = None
    try:
        async with asyncio.timeout(within_s), aclosing(observations):
            async for observation in observations:
                match observation:
                    case Fetched() if len(found) == limit:
                        return found, True
                    case Fetched(Document() as item):
                        found.append(item)
                    case Fetched(Raw() as item):
                        found.append(await read(item))
                    case Failed(_, why) | Incomplete(why):
                        trouble = trouble or why
    except TimeoutError:
        trouble = trouble or f"Nothing was shown within {within_s:.0f} s."
    except ItemError as problem:
        trouble = trouble or str(problem)
    if not found and trouble is not None:
        raise SourceError(trouble)
    return found, False
