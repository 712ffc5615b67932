"""Exports: snapshots of the index in files, consistent at one moment, with manifest, coverage, report and changelog."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from rowen.errors import UsageError
from rowen.model.access import Scope
from rowen.model.datasets import check_record_kinds
from rowen.model.hashes import canonical_json
from rowen.model.items import Export
from rowen.model.schemas import SchemaRef
from rowen.model.sources import one_or_more
from rowen.model.wording import moment
from rowen.operations.operation import ResourceGroup, operation
from rowen.publish.changelog import CHANGED, Change, ChangeFiles, compare
from rowen.publish.folder import (
    COVERAGE,
    FORMAT,
    FORMAT_VERSION,
    MANIFEST,
    Earlier,
    checked,
    file_facts,
    new_folder,
    write_json,
)
from rowen.publish.formats import FORMATS, STREAMED, FactFiles, SnapshotWriter, TextStream, WithdrawnLines, writer
from rowen.publish.report import REPORT, Coverage, Distributions, ReportedSource, report
from rowen.publish.row import COLUMNS, Identity, StoredRow, row_of
from rowen.store import changes as store_changes
from rowen.store import sources as source_store
from rowen.store.extraction import current_in_batches
from rowen.store.items.exports import Exported, Snapshot, snapshot
from rowen.version import __version__

if TYPE_CHECKING:
    from typing import Annotated

    from msgspec import Meta

    from rowen.operations.parameters import (
        Excel,
        ItemLimit,
        OnlyRecordKinds,
        OnlySources,
        SchemaName,
        SinceNumber,
    )
    from rowen.publish.formats import Format, Streamed

P = ParamSpec("P")
T = TypeVar("T")

# The facts of a page take a kilobyte; one statement can fetch this number at no noticeable cost.
_FACTS_AT_ONCE = 1_000
_RESERVED = frozenset({"identity", "manifest", "coverage", "changes", "items", "withdrawn"})


@dataclass(slots=True)
class WrittenSource:
    """The facts about a source after its rows were written."""

    source: Exported
    file: str
    coverage: Coverage = field(default_factory=Coverage)


@dataclass(slots=True)
class SnapshotWork:
    """An export in progress."""

    form: Format
    folder: Path
    writer: SnapshotWriter
    now: datetime
    chosen: frozenset[str] = frozenset()
    earlier: Earlier | None = None
    since: int | None = None
    limit: int | None = None
    record_kinds: Sequence[str] = ()
    withdrawn: WithdrawnLines | None = None
    changes: ChangeFiles | None = None
    last_change: int = 0
    written: list[WrittenSource] = field(default_factory=list)
    spread: Distributions = field(default_factory=Distributions)

    def close(self) -> None:
        """Close the files of withdrawn items and of changes."""
        if self.withdrawn is not None:
            self.withdrawn.close()
        if self.changes is not None:
            self.changes.close()


class Exports(ResourceGroup):
    """Exports."""

    @operation(scope=Scope.WRITE)
    async def export(
        self,
        form: Annotated[Format, Meta(description="Format of the files.")],
        to: Annotated[Path, Meta(description="A new folder to write to.")],
        *,
        sources: OnlySources = (),
        previous: Annotated[Path | None, Meta(description="Folder of an earlier export to compare with.")] = None,
        since: Annotated[
            SinceNumber | None, Meta(description="Also write what changed after this number of the change log.")
        ] = None,
        limit: ItemLimit | None = None,
        joint: Annotated[bool, Meta(description="Parquet: also write one file of all sources.")] = False,
        excel: Excel = False,
        withdrawn: Annotated[bool, Meta(description="Also write the last copies of deleted items.")] = False,
        record_kinds: OnlyRecordKinds = (),
        now: Annotated[datetime | None, Meta(extra={"local": True})] = None,
    ) -> Export:
        """Write all items, or those of some sources, into a new folder, which appears completely or not at all.

        Changes since `previous`, the folder of an earlier export, or after the number `since` are written as well.
        `joint` adds one Parquet file of all sources. `excel` makes CSV safe for spreadsheets. `withdrawn` adds a file
        with the last copies of deleted items. `record_kinds` limits the export to these kinds of records.
        """
        _check(form, excel=excel, joint=joint)
        check_record_kinds(record_kinds := one_or_more(record_kinds))
        if previous is not None and since is not None:
            raise UsageError("--previous cannot be combined with --since.", hint="Leave out one of the two.")
        if (limit is not None or record_kinds) and (previous is not None or since is not None):
            raise UsageError(
                "A part of the items cannot be compared with an earlier export.",
                hint="Leave --limit and --record-kind out, or --previous and --since.",
            )
        if record_kinds and withdrawn:
            raise UsageError("--withdrawn cannot be combined with --record-kind.", hint="Leave out one of the two.")
        sources = one_or_more(sources)
        await self._need(sources)
        earlier = await asyncio.to_thread(checked, previous) if previous is not None else None
        with new_folder(to) as folder:
            work = SnapshotWork(form, folder, writer(form, folder, excel=excel, joint=joint), now or datetime.now(UTC))
            work.chosen, work.earlier, work.since, work.limit = frozenset(sources), earlier, since, limit
            work.record_kinds = record_kinds
            work.withdrawn = WithdrawnLines(folder) if withdrawn else None
            work.changes = ChangeFiles(folder) if earlier is not None or since is not None else None
            try:
                await self._fill(work)
                return await _in_thread(finish, work, to)
            except BaseException:
                work.writer.abandon()
                raise
            finally:
                work.close()

    @operation(scope=Scope.WRITE)
    async def export_extractions(
        self,
        form: Annotated[str, Meta(description="Format of the files: jsonl, csv or parquet.")],
        to: Annotated[Path, Meta(description="A new folder to write to.")],
        *,
        schema: SchemaName | None = None,
        sources: OnlySources = (),
        excel: Excel = False,
    ) -> Export:
        """Write the current facts into a new folder, one file per schema: JSON lines, CSV or Parquet."""
        sources = one_or_more(sources)
        await self._need(sources)
        name = None if schema is None else SchemaRef.parse(schema).name
        with new_folder(to) as folder:
            files = FactFiles(form, folder, excel=excel)
            async with self._database.transaction() as c:
                last = await store_changes.last_number(c)
                batches = current_in_batches(c, name=name, sources=list(sources), size=_FACTS_AT_ONCE)
                async with aclosing(batches):
                    async for batch in batches:
                        await _in_thread(files.write, batch)
            await _in_thread(files.close)
            size_bytes = sum(path.stat().st_size for path in folder.iterdir())
        return Export(to, form, files.rows, 0, len(sources), size_bytes, last)

    @operation(scope=Scope.WRITE)
    async def stream(
        self,
        *,
        form: Annotated[Streamed, Meta(description="JSON lines, one JSON array, or CSV.")] = "jsonl",
        sources: str | OnlySources = (),
        limit: ItemLimit | None = None,
        record_kinds: OnlyRecordKinds = (),
        excel: Excel = False,
    ) -> AsyncGenerator[bytes]:
        """Yield items as text while they are read; needs no space on a disk."""
        if form not in STREAMED:
            raise UsageError(f"{form} cannot be sent while it is read.", hint=f"These can: {', '.join(STREAMED)}.")
        _check(form, excel=excel, joint=False)
        check_record_kinds(record_kinds := one_or_more(record_kinds))
        names, stream = one_or_more(sources), TextStream(form, excel=excel)
        await self._need(names)
        yield stream.begin()
        async with snapshot(self._database) as index:
            await index.find_twins()
            async with aclosing(_rows(index, names, limit, record_kinds)) as batches:
                async for source, rows in batches:
                    made = [row_of(StoredRow(*row), source.name, source.kind) for row in rows]
                    yield stream.rows(made)
        yield stream.end()

    async def _need(self, names: Sequence[str]) -> None:
        async with self._database.connection() as c:
            for name in names:
                await source_store.get(c, name)

    async def _fill(self, work: SnapshotWork) -> None:
        async with snapshot(self._database) as index:
            work.last_change = await index.last_change()
            await _write_changes(work, index)
            await index.find_twins()
            taken: set[str] = set(_RESERVED)
            left = work.limit
            for source in await index.sources():
                if work.chosen and source.name not in work.chosen:
                    continue
                written = WrittenSource(source, work.writer.begin(source.name, _file_name(source.name, taken)))
                work.written.append(written)
                async with aclosing(
                    _ahead(_some(index.rows(source.id, record_kinds=work.record_kinds), left))
                ) as ahead:
                    async for rows in ahead:
                        await _in_thread(_write, work, written, rows)
                left = None if left is None else left - written.coverage.items
                await _write_withdrawn(
                    work, index.withdrawn(source.id, days=self._settings.withdrawn_kept_days), source
                )
        await _in_thread(work.writer.close)


def _check(form: str, *, excel: bool, joint: bool) -> None:
    if form not in FORMATS:
        raise UsageError(f"There is no format {form!r}.", hint=f"The formats are: {', '.join(FORMATS)}.")
    if excel and form != "csv":
        raise UsageError(f"{form} needs no care for spreadsheets.", hint="--excel goes with csv.")
    if joint and form != "parquet":
        raise UsageError(
            f"{form} has no joint file beside those of each source.",
            hint="--joint goes with parquet; sqlite is one file anyway, and --to - writes all sources in a row.",
        )


async def _rows(
    index: Snapshot, names: Sequence[str], limit: int | None, record_kinds: Sequence[str]
) -> AsyncGenerator[tuple[Exported, list[tuple[Any, ...]]]]:
    """Yield the rows of all sources, or of those in `names`, up to a limit."""
    left = limit
    for source in await index.sources():
        if names and source.name not in names:
            continue
        async with aclosing(_some(index.rows(source.id, record_kinds=record_kinds), left)) as batches:
            async for rows in batches:
                yield source, rows
                left = None if left is None else left - len(rows)


async def _some(
    batches: AsyncGenerator[list[tuple[Any, ...]]], limit: int | None
) -> AsyncGenerator[list[tuple[Any, ...]]]:
    """Yield the first rows, up to a limit."""
    left = limit
    async with aclosing(batches):
        while left != 0 and (rows := await anext(batches, None)) is not None:
            yield rows[:left]
            left = None if left is None else max(0, left - len(rows))


async def _write_changes(work: SnapshotWork, index: Snapshot) -> None:
    """Write the changes after a number of the log; changes since an earlier folder are computed at the end."""
    if work.changes is None or work.since is None:
        return
    if work.since > work.last_change:
        raise UsageError(
            f"There is no change {work.since:,} yet: the last one is {work.last_change:,}. Nothing was written.",
            hint="The manifest of an export says its number, as last_change.",
        )
    async with aclosing(index.changes(work.since)) as batches:
        async for rows in batches:
            changes = [_change(*row) for row in rows if not work.chosen or row[0] in work.chosen]
            await _in_thread(work.changes.write, changes)


def _change(
    source: str,
    key: bytes,
    url: str,
    title: str,
    content_hash: bytes,
    record_hash: bytes,
    is_new: bool,
    is_there: bool,
    says_other: bool,
) -> tuple[Change, Identity]:
    identity = Identity(source, key.hex(), url, content_hash.hex(), record_hash.hex(), title)
    if not is_there:
        return "deleted", identity
    if is_new:
        return "created", identity
    return "updated" if says_other else "amended", identity


async def _write_withdrawn(work: SnapshotWork, copies: AsyncGenerator[list[tuple[Any, ...]]], source: Exported) -> None:
    if work.withdrawn is None:
        return
    async with aclosing(copies) as batches:
        async for rows in batches:
            made = [(row_of(StoredRow(*row[:-1]), source.name, source.kind), row[-1]) for row in rows]
            await _in_thread(work.withdrawn.write, made)


def _write(work: SnapshotWork, written: WrittenSource, rows: list[tuple[Any, ...]]) -> None:
    name, kind, writer = written.source.name, written.source.kind, work.writer
    stored = [StoredRow(*row) for row in rows]
    made = [row_of(row, name, kind) for row in stored]
    writer.write(made)
    writer.identify(
        [
            Identity(name, row.key.hex(), row.url, values["content_hash"], values["record_hash"], row.title)
            for row, values in zip(stored, made, strict=True)
        ]
    )
    written.coverage.add(made)
    work.spread.add(made)


async def _ahead(batches: AsyncGenerator[list[tuple[Any, ...]]]) -> AsyncGenerator[list[tuple[Any, ...]]]:
    """Yield the same batches; the next batch is fetched while the caller writes the current one.

    A running fetch is awaited, never cancelled: cancellation would break the connection and leave its cursor open.
    """
    coming = asyncio.ensure_future(anext(batches, None))
    try:
        while (batch := await asyncio.shield(coming)) is not None:
            coming = asyncio.ensure_future(anext(batches, None))
            yield batch
    finally:
        await asyncio.gather(coming, return_exceptions=True)


async def _in_thread(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Run a function in a thread; if cancelled, wait until the function has ended, so that no file is in use."""
    task = asyncio.ensure_future(asyncio.to_thread(function, *arguments, **named))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise


def _file_name(source: str, taken: set[str]) -> str:
    """Return a file name for a source that is unique and valid on every file system."""
    wanted = re.sub(r"[^A-Za-z0-9._-]+", "-", source).strip("-.")[:100] or "source"
    name, number = wanted, 2
    while name.lower() in taken:
        name, number = f"{wanted}-{number}", number + 1
    taken.add(name.lower())
    return name


def finish(work: SnapshotWork, to: Path) -> Export:
    """Write manifest, coverage, report and changelog; return the result of the export."""
    earlier, changes = work.earlier, work.changes
    if changes is not None:
        if earlier is not None:
            everywhere = earlier.sources | {written.source.name for written in work.written}
            identity = work.folder / work.writer.identity_file
            changes.write(compare(earlier.identity, identity, sources=work.chosen or everywhere))
            created_at = moment(datetime.fromisoformat(earlier.created_at))
            start = f"change {earlier.last_change:,}, {created_at},"
        else:
            start = f"change {work.since:,}"
        changes.write_page(f"From {start} to change {work.last_change:,}, {moment(work.now)}.")
    work.close()
    whole = Coverage()
    for written in work.written:
        whole.merge(written.coverage)
    write_json(
        work.folder / COVERAGE,
        {
            "created_at": work.now.isoformat(),
            "total": {**whole.to_json(), "distributions": work.spread.to_json()},
            "sources": [
                {
                    "source": written.source.name,
                    "kind": written.source.kind,
                    **written.coverage.to_json(),
                    "last_complete_at": _iso(written.source.last_complete_at),
                    "deletions_held": written.source.deletions_held,
                    "quarantined": written.source.quarantined,
                    "truncated": written.source.truncated,
                }
                for written in work.written
            ],
        },
    )
    reported = [
        ReportedSource(
            written.source.name,
            written.source.kind,
            written.coverage.items,
            written.source.last_complete_at,
            _is_complete(written.source),
        )
        for written in work.written
    ]
    page = report(reported, whole, work.spread, now=work.now, last_change=work.last_change)
    (work.folder / REPORT).write_text(page, "utf-8", "replace")
    files = [file_facts(path) for path in sorted(work.folder.iterdir()) if not path.name.startswith(".")]
    # In declarations, secrets are references and never values.
    declared = [[s.name, s.kind, s.url, s.options, s.schedule] for s in (written.source for written in work.written)]
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
        "limit": work.limit,
        "identity": work.writer.identity_file,
        "declared_sha256": hashlib.sha256(canonical_json(declared)).hexdigest(),
        "sources": [_provenance(written) for written in work.written],
        "files": files,
    }
    if changes is not None:
        manifest |= {
            "previous": {
                "created_at": earlier.created_at if earlier else None,
                "last_change": earlier.last_change if earlier else work.since,
            },
            "changes": {source: _counts(counts) for source, counts in sorted(changes.counts.items())},
        }
    write_json(work.folder / MANIFEST, manifest)
    return Export(
        to=to,
        form=work.form,
        items=whole.items,
        copies=whole.copies,
        sources=len(work.written),
        bytes=sum(file["bytes"] for file in files),
        last_change=work.last_change,
        changes=None if changes is None else _counts(sum(changes.counts.values(), Counter[str]())),
        withdrawn=None if work.withdrawn is None else work.withdrawn.items,
    )


def _provenance(written: WrittenSource) -> dict[str, Any]:
    source = written.source
    return {
        "name": source.name,
        "kind": source.kind,
        "url": source.url,
        "state": source.state,
        "file": written.file,
        "items": written.coverage.items,
        "last_run": None
        if source.run_id is None
        else {
            "run": source.run_id,
            "status": source.run_status,
            "complete": source.run_complete and not source.truncated,
            "started_at": _iso(source.run_started_at),
        },
        "last_complete_at": _iso(source.last_complete_at),
        "complete": _is_complete(source),
        "deletions_held": source.deletions_held,
        "quarantined": source.quarantined,
        "truncated": source.truncated,
    }


def _is_complete(source: Exported) -> bool:
    unclear = source.deletions_held or source.quarantined or source.truncated
    return source.run_status == "completed" and source.last_complete_at is not None and not unclear


def _counts(counts: Counter[str]) -> dict[str, int]:
    return {name: counts[name] for name in CHANGED}


def _iso(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
