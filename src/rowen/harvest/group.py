"""Observations on their way into one transaction."""

from dataclasses import dataclass, field

from rowen.model.caps import LONGEST_URL
from rowen.model.hashes import Hash
from rowen.model.item import Checkpoint, Document, Failed, Fetched, Gone, Observation, Raw, Skipped, Unchanged
from rowen.model.url import key as key_of

__all__ = ["Group", "observed_url"]

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
