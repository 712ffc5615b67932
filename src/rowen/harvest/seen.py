"""The items that a run has seen, a bit each: a million cost a few hundred kilobytes."""

from collections.abc import Iterable, Iterator

__all__ = ["Seen"]

# Blocks of 4 kB, a page of memory: dense ids cost a bit each, scattered ones a page.
_BLOCK_BITS = 15
_BLOCK_BYTES = 1 << (_BLOCK_BITS - 3)
_MASK = (1 << _BLOCK_BITS) - 1


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
