"""The headers of tar archives, bounded: `tarfile` believes what they say of themselves.

It goes one call deeper for each header that only tells about the next one, searches them with patterns that take
quadratic time (bpo gh-121285, cured in later releases of Python), and reads maps of sparse files of any length.
"""

import re
import tarfile
from typing import Any

__all__ = ["MemberHeader"]

_TELLING = frozenset(
    {
        tarfile.GNUTYPE_LONGNAME,
        tarfile.GNUTYPE_LONGLINK,
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
        tarfile.SOLARIS_XHDTYPE,
    }
)
# An honest member has a long name, a long link and two headers of its own before it, each of a few kB.
_MOST_IN_A_ROW = 16
_MOST_BYTES = 1 << 16
# Sizes, times and the parts of a path have fewer digits.
_LONG_NUMBER = re.compile(rb"\d{300}")


class MemberHeader(tarfile.TarInfo):
    """A header that raises `ReadError` where no honest archive goes; as `tarinfo` of `tarfile.open`."""

    def _proc_member(self, archive: Any) -> tarfile.TarInfo:
        in_a_row = getattr(archive, "told_in_a_row", 0) + 1 if self.type in _TELLING else 0
        archive.told_in_a_row = in_a_row
        if in_a_row > _MOST_IN_A_ROW:
            raise tarfile.ReadError(f"more than {_MOST_IN_A_ROW} headers are chained before one member")
        if in_a_row and self.size > _MOST_BYTES:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        member: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]  # not in the type stubs
        return member

    def _proc_pax(self, archive: Any) -> tarfile.TarInfo:
        told = archive.fileobj.read(self._block(self.size))  # type: ignore[attr-defined]
        if _LONG_NUMBER.search(told):
            raise tarfile.ReadError("a header with a number of hundreds of digits")
        archive.fileobj = _Again(archive, told)
        member: tarfile.TarInfo = super()._proc_pax(archive)  # type: ignore[misc]
        return member

    def _proc_gnusparse_10(self, following: tarfile.TarInfo, _told: Any, _archive: Any) -> None:
        following.sparse = [(0, 0)]  # type: ignore[assignment]  # sparse files are told from others, and not read


class _Again:
    """Gives once more what was read already."""

    def __init__(self, archive: Any, told: bytes) -> None:
        self._archive, self._file, self._told = archive, archive.fileobj, told

    def read(self, _size: int) -> bytes:
        self._archive.fileobj = self._file
        return self._told
