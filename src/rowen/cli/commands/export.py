"""export."""

import sys
from collections.abc import Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rowen.cli.command import command
from rowen.cli.completing import source_names
from rowen.cli.invocation import Invocation
from rowen.model.record_kinds import RECORD_KINDS
from rowen.model.wording import count, size

if TYPE_CHECKING:
    from rowen.model.export import Export
    from rowen.publish.formats import Format
    from rowen.service import Rowen

__all__ = ["COMMANDS"]

_path = click.Path(path_type=Path)
_STDOUT = Path("-")


@command("export")
@click.argument("form", metavar="FORMAT", type=click.Choice(["parquet", "jsonl", "csv", "sqlite"]))
@click.option("--to", type=_path, metavar="DIR", help="A new folder, or - for stdout; default: a folder here.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="With --to -: at most so many items.")
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="NAME",
    shell_complete=source_names,
    help="Only this source; may be repeated.",
)
@click.option(
    "--record-kind",
    "record_kinds",
    multiple=True,
    type=click.Choice(RECORD_KINDS),
    help="Only records of catalogs that describe this; may be repeated.",
)
@click.option("--previous", type=_path, metavar="DIR", help="An earlier export: also say what changed since then.")
@click.option("--excel", is_flag=True, help="CSV that spreadsheets read rightly, and take no formulas from.")
@click.option("--withdrawn", is_flag=True, help="Also the last copies of items that were deleted not long ago.")
@click.option("--extractions", is_flag=True, help="The facts that were extracted, instead of the items.")
@click.option("--schema", metavar="NAME", help="With --extractions: only those of this schema.")
def export(
    call: Invocation,
    form: "Format",
    to: Path | None,
    limit: int | None,
    extractions: bool,
    schema: str | None,
    **how: Any,
) -> None:
    """Write a snapshot of all items into a new folder, or of all facts."""
    from rowen.service.facts import fact

    if to == _STDOUT or limit is not None:
        others = [
            *(value for name, value in how.items() if name not in ("sources", "record_kinds")),
            extractions,
            schema,
        ]
        if form != "jsonl" or to != _STDOUT or any(others):
            raise click.UsageError(
                "stdout takes items as jsonl: `rowen export jsonl --to -`, with --source, --record-kind, --limit."
            )
        call.ask(
            lambda rowen: _print_lines(rowen, sources=how["sources"], record_kinds=how["record_kinds"], limit=limit)
        )
        return
    now = datetime.now(UTC)
    target = to or Path(f"rowen-{form}-{now:%Y%m%d-%H%M%S}")
    if extractions or schema:
        if how["previous"] or how["withdrawn"] or how["record_kinds"]:
            raise click.UsageError("--previous, --withdrawn and --record-kind are for items.")
        asked = {"schema": schema, "sources": how["sources"], "excel": how["excel"]}
        done = call.ask(lambda rowen: rowen.export_extractions(form, target, **asked))
        told = f"{done.to}\tfacts of {count(done.items, 'item')}, {size(done.bytes)}"
        call.out.answer(fact(done), told)
        return
    done = call.ask(lambda rowen: rowen.export(form, target, **how, now=now))
    call.out.answer({**fact(done), "seconds": round((datetime.now(UTC) - now).total_seconds(), 3)}, _line(done))


async def _print_lines(
    rowen: "Rowen", *, sources: Sequence[str], record_kinds: Sequence[str], limit: int | None
) -> None:
    async with aclosing(rowen.export_lines(sources=sources, record_kinds=record_kinds, limit=limit)) as lines:
        async for some in lines:
            sys.stdout.write(some.decode())


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
