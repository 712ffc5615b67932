"""Commands on schemas: schema add, list, show, diff, export, remove."""

import json
from pathlib import Path

import click

from rowen.interfaces.cli.command import CommandGroup, command, options_of
from rowen.interfaces.cli.invocation import Invocation
from rowen.model.wording import count

_path = click.Path(path_type=Path)


@click.command("schema", cls=CommandGroup)
def schema() -> None:
    """Manage the schemas of extracted facts."""


@command("add")
@click.argument("path", metavar="FILE|FOLDER", type=_path)
@options_of(
    "schemas.add_files",
    ref={"flag": "--as", "metavar": "NAME@1.0.0", "help": "Name and version; default: as in NAME/VERSION.json."},
    prefix={"show_default": False, "help": "Prefix for the names in a folder: theirs_ makes theirs_product."},
)
def add(call: Invocation, path: Path, ref: str | None, prefix: str) -> None:
    """Add a schema, or all of a folder. A version never changes; a change is a new version."""
    for added in call.ask(lambda rowen: rowen.schemas.add_files(path, ref=ref, prefix=prefix)):
        call.out.answer(added, (added.ref, "bold"), f"\tadded\t{count(len(added.properties), 'field')}")


@command("list")
@click.argument("name", required=False)
def list_schemas(call: Invocation, name: str | None) -> None:
    """List all versions, or those of one schema."""
    call.out.listing(
        call.ask(lambda rowen: rowen.schemas.list(name)),
        {
            "schema": lambda schema: (schema.ref, "bold"),
            "fields": lambda schema: ", ".join(schema.properties),
            "origin": lambda schema: "bundled" if schema.bundled else "added",
        },
    )


@command("show")
@click.argument("ref", metavar="NAME[@VERSION]")
def show(call: Invocation, ref: str) -> None:
    """Print a schema as JSON."""
    schema = call.ask(lambda rowen: rowen.schemas.get(ref))
    call.out.answer(schema, json.dumps(dict(schema.definition), indent=2, ensure_ascii=False))


@command("diff")
@click.argument("older", metavar="NAME@VERSION")
@click.argument("newer", metavar="NAME@VERSION")
def diff(call: Invocation, older: str, newer: str) -> None:
    """Show differences between two versions, and whether old data satisfies the new one."""
    comparison = call.ask(lambda rowen: rowen.schemas.compare(older, newer))
    if call.out.json:
        call.out.emit(comparison)
        return
    for change in comparison.changes:
        call.out.line(("! " if change.breaking else "  ", "red"), (change.path, "bold"), f"\t{change.what}")
    relation = "the same as" if comparison.compatibility == "same" else f"{comparison.compatibility} with"
    call.out.say(f"{comparison.newer} is {relation} {comparison.older}.")


@command("export")
@click.option("--to", type=_path, required=True, metavar="DIR", help="A new folder.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
def export(call: Invocation, to: Path, names: tuple[str, ...]) -> None:
    """Write schemas as files NAME/VERSION.json, with an index of the latest versions."""
    for exported in call.ask(lambda rowen: rowen.schemas.export(to, names=names)):
        path = to / exported.name / f"{exported.version}.json"
        call.out.answer({"path": path}, str(path))


@command("remove")
@click.argument("ref", metavar="NAME@VERSION")
@options_of("schemas.remove")
def remove(call: Invocation, ref: str, with_facts: bool) -> None:
    """Remove one version of a schema; refused while it is in use."""
    use = call.ask(lambda rowen: rowen.schemas.remove(ref, with_facts=with_facts))
    versions = f"\t{count(use.versions, 'version')} of facts" if use.versions else ""
    call.out.answer(use, (use.schema, "bold"), f"\tremoved{versions}")


for _command in (add, list_schemas, show, diff, export, remove):
    schema.add_command(_command)

COMMANDS = {"schema": schema}
