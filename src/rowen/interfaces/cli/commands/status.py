"""Commands on the state of everything: status, circuits."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from rowen.interfaces.cli.command import command, listing_group
from rowen.interfaces.cli.commands.statements import endpoint_status
from rowen.interfaces.cli.invocation import Invocation
from rowen.interfaces.cli.output import Output, Piece, fact_of
from rowen.model.wording import age, count, moment, percent, seconds
from rowen.operations.summary import (
    remarks_on_health,
    remarks_on_model,
    remarks_on_source,
    remarks_on_switched_off,
    stale_share,
)

if TYPE_CHECKING:
    from rowen.model.sources import Overview
    from rowen.model.status import CircuitStatus
    from rowen.operations import Rowen

_CIRCUITS = {"closed": "green", "half-open": "yellow", "open": "bold red"}


@command("status")
def status(call: Invocation) -> None:
    """Show the state of sources and database."""
    call.ask(lambda rowen: _print_status(call.out, rowen))


async def _print_status(out: Output, rowen: Rowen) -> None:
    sources = await rowen.sources.overview()
    followed, endpoints = await rowen.sources.list_following(), await rowen.rdf.list_endpoints()
    models, database = await rowen.embeddings.list(), await rowen.database.status()
    health, disabled = await rowen.status.health(), await rowen.status.list_disabled()

    def show(name: str, thing: Any, *cells: str) -> None:
        if out.json:
            out.emit({name: fact_of(thing)})
        else:
            out.fields(*cells)

    _print_sources(out, sources)
    for feed in followed:
        show(
            "following",
            feed,
            "feed",
            feed.source,
            feed.state,
            f"last poll {moment(feed.last_poll_at)}",
            f"last new {moment(feed.last_new_at)}",
            f"next poll {moment(feed.next_poll_at)}" if feed.next_poll_at else "",
            f"{count(feed.pages, 'page')} ({feed.pages_immutable or 0:,} never change)" if feed.pages else "",
            count(feed.members or 0, "member"),
            f"{count(feed.backlog, 'page')} not read yet" if feed.backlog else "",
            feed.last_error or "",
        )
    for endpoint in endpoints:
        show("endpoint", endpoint, "endpoint", endpoint.source, endpoint.endpoint, endpoint_status(endpoint))
    queue = health.queue
    show(
        "health",
        health,
        "queue",
        "paused" if queue.paused else count(len(health.workers), "worker"),
        f"{queue.ready:,} waiting",
        f"{queue.running:,} running",
        f"{queue.later:,} later",
        f"{health.due:,} due",
    )
    for remark in remarks_on_health(health):
        out.say(remark)
    share = stale_share(sources)
    if share is not None:
        stale = f"{percent(share)} of all items are expected to be stale by now"
        show("freshness", {"stale": round(share, 3)}, "freshness", stale)
    for model in models:
        show(
            "embeddings",
            model,
            "embeddings",
            model.name,
            model.state,
            count(model.vectors, "vector"),
            f"{model.pending:,} pending",
            f"{percent(model.coverage)} of all passages",
            f"{model.refused:,} refused" if model.refused else "",
            f"{model.again:,} to be embedded again" if model.again else "",
            "indexed" if model.indexed else "no index yet",
        )
        if not out.json:
            for remark in remarks_on_model(model):
                out.say(remark)
    show(
        "database",
        database,
        "database",
        database.place,
        f"PostgreSQL {database.server_version}",
        f"schema {database.schema}",
        count(database.last_change, "change"),
    )
    for source in sources:
        for remark in remarks_on_source(source):
            out.say(remark)
    for remark in remarks_on_switched_off(disabled):
        out.say(remark)
    if not sources:
        out.say("There are no sources yet. `rowen sync ./folder` adds one and reads it.")


def _print_sources(out: Output, sources: list[Overview]) -> None:
    now = datetime.now(UTC)
    columns: dict[str, Callable[[Overview], str | Piece]] = {
        "source": lambda source: (source.name, "bold"),
        "state": lambda source: source.state,
        "items": lambda source: str(source.items),
        "last run": lambda source: source.last_status or "never",
        "when": lambda source: age(source.last_run_at, now) if out.terminal else moment(source.last_run_at),
        "unreadable": lambda source: (str(source.quarantined), "red" if source.quarantined else "dim"),
        "deletions": lambda source: (str(source.deletions_held), "red" if source.deletions_held else "dim"),
        "stale": lambda source: "" if source.stale is None else percent(source.stale),
        "by meaning": lambda source: "" if source.coverage is None else percent(source.coverage),
    }
    if not out.terminal:
        # In a pipe the first cell distinguishes sources from the other lines.
        columns = {"type": lambda _: "source", **columns}
    if sources or not out.terminal:
        out.listing(sources, columns)


@listing_group("circuits")
def circuits(call: Invocation) -> None:
    """List services that failed too often to be called; reset them."""
    listed = call.ask(lambda rowen: rowen.circuits.list())
    now, terminal = datetime.now(UTC), call.out.terminal
    call.out.listing(
        listed,
        {
            "kind": lambda circuit: circuit.kind,
            "circuit": lambda circuit: (circuit.name, "bold"),
            "state": lambda circuit: (circuit.state, _CIRCUITS[circuit.state]),
            "failures": lambda circuit: str(circuit.failures),
            "since": lambda circuit: age(circuit.opened_at, now) if terminal else moment(circuit.opened_at),
            "next probe": lambda circuit: _next_probe(circuit, now) if terminal else moment(circuit.probe_at),
            "process": lambda circuit: circuit.process or "",
        },
    )
    if all(circuit.state == "closed" for circuit in listed):
        call.out.say("All circuits are closed: every service is called.")


def _next_probe(circuit: CircuitStatus, now: datetime) -> str:
    if circuit.probe_at is None:
        return ""
    return f"in {seconds((circuit.probe_at - now).total_seconds())}" if circuit.probe_at > now else "with the next call"


@command("reset")
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="Reset every circuit.")
def reset(call: Invocation, name: str | None, everything: bool) -> None:
    """Close a circuit in every process: its service is called again, and waiting jobs start."""
    if (name is None) is not everything:
        raise click.UsageError("Name a circuit, or give --all.")
    closed = call.ask(lambda rowen: rowen.circuits.reset(name))
    names = ", ".join(sorted({circuit.name for circuit in closed}))
    summary = f"{count(len(closed), 'circuit')} reset{f': {names}' if names else ', since none is open'}."
    call.out.answer({"reset": [fact_of(circuit) for circuit in closed] if call.out.json else []}, summary)


circuits.add_command(reset)

COMMANDS = {"status": status, "circuits": circuits}
