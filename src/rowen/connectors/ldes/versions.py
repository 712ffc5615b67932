"""Which of the versions of an object counts, whatever the order in which they come."""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rowen.connectors.base import Held, Known
from rowen.connectors.ldes.cursor import DELETED
from rowen.connectors.ldes.members import StreamMember
from rowen.connectors.ldes.times import moment_of
from rowen.model.hashes import Hash
from rowen.model.items import Document, Fetched, Gone, NoteName, Observation, Unchanged, Validators

__all__ = ["Decision", "Versions", "item_url"]

MOST_RECENT = 20_000
"""Objects of which the last word is kept at hand until the database knows it: the flow holds a few groups of 500."""

_NO_NUMBER = bytes(8)


class Decision(NamedTuple):
    """What becomes of members, and what is to be noted with it; `fresh` are those that were not known."""

    observations: list[Observation]
    notes: dict[NoteName, Any]
    fresh: int
    latest: int | None


class Versions:
    """Decides for members whether they say something later than what we hold.

    Each version has a place, 32 bytes that sort as versions do: its time, its sequence, and the hash of its name, so
    that two of one time have an order that never depends on luck. The place of what is stored stands with its check.
    """

    def __init__(self, known: Known, *, by_object: bool, language: str | None) -> None:
        self._known = known
        self._by_object = by_object
        self._language = language
        self._recent: OrderedDict[str, bytes] = OrderedDict()

    async def decide(self, members: Sequence[StreamMember]) -> Decision:
        """What becomes of these, in their order."""
        named = [(self.url(member), member) for member in members]
        urls = list(dict(named))
        held = await self._known.look_up(urls)
        deleted = await self._known.recall(DELETED, urls) if self._by_object else {}
        decision = Decision([], {}, 0, None)
        fresh, latest = 0, None
        for url, member in named:
            place, before = self._place(member), held.get(url)
            if not self._is_later(url, place, before, deleted):
                if place.hex() > deleted.get(url, "") and self._is_held(url, place, before):
                    decision.observations.append(Unchanged(url))
                continue
            fresh += 1
            if member.time is not None and (latest is None or member.time > latest):
                latest = member.time
            self._note(url, place)
            if member.deletes and self._by_object:
                decision.notes[DELETED, url] = place.hex()
                # Also where nothing is held yet: an earlier version may be on its way.
                decision.observations.append(Gone(url, "The stream says that it was deleted."))
            else:
                decision.observations.append(Fetched(self._document(member, url, place)))
        return decision._replace(fresh=fresh, latest=latest)

    def url(self, member: StreamMember) -> str:
        """The URL of the item that a member becomes."""
        return item_url(member.version_of if self._by_object and member.version_of else member.name)

    def _place(self, member: StreamMember) -> bytes:
        time = member.version_time if member.version_time is not None else member.time
        sequence = member.version_sequence or member.sequence
        name = hashlib.sha256(member.name.encode("utf-8", "surrogatepass")).digest()[:16]
        begin = time.to_bytes(8) if time is not None and time > 0 else _NO_NUMBER
        return begin + (sequence.to_bytes(8) if sequence else _NO_NUMBER) + name

    def _is_later(self, url: str, place: bytes, held: Held | None, deleted: Mapping[str, Any]) -> bool:
        last = self._recent.get(url, b"")
        if url in deleted:
            last = max(last, bytes.fromhex(deleted[url]))
        if held is not None and held.body_hash is not None:
            # In a full run what is held proves nothing, but what is older than it is older.
            is_read_anew = self._known.mode == "full" and held.body_hash == place and url not in self._recent
            return place > last and (place > held.body_hash or is_read_anew)
        return place > last

    def _is_held(self, url: str, place: bytes, held: Held | None) -> bool:
        return held is not None and held.body_hash == place and url not in self._recent

    def _note(self, url: str, place: bytes) -> None:
        self._recent[url] = place
        self._recent.move_to_end(url)
        if len(self._recent) > MOST_RECENT:
            self._recent.popitem(last=False)

    def _document(self, member: StreamMember, url: str, place: Hash) -> Document:
        tree: dict[str, Any] = member.tree
        at = moment_of(member.time) if member.time is not None else None
        record = {"member": member.name, "version_of": member.version_of, "time": at, "rdf": tree}
        return Document(
            url,
            member.title,
            member.text,
            tags=member.tags,
            record=record,
            language=self._language,
            validators=Validators(body_hash=place),
        )


def item_url(name: str) -> str:
    """The URL of a node: its own, but that a fragment becomes a route, since it tells nodes of one document apart."""
    if "#" not in name:
        return name
    head, _, fragment = name.partition("#")
    return name if fragment.startswith(("/", "!")) else f"{head}#/{fragment}"
