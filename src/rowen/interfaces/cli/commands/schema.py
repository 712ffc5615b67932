"""schema: add, list, show, diff, export, remove."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rowen.interfaces.cli.command import CommandGroup, command
from rowen.interfaces.cli.invocation import Invocation
from rowen.model.wording import count

if TYPE_CHECKING:
    from rowen.model.schemas import Schema

__all__ = ["COMMANDS"]

_path = click.Path(path_type=Path)


@click.command("schema", cls=CommandGroup)
def schema() -> None:
    """Keep the schemas that facts are extracted as."""


@command("add")
@click.argument("path", metavar="FILE|FOLDER", type=_path)
@click.option("--as", "ref", metavar="NAME@1.0.0", help="Its name and version; default: as in NAME/VERSION.json.")
@click.option(
    "--prefix", metavar="TEXT", default="", help="Before each name of a folder: theirs_ makes theirs_product."
)
def add(call: Invocation, path: Path, ref: str | None, prefix: str) -> None:
    """Keep a schema, or all of a folder. A version never changes; a change is a new version."""
    from rowen.operations.facts import fact

    for one in call.ask(lambda rowen: rowen.schemas.add_files(path, ref=ref, prefix=prefix)):
        call.out.answer(fact(one), (one.ref, "bold"), f"\tadded\t{count(len(one.properties), 'field')}")


@command("list")
@click.argument("name", required=False)
def listed(call: Invocation, name: str | None) -> None:
    """List all versions, or those of one schema."""
    call.out.listing(
        call.ask(lambda rowen: rowen.schemas.list(name)),
        {
            "schema": lambda one: (one.ref, "bold"),
            "fields": lambda one: ", ".join(one.properties),
            "from": lambda one: "bundled" if one.bundled else "added",
        },
    )


@command("show")
@click.argument("ref", metavar="NAME[@VERSION]")
def show(call: Invocation, ref: str) -> None:
    """Print a schema as JSON."""
    from rowen.operations.facts import fact

    found: Schema = call.ask(lambda rowen: rowen.schemas.get(ref))
    if call.out.json:
        call.out.emit(fact(found))
    else:
        call.out.line(json.dumps(dict(found.definition), indent=2, ensure_ascii=False))


@command("diff")
@click.argument("older", metavar="NAME@VERSION")
@click.argument("newer", metavar="NAME@VERSION")
def diff(call: Invocation, older: str, newer: str) -> None:
    """Show what differs between two versions, and whether old data satisfies the new one."""
    from rowen.operations.facts import fact

    found = call.ask(lambda rowen: rowen.schemas.compare(older, newer))
    if call.out.json:
        call.out.emit(fact(found))
        return
    for change in found.changes:
        call.out.line(("! " if change.breaking else "  ", "red"), (change.path, "bold"), f"\t{change.what}")
    call.out.say(
        f"{found.newer} is {found.compatibility} with {found.older}.".replace("is same with", "is the same as")
    )


@command("export")
@click.option("--to", type=_path, required=True, metavar="DIR", help="A new folder.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
def export(call: Invocation, to: Path, names: tuple[str, ...]) -> None:
    """Write schemas as files NAME/VERSION.json, with an index of the latest ones."""
    for one in call.ask(lambda rowen: rowen.schemas.export(to, names=names)):
        path = to / one.name / f"{one.version}.json"
        call.out.answer({"path": path}, str(path))


@command("remove")
@click.argument("ref", metavar="NAME@VERSION")
@click.option("--with-facts", is_flag=True, help="Also from the sources that carry it, with the facts that rest on it.")
def remove(call: Invocation, ref: str, with_facts: bool) -> None:
    """Forget one version of a schema; refused while it is in use."""
    from rowen.operations.facts import fact

    use = call.ask(lambda rowen: rowen.schemas.remove(ref, with_facts=with_facts))
    gone = f"\t{count(use.versions, 'version')} of facts" if use.versions else ""
    call.out.answer(fact(use), (use.schema, "bold"), f"\tremoved{gone}")


for one in (add, listed, show, diff, export, remove):
    schema.add_command(one)

COMMANDS = {"schema": schema}
