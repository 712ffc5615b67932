"""Commands on RDF statements: statements show, dump, deltas, keep, endpoints, push, forget."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rowen.interfaces.cli.command import CommandGroup, command, options_of, source_argument
from rowen.interfaces.cli.invocation import Invocation
from rowen.model.wording import count, moment

if TYPE_CHECKING:
    from rowen.model.rdf import StatementReport, StatementTarget
    from rowen.operations import Rowen

_path = click.Path(path_type=Path)
_source = source_argument(metavar="SOURCE")
_graph = options_of("rdf.dump")
_headers = click.option(
    "--header", "headers", multiple=True, metavar="NAME: REFERENCE", help="Such as 'Authorization: Bearer env:KEY'."
)


@click.command("statements", cls=CommandGroup)
def statements() -> None:
    """Publish RDF statements of pages: dump, deltas, SPARQL endpoints."""


@command("show")
@_source
def show(call: Invocation, name: str) -> None:
    """Count pages by type, statements, and repaired and omitted statements by reason."""
    summary = call.ask(lambda rowen: rowen.rdf.summary(name))
    line = f"{count(summary.statements, 'statement')} of {_counts(summary.pages) or 'no pages'}"
    more = {"repaired": summary.repaired, "omitted": summary.dropped, "against the profile": summary.violations}
    call.out.answer(summary, line + "".join(f"; {name}: {_counts(counts)}" for name, counts in more.items() if counts))


@command("dump")
@_source
@click.option("--to", type=_path, required=True, metavar="FILE", help="The N-Quads file to write.")
@_graph
def dump(call: Invocation, name: str, to: Path, graph: str | None) -> None:
    """Write all current statements as N-Quads."""
    _print(call, call.ask(lambda rowen: rowen.rdf.dump(name, to, graph=graph)), "page")


@command("deltas")
@_source
@click.option("--to", type=_path, required=True, metavar="DIR", help="The folder of delta files; it may have some.")
@options_of(
    "rdf.write_deltas", since={"help": "Only changes after this number; default: after the last file in the folder."}
)
def deltas(call: Invocation, name: str, to: Path, since: int | None, graph: str | None) -> None:
    """Write changes of statements, continuing after the files in the folder."""
    _print(call, call.ask(lambda rowen: rowen.rdf.write_deltas(name, to, since=since, graph=graph)), "file")


@command("keep")
@_source
@click.argument("endpoint", metavar="URL")
@_headers
@_graph
def keep(call: Invocation, name: str, endpoint: str, headers: tuple[str, ...], graph: str | None) -> None:
    """Let workers keep a SPARQL endpoint up to date, also one that failed for days."""
    parsed = _parse_headers(headers)
    target = call.ask(lambda rowen: rowen.rdf.add_endpoint(name, endpoint, graph=graph, headers=parsed))
    call.out.answer(target, (name, "bold"), f"\tkept\t{endpoint}")
    call.out.say(f"`rowen worker` sends updates. `rowen statements push {name}` sends pending ones now.")


@command("endpoints")
@source_argument(metavar="[SOURCE]", required=False)
def endpoints(call: Invocation, name: str | None) -> None:
    """List SPARQL endpoints with the last change sent, pending changes and errors."""
    listed = call.ask(lambda rowen: rowen.rdf.list_endpoints(name))
    call.out.listing(
        listed,
        {
            "source": lambda endpoint: (endpoint.source, "bold"),
            "state": lambda endpoint: endpoint.state,
            "sent up to": lambda endpoint: str(endpoint.number),
            "pending": lambda endpoint: f"{endpoint.waiting:,}",
            "last sent": lambda endpoint: moment(endpoint.told_at),
            "next try": lambda endpoint: moment(endpoint.next_try_at) if endpoint.next_try_at else "",
            "last error": lambda endpoint: endpoint.last_error or "",
            "graph": lambda endpoint: endpoint.graph or "",
            "url": lambda endpoint: endpoint.endpoint,
        },
    )
    if not listed:
        call.out.say("There are no endpoints. `rowen statements keep SOURCE URL` adds one.")


@command("push")
@_source
@click.argument("endpoint", metavar="[URL]", required=False)
@_headers
@options_of("rdf.push", only=("again", "graph"))
def push(
    call: Invocation, name: str, endpoint: str | None, headers: tuple[str, ...], again: bool, graph: str | None
) -> None:
    """Send pending updates to a SPARQL endpoint; without a URL, to all that are kept."""
    if endpoint is None and (headers or graph):
        raise click.UsageError("--header and --graph need the URL of an endpoint.")
    parsed = _parse_headers(headers)

    async def answer(rowen: Rowen) -> list[StatementReport]:
        if endpoint is not None:
            return [await rowen.rdf.push(name, endpoint, graph=graph, headers=parsed, again=again)]
        targets = [target for target in await rowen.rdf.list_endpoints(name) if target.state != "once"]
        return [await rowen.rdf.push(name, target.endpoint, graph=target.graph, again=again) for target in targets]

    reports = call.ask(answer)
    for report in reports:
        _print(call, report, "page")
    if not reports:
        call.out.say(f"No endpoint is kept. `rowen statements keep {name} URL` adds one.")


@command("forget")
@_source
@click.argument("endpoint", metavar="URL")
@_graph
def forget(call: Invocation, name: str, endpoint: str, graph: str | None) -> None:
    """Send no more updates to a SPARQL endpoint; its data stays."""
    call.ask(lambda rowen: rowen.rdf.remove_endpoint(name, endpoint, graph=graph))
    call.out.answer({"source": name, "forgotten": endpoint}, f"{endpoint} receives no more updates.")


def endpoint_status(target: StatementTarget) -> str:
    """Return the state of an endpoint in one line."""
    parts = (
        target.state,
        f"sent up to change {target.number} ({moment(target.told_at)})" if target.number else "nothing sent yet",
        f"{count(target.waiting, 'change')} pending" if target.waiting else "",
        f"next try {moment(target.next_try_at)}" if target.next_try_at and target.state == "active" else "",
        target.last_error or "",
    )
    return ", ".join(part for part in parts if part)


def _parse_headers(headers: tuple[str, ...]) -> dict[str, str] | None:
    parsed = {}
    for header in headers:
        name, colon, value = header.partition(":")
        if not colon or not name.strip() or not value.strip():
            raise click.UsageError(
                "--header takes a name and where its value is found: 'Authorization: Bearer env:KEY'."
            )
        parsed[name.strip()] = value.strip()
    return parsed or None


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in sorted(counts.items()))


def _print(call: Invocation, report: StatementReport, part: str) -> None:
    parts = f"{count(report.parts, part)}, {report.added:,} added, {report.removed:,} removed"
    call.out.answer(report, f"{report.to}\t{parts}, up to change {report.last_change}")


for _command in (show, dump, deltas, keep, endpoints, push, forget):
    statements.add_command(_command)

COMMANDS = {"statements": statements}
