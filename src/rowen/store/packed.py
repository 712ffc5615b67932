"""The record that a portal gave, kept compressed beside the facts that were taken from it.

It is most of what a catalog stores, and nothing but whole copies of it are ever asked for. Compressed by the server it
would cost five times as much, and take more than half as much again in the log and on disk: its method looks back 4 kB,
and what a record says of its files stands there twice. What statements look into (facts, the addresses of files, what
pages state) stays JSON, and so does all that was stored before.
"""

import json
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

from rowen.model.record import RecordJson

__all__ = ["FACTS_JSON", "pack", "unpacked", "whole", "whole_json"]

LEVEL = 1
"""The quickest that still finds repetitions: level 3 takes half as long again for 2 % less, -1 gives 30 % more."""


def pack(written: RecordJson) -> bytes | None:
    """What is kept apart of a record, as it is stored; None where nothing is."""
    if not written.is_parted:
        return None
    packed: bytes = _compressor().compress(written.apart(), _zstd().ZstdCompressor.FLUSH_FRAME)
    return packed


def unpacked(packed: bytes) -> dict[str, Any]:
    """What was kept apart."""
    found: dict[str, Any] = json.loads(_zstd().decompress(packed))
    return found


def whole(facts: Mapping[str, Any], packed: bytes | None) -> Mapping[str, Any]:
    """A record as it was given to the store."""
    return facts if packed is None else {**facts, **unpacked(packed)}


FACTS_JSON = "convert_to((case when source_record is null then record else record - 'resources' end)::text, 'UTF8')"
"""The column of facts for `whole_json`, in SQL: without what is kept apart as well. To make letters of 16 kB and then
bytes again takes longer than the rest of an export."""


def whole_json(facts: bytes, packed: bytes | None) -> bytes:
    """The same, written as JSON in UTF-8: nothing is read, and nothing is written anew."""
    if packed is None:
        return facts
    apart: bytes = _zstd().decompress(packed)
    return b"%b,%b" % (facts[:-1], apart[1:]) if facts != b"{}" else apart


@cache
def _compressor() -> Any:
    return _zstd().ZstdCompressor(level=LEVEL)


@cache
def _zstd() -> Any:
    """Imported when it is first needed: most commands meet no record."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd
