"""The records of a document, put aside until all of them are known: in memory, or in a file if there are many."""

import pickle
from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from typing import IO, NamedTuple

from rowen.formats.json_records import Cut
from rowen.model.hashes import Hash

__all__ = ["PutAside", "Spool"]

IN_MEMORY_BYTES = 32 << 20
"""The recorded documents have up to 1.4 MB, large ones of federal agencies some 30; what is larger waits on disk."""

MOST_BYTES = 512 << 20
MOST_RECORDS = 250_000
"""What is put aside at once, at 2 kB a record. Beyond, records come as they are met, so that no document without end
fills the disk; the largest data.json that is known has some 60,000."""


class PutAside(NamedTuple):
    """A record as it was sent, the URL that its identifier gives it, and the hash of its bytes."""

    cut: Cut
    url: str
    digest: Hash


class Spool:
    """Records in the order in which they came. The file has no name, and is gone with the process."""

    def __init__(self) -> None:
        self._file: IO[bytes] = SpooledTemporaryFile(max_size=IN_MEMORY_BYTES)  # noqa: SIM115 (see `close`)
        self._count = self._size_bytes = 0

    def __len__(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        """Whether no more should be put aside."""
        return self._count >= MOST_RECORDS or self._size_bytes >= MOST_BYTES

    def add(self, record: PutAside) -> None:
        """Put a record aside; its value is read again from its body."""
        cut, url, digest = record
        pickle.dump((tuple(cut._replace(value=None)), url, digest), self._file)
        self._count += 1
        self._size_bytes += len(cut.body)

    def __iter__(self) -> Iterator[PutAside]:
        """All records; none may be added meanwhile."""
        self._file.seek(0)
        for _ in range(self._count):
            cut, url, digest = pickle.load(self._file)  # noqa: S301 (nobody else can have written into it)
            yield PutAside(Cut(*cut), url, digest)

    def clear(self) -> None:
        """Forget all."""
        self._file.seek(0)
        self._file.truncate()
        self._count = self._size_bytes = 0

    def close(self) -> None:
        """Forget all for good."""
        self._file.close()
