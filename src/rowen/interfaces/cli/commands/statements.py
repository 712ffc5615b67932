"""statements: show, dump, deltas, keep, endpoints, push, forget."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rowen.interfaces.cli.command import CommandGroup, command
from rowen.interfaces.cli.completing import source_names
from rowen.interfaces.cli.invocation import Invocation
from rowen.model.wording import count, moment

if TYPE_CHECKING:
    from rowen.model.rdf import StatementReport, StatementTarget
    from rowen.operations import Rowen

__all__ = ["COMMANDS", "follow_up"]

_path = click.Path(path_type=Path)
_graph = click.option("--graph", metavar="IRI", help="One graph for all; default: each page has its own.")
_headers = click.option(
    "--header", "headers", multiple=True, metavar="NAME: REFERENCE", help="Such as 'Authorization: Bearer env:KEY'."
)


@click.command("statements", cls=CommandGroup)
def statements() -> None:
    """Take what pages state in RDFa elsewhere: show, dump, deltas, keep, push."""


@command("show")
@click.argument("name", metavar="SOURCE", shell_complete=source_names)
def show(call: Invocation, name: str) -> None:
    """Count pages by type, statements, and what was repaired or left out, by reason."""
    from rowen.operations.facts import fact

    found = call.ask(lambda rowen: rowen.rdf.summary(name))
    told = f"{count(found.statements, 'statement')} of {_counted(found.pages) or 'no pages'}"
    more = [("repaired", found.repaired), ("left out", found.dropped), ("against the profile", found.violations)]
    told += "".join(f"; {word}: {_counted(counts)}" for word, counts in more if counts)
    call.out.answer(fact(found), told)


@command("dump")
@click.argument("name", metavar="SOURCE", shell_complete=source_names)
@click.option("--to", type=_path, required=True, metavar="FILE", help="The file to write, as N-Quads.")
@_graph
def dump(call: Invocation, name: str, to: Path, graph: str | None) -> None:
    """Write all that pages state now as N-Quads."""
    _tell(call, call.ask(lambda rowen: rowen.rdf.dump(name, to, graph=graph)), "page")


@command("deltas")
@click.argument("name", metavar="SOURCE", shell_complete=source_names)
@click.option("--to", type=_path, required=True, metavar="DIR", help="The folder of delta files; it may have some.")
@click.option(
    "--since", type=click.IntRange(min=0), metavar="N", help="After this number; default: where the files end."
)
@_graph
def deltas(call: Invocation, name: str, to: Path, since: int | None, graph: str | None) -> None:
    """Write how statements changed, from where the files in the folder end."""
    _tell(call, call.ask(lambda rowen: rowen.rdf.write_deltas(name, to, since=since, graph=graph)), "file")


@command("keep")
@click.argument("name", metavar="SOURCE", shell_complete=source_names)
@click.argument("endpoint", metavar="URL")
@_headers
@_graph
def keep(call: Invocation, name: str, endpoint: str, headers: tuple[str, ...], graph: str | None) -> None:
    """Have workers keep a SPARQL endpoint up to date from now on, also one that failed for days."""
    from rowen.operations.facts import fact

    made = call.ask(lambda rowen: rowen.rdf.add_endpoint(name, endpoint, graph=graph, headers=_given(headers)))
    call.out.answer(fact(made), (name, "bold"), f"\tkept\t{endpoint}")
    call.out.say(f"A worker sends updates: `rowen worker`. `rowen statements push {name}` sends those that wait now.")


@command("endpoints")
@click.argument("name", metavar="[SOURCE]", required=False, shell_complete=source_names)
def endpoints(call: Invocation, name: str | None) -> None:
    """List SPARQL endpoints: up to which change each was told, what waits, what failed."""
    found = call.ask(lambda rowen: rowen.rdf.list_endpoints(name))
    call.out.listing(
        found,
        {
            "source": lambda one: (one.source, "bold"),
            "state": lambda one: one.state,
            "told up to": lambda one: str(one.number),
            "waiting": lambda one: f"{one.waiting:,}",
            "last told": lambda one: moment(one.told_at),
            "next try": lambda one: moment(one.next_try_at) if one.next_try_at else "",
            "last error": lambda one: one.last_error or "",
            "graph": lambda one: one.graph or "",
            "url": lambda one: one.endpoint,
        },
    )
    if not found:
        call.out.say("No endpoint is told. `rowen statements keep SOURCE URL` changes that.")


@command("push")
@click.argument("name", metavar="SOURCE", shell_complete=source_names)
@click.argument("endpoint", metavar="[URL]", required=False)
@_headers
@click.option("--all", "again", is_flag=True, help="All that is stated now, for one that lost something.")
@_graph
def push(
    call: Invocation, name: str, endpoint: str | None, headers: tuple[str, ...], again: bool, graph: str | None
) -> None:
    """Bring a SPARQL endpoint up to date by updates, from where it was left; without a URL, all that are kept."""
    if endpoint is None and (headers or graph):
        raise click.UsageError("--header and --graph go with the URL of an endpoint.")

    async def asked(rowen: "Rowen") -> list["StatementReport"]:
        if endpoint is not None:
            given = _given(headers)
            return [await rowen.rdf.push(name, endpoint, graph=graph, headers=given, again=again)]
        kept = [
            list_endpoint for list_endpoint in await rowen.rdf.list_endpoints(name) if list_endpoint.state != "once"
        ]
        return [await rowen.rdf.push(name, one.endpoint, graph=one.graph, again=again) for one in kept]

    reports = call.ask(asked)
    for report in reports:
        _tell(call, report, "page")
    if not reports:
        call.out.say(f"No endpoint is kept. `rowen statements keep {name} URL` changes that.")


@command("forget")
@click.argument("name", metavar="SOURCE", shell_complete=source_names)
@click.argument("endpoint", metavar="URL")
@_graph
def forget(call: Invocation, name: str, endpoint: str, graph: str | None) -> None:
    """Tell a SPARQL endpoint no more; what it holds stays there."""
    call.ask(lambda rowen: rowen.rdf.remove_endpoint(name, endpoint, graph=graph))
    call.out.answer({"source": name, "forgotten": endpoint}, f"{endpoint} is told no more.")


def follow_up(target: "StatementTarget") -> str:
    """How an endpoint is doing, in a line."""
    waiting = (
        f"{count(target.waiting, 'change')} {'waits' if target.waiting == 1 else 'wait'}" if target.waiting else ""
    )
    told = (
        target.state,
        f"told up to change {target.number} ({moment(target.told_at)})" if target.number else "never told yet",
        waiting,
        f"next try {moment(target.next_try_at)}" if target.next_try_at and target.state == "active" else "",
        target.last_error or "",
    )
    return ", ".join(part for part in told if part)


def _given(headers: tuple[str, ...]) -> dict[str, str] | None:
    return dict(_header(header) for header in headers) or None


def _header(written: str) -> tuple[str, str]:
    name, colon, value = written.partition(":")
    if not colon or not name.strip() or not value.strip():
        raise click.UsageError("--header takes a name and where its value is found: 'Authorization: Bearer env:KEY'.")
    return name.strip(), value.strip()


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {word}" for word, number in sorted(counts.items()))


def _tell(call: Invocation, report: "StatementReport", part: str) -> None:
    from rowen.operations.facts import fact

    told = f"{count(report.parts, part)}, {report.added:,} added, {report.removed:,} removed"
    call.out.answer(fact(report), f"{report.to}\t{told}, up to change {report.last_change}")


for one in (show, dump, deltas, keep, endpoints, push, forget):
    statements.add_command(one)

COMMANDS = {"statements": statements}
