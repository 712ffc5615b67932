"""The ids of a run's items in little memory: a bit for each that was seen, 20 bytes for each that has a known URL."""

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct

__all__ = ["KnownIds", "Seen"]

# Blocks of 4 kB, a page of memory: dense ids cost a bit each, scattered ones a page.
_BLOCK_BITS = 15
_BLOCK_BYTES = 1 << (_BLOCK_BITS - 3)
_MASK = (1 << _BLOCK_BITS) - 1

# What waits between a connector and the flow: some groups of at most 10,000 unchanged items each. At 173 bytes a URL of
# usual length 50,000 take 9 MB; with half of it a walk over unchanged files would be slower.
_RECENT = 50_000
# A bucket of so many entries is searched in less time than its hash takes.
_BUCKET_ENTRIES = 64
_ENTRY, _HASH = Struct("=qq"), Struct("=q")


class Seen:
    """A set of item ids, compact where they are dense."""

    def __init__(self) -> None:
        self._blocks: dict[int, bytearray] = {}
        self._count = 0

    def add(self, item_id: int) -> bool:
        """Whether the id is new here."""
        block = self._blocks.get(item_id >> _BLOCK_BITS)
        if block is None:
            block = self._blocks[item_id >> _BLOCK_BITS] = bytearray(_BLOCK_BYTES)
        byte, bit = (item_id & _MASK) >> 3, 1 << (item_id & 7)
        if block[byte] & bit:
            return False
        block[byte] |= bit
        self._count += 1
        return True

    def add_all(self, item_ids: Iterable[int]) -> int:
        """How many of the ids are new here."""
        before = self._count
        blocks = self._blocks
        for item_id in item_ids:
            block = blocks.get(item_id >> _BLOCK_BITS)
            byte, bit = (item_id & _MASK) >> 3, 1 << (item_id & 7)
            if block is None:
                self.add(item_id)
            elif not block[byte] & bit:
                block[byte] |= bit
                self._count += 1
        return self._count - before

    def discard(self, item_id: int) -> bool:
        """Whether the id was here; now it is not."""
        if item_id not in self:
            return False
        self._blocks[item_id >> _BLOCK_BITS][(item_id & _MASK) >> 3] &= ~(1 << (item_id & 7))
        self._count -= 1
        return True

    def __contains__(self, item_id: int) -> bool:
        block = self._blocks.get(item_id >> _BLOCK_BITS)
        return block is not None and bool(block[(item_id & _MASK) >> 3] & (1 << (item_id & 7)))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        for number, block in self._blocks.items():
            start = number << _BLOCK_BITS
            for index, byte in enumerate(block):
                if byte:
                    base = start + (index << 3)
                    yield from (base + bit for bit in range(8) if byte >> bit & 1)


class KnownIds:
    """The ids of items by URL: the last ones that were looked up as they are, all others as hashes.

    A hash has 64 bits, and differs from process to process. Where two ids have the same, neither is told: the store is
    asked instead.
    """

    def __init__(self, count: int) -> None:
        self.recent: dict[str, int] = {}
        """Ids that are added here are hashed when they become many (`settle`)."""
        self._mask = (1 << max(count // _BUCKET_ENTRIES, 1).bit_length()) - 1
        self._buckets: list[bytearray] = []

    def settle(self) -> None:
        """Hash the recent ones, if they are many."""
        if len(self.recent) > _RECENT:
            self.add_all(self.recent.items())
            self.recent.clear()

    def add_all(self, items: Iterable[tuple[str, int]]) -> None:
        """Add items as hashes."""
        buckets, mask, pack = self._buckets, self._mask, _ENTRY.pack
        if not buckets:
            buckets += [bytearray() for _ in range(mask + 1)]
        for url, item_id in items:
            hashed = hash(url)
            entry, bucket = pack(hashed, item_id), buckets[hashed & mask]
            if entry not in bucket:
                bucket += entry

    def forget(self, url: str) -> None:
        """Forget a recent one that nobody will ask for."""
        self.recent.pop(url, None)

    def take(self, urls: Sequence[str]) -> list[int | None]:
        """The ids under these URLs; None for what is not known, or was recent and taken before."""
        pop = self.recent.pop
        ids = [pop(url, None) for url in urls]
        if self._buckets:
            return [self._hashed(url) if item_id is None else item_id for url, item_id in zip(urls, ids, strict=True)]
        return ids

    def _hashed(self, url: str) -> int | None:
        """The id under the hash of a URL, if there is exactly one."""
        hashed = hash(url)
        bucket, wanted = self._buckets[hashed & self._mask], _HASH.pack(hashed)
        known, at = None, bucket.find(wanted)
        while at >= 0:
            # A match at another offset is part of an id, or spans two numbers.
            if at % _ENTRY.size == 0:
                if known is not None:
                    return None
                known = _ENTRY.unpack_from(bucket, at)[1]
            at = bucket.find(wanted, at + 1)
        return known
