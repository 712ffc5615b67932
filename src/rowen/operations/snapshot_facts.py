"""What a snapshot says about itself: manifest and coverage for programs, report and changelog for people."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rowen.model.hashes import canonical_json
from rowen.model.items import Export
from rowen.model.wording import moment
from rowen.publish.changelog import CHANGED, compare
from rowen.publish.folder import COVERAGE, FORMAT, FORMAT_VERSION, MANIFEST, file_facts, write_json
from rowen.publish.report import REPORT, Coverage, Distributions, ReportedSource, report
from rowen.publish.row import COLUMNS
from rowen.version import __version__

if TYPE_CHECKING:
    from rowen.publish.changelog import ChangeFiles
    from rowen.publish.folder import Earlier
    from rowen.publish.formats import Format, SnapshotWriter
    from rowen.publish.lines import WithdrawnLines
    from rowen.store.items.exports import Exported

__all__ = ["SnapshotWork", "WrittenSource", "finish"]


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
        """Close the files beside the items."""
        if self.withdrawn is not None:
            self.withdrawn.close()
        if self.changes is not None:
            self.changes.close()


def finish(work: SnapshotWork, to: Path) -> Export:
    """Write manifest, coverage, report and changelog."""
    _finish_changes(work)
    work.close()
    whole = Coverage()
    for one in work.written:
        whole.merge(one.coverage)
    write_json(work.folder / COVERAGE, _coverage(work, whole))
    listed = [_reported(one) for one in work.written]
    page = report(listed, whole, work.spread, now=work.now, last_change=work.last_change)
    (work.folder / REPORT).write_text(page, "utf-8", "replace")
    files = [file_facts(path) for path in sorted(work.folder.iterdir()) if not path.name.startswith(".")]
    write_json(work.folder / MANIFEST, _manifest(work, whole, files))
    return Export(
        to=to,
        form=work.form,
        items=whole.items,
        copies=whole.copies,
        sources=len(work.written),
        bytes=sum(file["bytes"] for file in files),
        last_change=work.last_change,
        changes=None if work.changes is None else _counts(sum(work.changes.counts.values(), Counter[str]())),
        withdrawn=None if work.withdrawn is None else work.withdrawn.items,
    )


def _finish_changes(work: SnapshotWork) -> None:
    if work.changes is None:
        return
    if work.earlier is not None:
        everywhere = work.earlier.sources | {one.source.name for one in work.written}
        identity = work.folder / work.writer.identity_file
        work.changes.write(compare(work.earlier.identity, identity, sources=work.chosen or everywhere))
    work.changes.write_page(f"From {_before(work)} to change {work.last_change:,}, {moment(work.now)}.")


def _before(work: SnapshotWork) -> str:
    if work.earlier is None:
        return f"change {work.since:,}"
    return f"change {work.earlier.last_change:,}, {moment(datetime.fromisoformat(work.earlier.created_at))},"


def _reported(one: WrittenSource) -> ReportedSource:
    source = one.source
    return ReportedSource(source.name, source.kind, one.coverage.items, source.last_complete_at, _is_complete(source))


def _coverage(work: SnapshotWork, whole: Coverage) -> dict[str, Any]:
    return {
        "created_at": work.now.isoformat(),
        "total": {**whole.to_json(), "distributions": work.spread.to_json()},
        "sources": [
            {
                "source": one.source.name,
                "kind": one.source.kind,
                **one.coverage.to_json(),
                "last_complete_at": _iso(one.source.last_complete_at),
                "deletions_held": one.source.deletions_held,
                "quarantined": one.source.quarantined,
                "truncated": one.source.truncated,
            }
            for one in work.written
        ],
    }


def _manifest(work: SnapshotWork, whole: Coverage, files: list[dict[str, Any]]) -> dict[str, Any]:
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
        "declared_sha256": _declared(one.source for one in work.written),
        "sources": [_provenance(one) for one in work.written],
        "files": files,
    }
    if work.changes is None:
        return manifest
    earlier = work.earlier
    return manifest | {
        "previous": {
            "created_at": earlier.created_at if earlier else None,
            "last_change": earlier.last_change if earlier else work.since,
        },
        "changes": {source: _counts(counts) for source, counts in sorted(work.changes.counts.items())},
    }


def _declared(sources: Iterable[Exported]) -> str:
    """Return the checksum of the declared sources, in which secrets are references, never values."""
    declared = [[source.name, source.kind, source.url, source.options, source.schedule] for source in sources]
    return hashlib.sha256(canonical_json(declared)).hexdigest()


def _provenance(one: WrittenSource) -> dict[str, Any]:
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
