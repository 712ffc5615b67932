"""apply."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rowen.interfaces.cli.command import command
from rowen.interfaces.cli.invocation import Invocation
from rowen.interfaces.cli.output import Piece
from rowen.model.wording import count

if TYPE_CHECKING:
    from rowen.model.sources import AppliedSource

__all__ = ["COMMANDS"]

_STYLES = {"added": "green", "changed": "yellow", "paused": "yellow", "resumed": "green", "removed": "red"}


@command("apply")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Say what would change; write nothing.")
@click.option("--prune", is_flag=True, help="Remove the sources that the file does not name, with all their items.")
@click.option("--trust", is_flag=True, help="Let the file refer to secrets (env:, file:) and folders of this machine.")
def apply(call: Invocation, path: Path, dry_run: bool, prune: bool, trust: bool) -> None:
    """Make the sources be what a file declares."""
    from rowen.operations.facts import fact

    applied = call.ask(lambda rowen: rowen.sources.apply(path, dry_run=dry_run, prune=prune, trust=trust))
    for one in applied:
        if call.out.json:
            call.out.emit({**fact(one), "dry_run": dry_run})
        elif one.action != "unchanged":
            call.out.line(*_line(one))
    call.out.say(_summary(applied, dry=dry_run))
    if any(one.schedule for one in applied):
        call.out.say("Schedules are kept by `rowen worker`, as long as one runs.")


def _line(one: "AppliedSource") -> list[str | Piece]:
    match one.action:
        case "changed":
            told = ", ".join(
                f"{name}: {_said(before)} → {_said(after)}" for name, (before, after) in one.changes.items()
            )
        case "removed":
            told = f"{one.kind}\t{one.url}\t{count(one.items, 'item')}"
        case _:
            told = f"{one.kind}\t{one.url}" + ("\tpaused" if "state" in one.changes else "")
            if "schemas" in one.changes:
                told += f"\tschemas: {_said(one.changes['schemas'][1])}"
    return [(one.source, "bold"), "\t", (one.action, _STYLES.get(one.action, "")), f"\t{told}"]


def _said(value: Any) -> str:
    return "default" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _summary(applied: list["AppliedSource"], *, dry: bool) -> str:
    counts = Counter(one.action for one in applied)
    told = ", ".join(f"{number:,} {action}" for action, number in counts.most_common()) or "no sources"
    if dry:
        return f"Would be: {told}. Nothing was written."
    return f"{told[0].upper()}{told[1:]}." + (" Next: `rowen sync`." if counts["added"] or counts["resumed"] else "")


COMMANDS = {"apply": apply}
