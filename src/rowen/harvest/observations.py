"""Group, select or sample the observations between a connector and the harvest."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from rowen.connectors.base import ChecksItems, Connector
from rowen.harvest.known import StoredKnown
from rowen.model.hashes import Hash
from rowen.model.items import (
    Checkpoint,
    Complete,
    Document,
    Failed,
    Fetched,
    Gone,
    Observation,
    Raw,
    Skipped,
    Unchanged,
)
from rowen.model.text import LONGEST_URL
from rowen.model.url import key

# A transaction of 500 items takes 100 to 200 ms, in which its fixed cost hardly counts; a crash repeats no more.
MAX_ITEMS = 500
# A few groups are processed at a time, each held as bodies, documents and parameters: some tens of megabytes.
MAX_BYTES = 4 * 1024 * 1024
# An unchanged item costs its URL in memory and no write; the limit only keeps progress visible.
MAX_UNCHANGED = 10_000


@dataclass(slots=True)
class Group:
    """Up to 500 items or 4 MB to process in one transaction; of unchanged items, up to 10,000.

    `same_bodies` counts the `unchanged` items whose bodies were received. If an item is reported both gone and
    present, the last report wins.
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
        """Return whether the group already has an observation of the same item.

        This is used for chronological sources only, where each observation of an item is a separate event of its
        history.
        """
        url = observed_url(observation)
        if url is None or len(url) > LONGEST_URL:
            return False
        if (item_key := key(url)) in self.keys:
            return True
        self.keys.add(item_key)
        return False

    def add(self, observation: Observation) -> bool:
        """Add an observation; return whether the group is full."""
        if type(observation) is Unchanged and observation.validators is None and observation.depth is None:
            self.unchanged.append(observation.url)
            self.same_bodies += observation.by_body
            if self.gone:
                self.gone.pop(observation.url, None)
            return len(self.unchanged) >= MAX_UNCHANGED
        match observation:
            case Unchanged():
                self.rechecked.append(observation)
            case Fetched(item) if (size := len(item.url)) > LONGEST_URL:
                reason = f"Its URL has {size:,} characters; no more than {LONGEST_URL:,} can be an item's name."
                self.failed.append(Failed(item.url, reason, hint="Leave it out of the source."))
                return self.full
            case Fetched(item):
                self.fetched.append(item)
                self.size_bytes += len(item.body) if isinstance(item, Raw) else len(item.text) + item.written.size_bytes
            case Gone():
                self.gone[observation.url] = observation
                self.fetched = [item for item in self.fetched if item.url != observation.url]
                self.failed = [failed for failed in self.failed if failed.url != observation.url]
                return self.full
            case Failed():
                self.failed.append(observation)
            case Skipped():
                self.skipped.append(observation)
            case Checkpoint():
                self.checkpoint = observation
        if (url := observed_url(observation)) is not None:
            self.gone.pop(url, None)
        return self.full

    @property
    def full(self) -> bool:
        """Whether the group is ready to be processed."""
        items = len(self.fetched) + len(self.rechecked) + len(self.gone) + len(self.failed) + len(self.skipped)
        return (
            items >= MAX_ITEMS
            or self.size_bytes >= MAX_BYTES
            or len(self.unchanged) >= MAX_UNCHANGED
            or self.checkpoint is not None
        )

    def __bool__(self) -> bool:
        parts = (self.unchanged, self.fetched, self.rechecked, self.gone, self.failed, self.skipped, self.checkpoint)
        return any(parts)


def observed_url(observation: Observation) -> str | None:
    """Return the URL of the observed item; None if the observation is about the whole source."""
    match observation:
        case Fetched(item):
            return item.url
        case Unchanged() | Gone() | Failed() | Skipped():
            return observation.url
    return None


async def selected(
    connector: Connector, known: StoredKnown, urls: Sequence[str], *, skip: Callable[[Skipped], None]
) -> AsyncGenerator[Observation]:
    """Yield the connector's observations of some stored items; call `skip` for each URL without an observation.

    Only a whole walk finds new items: it alone knows whether a page is linked, a record listed or a file selected.
    """
    assert isinstance(connector, ChecksItems)  # noqa: S101 (`Assembly.harvest` has refused all others)
    unique = list({key(url): url for url in urls}.values())
    stored = await known.stored_as(unique)
    for url in unique:
        if url not in stored:
            skip(Skipped(url, "the source has no such item so far"))
    waiting = {key(url): stored[url] for url in unique if url in stored}
    if not waiting:
        return
    async with aclosing(connector.look(known, list(waiting.values()))) as observations:
        async for observation in observations:
            if isinstance(observation, Checkpoint | Complete):
                continue
            observed = observed_url(observation)
            if observed is not None and waiting.pop(key(observed), None) is None:
                continue
            if isinstance(observation, Skipped):
                skip(observation)
            else:
                yield observation
    for url in waiting.values():
        skip(Skipped(url, "the source cannot return this item individually"))
