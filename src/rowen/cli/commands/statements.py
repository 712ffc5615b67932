"""statements: show, dump, deltas, push."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rowen.cli.command import CommandGroup, command
from rowen.cli.invocation import Invocation
from rowen.model.wording import count

if TYPE_CHECKING:
    from rowen.model.statements import StatementReport

__all__ = ["COMMANDS"]

_path = click.Path(path_type=Path)
_graph = click.option("--graph", metavar="IRI", help="One graph for all; default: each page has its own.")


@click.command("statements", cls=CommandGroup)
def statements() -> None:
    """Take what pages state in RDFa elsewhere: show, dump, deltas, push."""


@command("show")
@click.argument("name", metavar="SOURCE")
def show(call: Invocation, name: str) -> None:
    """Count pages by type, statements, and what was repaired or left out, by reason."""
    from rowen.service.facts import fact

    found = call.ask(lambda rowen: rowen.statements(name))
    told = f"{count(found.statements, 'statement')} of {_counted(found.pages) or 'no pages'}"
    more = [("repaired", found.repaired), ("left out", found.dropped)]
    told += "".join(f"; {word}: {_counted(counts)}" for word, counts in more if counts)
    call.out.answer(fact(found), told)


@command("dump")
@click.argument("name", metavar="SOURCE")
@click.option("--to", type=_path, required=True, metavar="FILE", help="The file to write, as N-Quads.")
@_graph
def dump(call: Invocation, name: str, to: Path, graph: str | None) -> None:
    """Write all that pages state now as N-Quads."""
    _tell(call, call.ask(lambda rowen: rowen.dump_statements(name, to, graph=graph)), "page")


@command("deltas")
@click.argument("name", metavar="SOURCE")
@click.option("--to", type=_path, required=True, metavar="DIR", help="The folder of delta files; it may have some.")
@click.option(
    "--since", type=click.IntRange(min=0), metavar="N", help="After this number; default: where the files end."
)
@_graph
def deltas(call: Invocation, name: str, to: Path, since: int | None, graph: str | None) -> None:
    """Write how statements changed, a file for each run, from where the files in the folder end."""
    _tell(call, call.ask(lambda rowen: rowen.statement_deltas(name, to, since=since, graph=graph)), "file")


@command("push")
@click.argument("name", metavar="SOURCE")
@click.argument("endpoint", metavar="URL")
@click.option(
    "--header", "headers", multiple=True, metavar="NAME: REFERENCE", help="Such as 'Authorization: Bearer env:KEY'."
)
@click.option("--again", is_flag=True, help="From the beginning, whatever it was told before.")
@_graph
def push(call: Invocation, name: str, endpoint: str, headers: tuple[str, ...], again: bool, graph: str | None) -> None:
    """Bring a SPARQL endpoint up to date by updates, from where it was left."""
    given = dict(_header(one) for one in headers)
    report = call.ask(lambda rowen: rowen.push_statements(name, endpoint, graph=graph, headers=given, again=again))
    _tell(call, report, "page")


def _header(written: str) -> tuple[str, str]:
    name, colon, value = written.partition(":")
    if not colon or not name.strip() or not value.strip():
        raise click.UsageError("--header takes a name and where its value is found: 'Authorization: Bearer env:KEY'.")
    return name.strip(), value.strip()


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {word}" for word, number in sorted(counts.items()))


def _tell(call: Invocation, report: "StatementReport", part: str) -> None:
    from rowen.service.facts import fact

    told = f"{count(report.parts, part)}, {report.added:,} added, {report.removed:,} removed"
    call.out.answer(fact(report), f"{report.to}\t{told}, up to change {report.last_change}")


for one in (show, dump, deltas, push):
    statements.add_command(one)

COMMANDS = {"statements": statements}
