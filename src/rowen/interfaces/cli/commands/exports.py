"""The command `export`."""

from __future__ import annotations

import sys
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rowen.interfaces.cli.command import command, options_of
from rowen.interfaces.cli.examples import FORMATS
from rowen.interfaces.cli.invocation import Invocation
from rowen.model.datasets import RECORD_KINDS
from rowen.model.wording import count, size

if TYPE_CHECKING:
    from rowen.model.items import Export
    from rowen.operations import Rowen

_path = click.Path(path_type=Path)
_STDOUT = Path("-")


@command("export")
@click.argument("form", metavar="FORMAT", type=click.Choice(list(FORMATS)))
@click.option("--to", type=_path, metavar="DIR", help="A new folder, or - for stdout; default: a folder here.")
@click.option(
    "--previous", type=_path, metavar="DIR", help="Folder of an earlier export; also write the changes since then."
)
@options_of("exports.export", record_kinds={"type": click.Choice(RECORD_KINDS)})
@click.option("--extractions", is_flag=True, help="Export extracted facts instead of items.")
@click.option("--schema", metavar="NAME", help="With --extractions: only facts of this schema.")
def export(call: Invocation, form: Any, to: Path | None, extractions: bool, schema: str | None, **how: Any) -> None:
    """Export items or facts into a new folder or to stdout."""
    if to == _STDOUT:
        _to_stdout(call, form, others=extractions or schema, **how)
        return
    now = datetime.now(UTC)
    target = to or Path(f"rowen-{form}-{now:%Y%m%d-%H%M%S}")
    if extractions or schema:
        sources, excel = how.pop("sources"), how.pop("excel")
        if any(value is not None and value is not False and value != () for value in how.values()):
            raise click.UsageError(
                "--extractions cannot be combined with --limit, --joint, --since, --previous, --withdrawn and"
                " --record-kind."
            )
        done = call.ask(
            lambda rowen: rowen.exports.export_extractions(form, target, schema=schema, sources=sources, excel=excel)
        )
        call.out.answer(done, f"{done.to}\tfacts of {count(done.items, 'item')}, {size(done.bytes)}")
        return
    done = call.ask(lambda rowen: rowen.export(form, target, **how, now=now))
    call.out.answer(done, _line(done), seconds=round((datetime.now(UTC) - now).total_seconds(), 3))


def _to_stdout(
    call: Invocation, form: Any, *, sources: Any, record_kinds: Any, excel: bool, limit: int | None, **others: Any
) -> None:
    if any(value is not None and value is not False for value in others.values()):
        raise click.UsageError("With --to - only --source, --record-kind, --limit and --excel can be used.")

    async def write(rowen: Rowen) -> None:
        stream = rowen.exports.stream(form=form, sources=sources, record_kinds=record_kinds, limit=limit, excel=excel)
        async with aclosing(stream) as pieces:
            async for piece in pieces:
                sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()

    call.ask(write)


def _line(done: Export) -> str:
    copies = f", {done.copies:,} of them copies of others" if done.copies else ""
    line = f"{done.to}\t{count(done.items, 'item')} of {count(done.sources, 'source')}{copies}, {size(done.bytes)}"
    if done.withdrawn is not None:
        line += f", {done.withdrawn:,} withdrawn"
    if done.changes is None:
        return line
    changed = " · ".join(f"{number:,} {change}" for change, number in done.changes.items() if number)
    return f"{line}; {changed or 'nothing changed'}"


COMMANDS = {"export": export}
