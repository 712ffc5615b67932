"""A snapshot of the index in files: everything in it was true at the same moment."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from rowen.errors import UsageError
from rowen.harvest.engine import Engine
from rowen.model.export import Export
from rowen.model.record_kinds import check_record_kinds
from rowen.model.source import one_or_more
from rowen.store import sources as source_store
from rowen.version import __version__

if TYPE_CHECKING:
    from rowen.publish.coverage import Coverage
    from rowen.publish.formats import Format, SnapshotWriter
    from rowen.publish.lines import WithdrawnLines
    from rowen.publish.manifest import Earlier
    from rowen.store.exports import Exported

__all__ = ["Exports"]

P = ParamSpec("P")
T = TypeVar("T")

# A page's facts have a kilobyte: as many as a statement fetches at no noticeable cost.
_FACTS_AT_ONCE = 1_000
_RESERVED = frozenset({"identity", "manifest", "coverage", "changes", "items", "withdrawn"})


@dataclass(slots=True)
class _Written:
    """What is known of a source after its rows were written."""

    source: Exported
    file: str
    coverage: Coverage


@dataclass(slots=True)
class _Work:
    """One export on its way."""

    form: Format
    folder: Path
    writer: SnapshotWriter
    now: datetime
    withdrawn: WithdrawnLines | None = None
    last_change: int = 0
    written: list[_Written] = field(default_factory=list)
    changes: dict[str, Counter[str]] | None = None


class Exports:
    """Taking the index elsewhere."""

    def __init__(self, engine: Engine) -> None:
        self._database = engine.database
        self._withdrawn_days = engine.settings.withdrawn_kept_days

    async def export(
        self,
        form: Format,
        to: Path,
        *,
        sources: Sequence[str] = (),
        previous: Path | None = None,
        excel: bool = False,
        withdrawn: bool = False,
        record_kinds: Sequence[str] = (),
        now: datetime | None = None,
    ) -> Export:
        """Write all items, or those of some sources, into a new folder, which is there whole or not at all.

        `previous` is the folder of an earlier export: what changed since then is written as well. `excel` makes CSV
        safe for spreadsheets. With `withdrawn`, the last copies of items that were deleted not long ago are written
        into a file of their own. With `record_kinds`, only records of catalogs that describe one of these are written.
        """
        from rowen.publish.folder import new_folder
        from rowen.publish.formats import FORMATS, writer
        from rowen.publish.lines import WithdrawnLines
        from rowen.publish.manifest import checked

        if form not in FORMATS:
            raise UsageError(f"There is no format {form!r}.", hint=f"The formats are: {', '.join(FORMATS)}.")
        if excel and form != "csv":
            raise UsageError(f"{form} needs no care for spreadsheets.", hint="--excel goes with csv.")
        check_record_kinds(record_kinds := one_or_more(record_kinds))
        if record_kinds and (previous is not None or withdrawn):
            raise UsageError("Some kinds of records cannot be compared with an export of all, nor with what is gone.")
        sources = one_or_more(sources)
        await self._need(sources)
        earlier = await asyncio.to_thread(checked, previous) if previous is not None else None
        with new_folder(to) as folder:
            work = _Work(form, folder, writer(form, folder, excel=excel), now or datetime.now(UTC))
            work.withdrawn = WithdrawnLines(folder) if withdrawn else None
            try:
                await self._fill(work, frozenset(sources), record_kinds)
            except BaseException:
                work.writer.abandon()
                raise
            finally:
                if work.withdrawn is not None:
                    work.withdrawn.close()
            return await _in_thread(_finish, work, to, earlier, frozenset(sources))

    async def export_extractions(
        self, form: str, to: Path, *, schema: str | None = None, sources: Sequence[str] = (), excel: bool = False
    ) -> Export:
        """Write the facts in force into a new folder, a file for each schema: as JSON lines, CSV or Parquet."""
        from rowen.model.schema import SchemaRef
        from rowen.publish.facts import FactFiles
        from rowen.publish.folder import new_folder
        from rowen.store import changes
        from rowen.store.extractions import current_in_batches

        sources = one_or_more(sources)
        await self._need(sources)
        name = None if schema is None else SchemaRef.parse(schema).name
        with new_folder(to) as folder:
            files = FactFiles(form, folder, excel=excel)
            async with self._database.transaction() as c:
                last = await changes.last_number(c)
                batches = current_in_batches(c, name=name, sources=list(sources), size=_FACTS_AT_ONCE)
                async with aclosing(batches) as found:
                    async for batch in found:
                        await _in_thread(files.write, batch)
            await _in_thread(files.close)
            size_bytes = sum(path.stat().st_size for path in folder.iterdir())
        return Export(to, form, files.rows, 0, len(sources), size_bytes, last)

    async def lines(
        self, *, sources: str | Sequence[str] = (), limit: int | None = None, record_kinds: Sequence[str] = ()
    ) -> AsyncGenerator[bytes]:
        """Items as JSON lines, as they are read, at most so many: a snapshot that needs no room on any disk."""
        from rowen.publish.lines import json_line
        from rowen.publish.row import StoredRow, row_of
        from rowen.store.exports import snapshot

        check_record_kinds(record_kinds := one_or_more(record_kinds))
        names, left = one_or_more(sources), limit
        await self._need(names)
        async with snapshot(self._database) as index:
            await index.find_twins()
            for source in await index.sources():
                if names and source.name not in names:
                    continue
                async with aclosing(index.rows(source.id, record_kinds=record_kinds)) as batches:
                    async for rows in batches:
                        made = [row_of(StoredRow(*row), source.name, source.kind) for row in rows[:left]]
                        yield "".join(map(json_line, made)).encode("utf-8", "replace")
                        left = None if left is None else left - len(made)
                        if left == 0:
                            return

    async def _need(self, names: Sequence[str]) -> None:
        async with self._database.connection() as c:
            for name in names:
                await source_store.get(c, name)

    async def _fill(self, work: _Work, names: frozenset[str], record_kinds: Sequence[str]) -> None:
        from rowen.store.exports import snapshot

        async with snapshot(self._database) as index:
            work.last_change = await index.last_change()
            await index.find_twins()
            taken: set[str] = set(_RESERVED)
            for source in await index.sources():
                if not names or source.name in names:
                    rows = index.rows(source.id, record_kinds=record_kinds)
                    await _write_source(work, rows, source, _file_name(source.name, taken))
                    await _write_withdrawn(work, index.withdrawn(source.id, days=self._withdrawn_days), source)
        await _in_thread(work.writer.close)


async def _write_source(work: _Work, items: AsyncGenerator[list[tuple[Any, ...]]], source: Exported, file: str) -> None:
    from rowen.publish.coverage import Coverage

    written = _Written(source, work.writer.begin(source.name, file), Coverage())
    work.written.append(written)
    async with aclosing(items) as batches, aclosing(_ahead(batches)) as ahead:
        async for rows in ahead:
            await _in_thread(_write, work.writer, written, rows)


async def _write_withdrawn(work: _Work, copies: AsyncGenerator[list[tuple[Any, ...]]], source: Exported) -> None:
    from rowen.publish.row import StoredRow, row_of

    if work.withdrawn is None:
        return
    async with aclosing(copies) as batches:
        async for rows in batches:
            made = [(row_of(StoredRow(*row[:-1]), source.name, source.kind), row[-1]) for row in rows]
            await _in_thread(work.withdrawn.write, made)


def _write(writer: SnapshotWriter, written: _Written, rows: list[tuple[Any, ...]]) -> None:
    from rowen.publish.row import Identity, StoredRow, row_of

    name, kind = written.source.name, written.source.kind
    stored = [StoredRow(*row) for row in rows]
    made = [row_of(one, name, kind) for one in stored]
    writer.write(made)
    writer.identify(
        [
            Identity(name, one.key.hex(), one.url, row["content_hash"], row["record_hash"])
            for one, row in zip(stored, made, strict=True)
        ]
    )
    written.coverage.add(made)


async def _ahead(batches: AsyncGenerator[list[tuple[Any, ...]]]) -> AsyncGenerator[list[tuple[Any, ...]]]:
    """The same batches, the next of which is fetched while one is being written.

    A fetch that is on its way is awaited, never cancelled: that would break the connection, and leave its cursor open.
    """
    coming = asyncio.ensure_future(anext(batches, None))
    try:
        while (batch := await asyncio.shield(coming)) is not None:
            coming = asyncio.ensure_future(anext(batches, None))
            yield batch
    finally:
        await asyncio.gather(coming, return_exceptions=True)


async def _in_thread(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Do something beside the event loop; who is cancelled waits until it is done, so that no file is in use."""
    task = asyncio.ensure_future(asyncio.to_thread(function, *arguments, **named))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise


def _file_name(source: str, taken: set[str]) -> str:
    """A name for the file of a source that every file system takes, and no other has."""
    wanted = re.sub(r"[^A-Za-z0-9._-]+", "-", source).strip("-.")[:100] or "source"
    name, number = wanted, 2
    while name.lower() in taken:
        name, number = f"{wanted}-{number}", number + 1
    taken.add(name.lower())
    return name


def _finish(work: _Work, to: Path, earlier: Earlier | None, chosen: frozenset[str]) -> Export:
    """Write what the snapshot says of itself."""
    from rowen.publish.comparison import CHANGES, compare
    from rowen.publish.coverage import Coverage
    from rowen.publish.manifest import COVERAGE, MANIFEST, file_facts, write_json

    if earlier is not None:
        everywhere = earlier.sources | {one.source.name for one in work.written}
        work.changes = compare(
            earlier.identity,
            work.folder / work.writer.identity_file,
            sources=chosen or everywhere,
            into=work.folder / CHANGES,
        )
    whole = Coverage()
    for one in work.written:
        whole.merge(one.coverage)
    write_json(work.folder / COVERAGE, _coverage(work, whole))
    files = [file_facts(path) for path in sorted(work.folder.iterdir()) if not path.name.startswith(".")]
    write_json(work.folder / MANIFEST, _manifest(work, whole, files, earlier))
    totals = sum((counts for counts in (work.changes or {}).values()), Counter[str]())
    return Export(
        to=to,
        form=work.form,
        items=whole.items,
        copies=whole.copies,
        sources=len(work.written),
        bytes=sum(one["bytes"] for one in files),
        last_change=work.last_change,
        changes=None if work.changes is None else _counts(totals),
        withdrawn=None if work.withdrawn is None else work.withdrawn.items,
    )


def _coverage(work: _Work, whole: Coverage) -> dict[str, Any]:
    return {
        "created_at": work.now.isoformat(),
        "total": whole.to_json(),
        "sources": [
            {
                "source": one.source.name,
                "kind": one.source.kind,
                **one.coverage.to_json(),
                "last_complete_at": _moment(one.source.last_complete_at),
                "deletions_held": one.source.deletions_held,
                "quarantined": one.source.quarantined,
                "truncated": one.source.truncated,
            }
            for one in work.written
        ],
    }


def _manifest(work: _Work, whole: Coverage, files: list[dict[str, Any]], earlier: Earlier | None) -> dict[str, Any]:
    from rowen.publish.manifest import FORMAT, FORMAT_VERSION
    from rowen.publish.row import COLUMNS

    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "rowen_version": __version__,
        "created_at": work.now.isoformat(),
        "written_as": work.form,
        "last_change": work.last_change,
        "columns": list(COLUMNS),
        "items": whole.items,
        "copies": whole.copies,
        "identity": work.writer.identity_file,
        "sources": [_provenance(one) for one in work.written],
        "files": files,
    }
    if earlier is None or work.changes is None:
        return manifest
    return manifest | {
        "previous": {"created_at": earlier.created_at, "last_change": earlier.last_change},
        "changes": {source: _counts(counts) for source, counts in sorted(work.changes.items())},
    }


def _provenance(one: _Written) -> dict[str, Any]:
    source = one.source
    return {
        "name": source.name,
        "kind": source.kind,
        "url": source.url,
        "state": source.state,
        "file": one.file,
        "items": one.coverage.items,
        "last_run": None
        if source.run_id is None
        else {
            "run": source.run_id,
            "status": source.run_status,
            "complete": source.run_complete and not source.truncated,
            "started_at": _moment(source.run_started_at),
        },
        "last_complete_at": _moment(source.last_complete_at),
        "complete": source.run_status == "completed"
        and source.last_complete_at is not None
        and not (source.deletions_held or source.quarantined or source.truncated),
        "deletions_held": source.deletions_held,
        "quarantined": source.quarantined,
        "truncated": source.truncated,
    }


def _counts(counts: Counter[str]) -> dict[str, int]:
    return {name: counts[name] for name in ("created", "updated", "amended", "deleted")}


def _moment(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
