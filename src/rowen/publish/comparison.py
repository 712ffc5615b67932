"""What changed between two snapshots, by reading their identity files side by side.

Both are sorted by source and key, so that memory holds one line of each, whatever their size.
"""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

from rowen.errors import ExportError
from rowen.publish.changelog import Change
from rowen.publish.row import Identity

__all__ = ["compare"]


def compare(before: Path, after: Path, *, sources: frozenset[str]) -> Iterator[tuple[Change, Identity]]:
    """What differs between two identity files, in their order; items of other sources are not looked at."""
    return _changes(_read(before, sources), _read(after, sources))


def _changes(before: Iterator[Identity], after: Iterator[Identity]) -> Iterator[tuple[Change, Identity]]:
    old, new = next(before, None), next(after, None)
    while old is not None or new is not None:
        if new is None or (old is not None and _place(old) < _place(new)):
            assert old is not None  # noqa: S101 (one of the two is left)
            yield "deleted", old
            old = next(before, None)
        elif old is None or _place(new) < _place(old):
            yield "created", new
            new = next(after, None)
        else:
            if old.content_hash != new.content_hash:
                yield "updated", new
            elif old.record_hash != new.record_hash:
                yield "amended", new
            old, new = next(before, None), next(after, None)


def _place(one: Identity) -> tuple[str, str]:
    return one.source, one.key


def _read(path: Path, sources: frozenset[str]) -> Iterator[Identity]:
    last = ("", "")
    for one in _lines(path):
        if _place(one) < last:
            raise ExportError(f"{path} is not in order: {one.url} comes too late.")
        last = _place(one)
        if one.source in sources:
            yield one


def _lines(path: Path) -> Iterator[Identity]:
    match path.suffix:
        case ".parquet":
            from rowen.publish.parquet import identities

            yield from identities(path)
        case ".csv":
            with path.open(encoding="utf-8-sig", newline="") as file:
                yield from (Identity(**row) for row in csv.DictReader(file))
        case _:
            with path.open(encoding="utf-8") as file:
                yield from (Identity(**json.loads(line)) for line in file)
