"""export."""

import sys
from collections.abc import Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rowen.interfaces.cli.command import command, options_of
from rowen.interfaces.cli.invocation import Invocation
from rowen.model.datasets import RECORD_KINDS
from rowen.model.wording import count, size

if TYPE_CHECKING:
    from rowen.model.items import Export
    from rowen.operations import Rowen
    from rowen.publish.formats import Format

__all__ = ["COMMANDS"]

_path = click.Path(path_type=Path)
_STDOUT = Path("-")


@command("export")
@click.argument("form", metavar="FORMAT", type=click.Choice(["parquet", "jsonl", "json", "csv", "sqlite"]))
@click.option("--to", type=_path, metavar="DIR", help="A new folder, or - for stdout; default: a folder here.")
@click.option(
    "--previous", type=_path, metavar="DIR", help="Folder of an earlier export; also write what changed since then."
)
@options_of("exports.export", record_kinds={"type": click.Choice(RECORD_KINDS)}, since={"metavar": "N"})
@click.option("--extractions", is_flag=True, help="Export extracted facts instead of items.")
@click.option("--schema", metavar="NAME", help="With --extractions: only facts of this schema.")
def export(
    call: Invocation,
    form: "Format",
    to: Path | None,
    limit: int | None,
    extractions: bool,
    schema: str | None,
    **how: Any,
) -> None:
    """Write a snapshot of all items into a new folder or to stdout, or of all facts."""
    from rowen.operations.facts import fact

    if to == _STDOUT:
        _to_stdout(call, form, limit=limit, others=[extractions, schema], **how)
        return
    now = datetime.now(UTC)
    target = to or Path(f"rowen-{form}-{now:%Y%m%d-%H%M%S}")
    if extractions or schema:
        if (
            limit
            or how["joint"]
            or how["since"] is not None
            or how["previous"]
            or how["withdrawn"]
            or how["record_kinds"]
        ):
            raise click.UsageError(
                "--limit, --joint, --since, --previous, --withdrawn and --record-kind are for items."
            )
        asked = {"schema": schema, "sources": how["sources"], "excel": how["excel"]}
        done = call.ask(lambda rowen: rowen.exports.export_extractions(form, target, **asked))
        told = f"{done.to}\tfacts of {count(done.items, 'item')}, {size(done.bytes)}"
        call.out.answer(fact(done), told)
        return
    done = call.ask(lambda rowen: rowen.export(form, target, **how, limit=limit, now=now))
    call.out.answer({**fact(done), "seconds": round((datetime.now(UTC) - now).total_seconds(), 3)}, _line(done))


def _to_stdout(
    call: Invocation,
    form: str,
    *,
    sources: Sequence[str],
    record_kinds: Sequence[str],
    excel: bool,
    limit: int | None,
    others: list[Any],
    **rest: Any,
) -> None:
    if any(others) or any(value is not None and value is not False for value in rest.values()):
        raise click.UsageError("stdout takes items, and of the options --source, --record-kind, --limit and --excel.")
    how = {"form": form, "sources": sources, "record_kinds": record_kinds, "limit": limit, "excel": excel}
    call.ask(lambda rowen: _print(rowen, **how))


async def _print(rowen: "Rowen", **how: Any) -> None:
    async with aclosing(rowen.exports.stream(**how)) as pieces:
        async for piece in pieces:
            sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def _line(done: "Export") -> str:
    listed = f", {done.copies:,} of them copies of others" if done.copies else ""
    told = f"{done.to}\t{count(done.items, 'item')} of {count(done.sources, 'source')}{listed}, {size(done.bytes)}"
    if done.withdrawn is not None:
        told += f", {done.withdrawn:,} withdrawn"
    if done.changes is None:
        return told
    changed = " · ".join(f"{number:,} {change}" for change, number in done.changes.items() if number)
    return f"{told}; {changed or 'nothing changed'}"


COMMANDS = {"export": export}
