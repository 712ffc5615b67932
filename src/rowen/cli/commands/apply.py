"""apply."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rowen.cli.command import command
from rowen.cli.door import Door
from rowen.cli.output import Piece
from rowen.cli.words import count

if TYPE_CHECKING:
    from rowen.service.apply import Deed

__all__ = ["COMMANDS"]

_STYLES = {"added": "green", "changed": "yellow", "paused": "yellow", "resumed": "green", "removed": "red"}


@command("apply")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Say what would change; write nothing.")
@click.option("--prune", is_flag=True, help="Remove the sources that the file does not name, with all their items.")
@click.option("--trust", is_flag=True, help="Let the file refer to secrets (env:, file:) and folders of this machine.")
def apply(door: Door, path: Path, dry_run: bool, prune: bool, trust: bool) -> None:
    """Make the sources be what a file declares."""
    deeds = door.ask(lambda rowen: rowen.apply(path, dry_run=dry_run, prune=prune, trust=trust))
    for deed in deeds:
        if door.out.json:
            door.out.emit(_fact(deed, dry=dry_run))
        elif deed.deed != "unchanged":
            door.out.line(*_line(deed))
    door.out.say(_summary(deeds, dry=dry_run))
    if any(deed.schedule for deed in deeds):
        door.out.say("Schedules are kept, but not run yet: `rowen sync` syncs all sources that are not paused.")


def _fact(deed: "Deed", *, dry: bool) -> dict[str, Any]:
    changes = {name: {"before": before, "after": after} for name, (before, after) in deed.changes.items()}
    return {
        "source": deed.source,
        "deed": deed.deed,
        "kind": deed.kind,
        "url": deed.url,
        "changes": changes,
        "items": deed.items,
        "dry_run": dry,
    }


def _line(deed: "Deed") -> list[str | Piece]:
    match deed.deed:
        case "changed":
            told = ", ".join(
                f"{name}: {_said(before)} → {_said(after)}" for name, (before, after) in deed.changes.items()
            )
        case "removed":
            told = f"{deed.kind}\t{deed.url}\t{count(deed.items, 'item')}"
        case _:
            told = f"{deed.kind}\t{deed.url}" + ("\tpaused" if deed.deed == "added" and deed.changes else "")
    return [(deed.source, "bold"), "\t", (deed.deed, _STYLES.get(deed.deed, "")), f"\t{told}"]


def _said(value: Any) -> str:
    return "default" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _summary(deeds: list["Deed"], *, dry: bool) -> str:
    counts = Counter(deed.deed for deed in deeds)
    told = ", ".join(f"{number:,} {deed}" for deed, number in counts.most_common()) or "no sources"
    if dry:
        return f"Would be: {told}. Nothing was written."
    return f"{told[0].upper()}{told[1:]}." + (" Next: `rowen sync`." if counts["added"] or counts["resumed"] else "")


COMMANDS = {"apply": apply}
