"""status."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rowen.interfaces.cli.command import command
from rowen.interfaces.cli.invocation import Invocation
from rowen.interfaces.cli.output import Piece
from rowen.model.wording import age, count, moment, percent

if TYPE_CHECKING:
    from rowen.model.models import ModelStatus
    from rowen.model.rdf import StatementTarget
    from rowen.model.sources import Following, Overview
    from rowen.model.status import DatabaseStatus, Health, SwitchedOff
    from rowen.operations import Rowen

__all__ = ["COMMANDS"]


@command("status")
def status(call: Invocation) -> None:
    """Show how sources and database are doing."""
    from rowen.operations.summary import remarks_on_source, remarks_on_switched_off

    async def asked(
        rowen: "Rowen",
    ) -> tuple[
        list["Overview"],
        list["Following"],
        list["StatementTarget"],
        list["ModelStatus"],
        "DatabaseStatus",
        "Health",
        tuple["SwitchedOff", ...],
    ]:
        return (
            await rowen.sources.overview(),
            await rowen.sources.list_following(),
            await rowen.rdf.list_endpoints(),
            await rowen.embeddings.list(),
            await rowen.database.status(),
            await rowen.status.health(),
            await rowen.status.list_disabled(),
        )

    sources, followed, endpoints, models, database, health, switched_off = call.ask(asked)
    _show_sources(call, sources)
    _show_followed(call, followed)
    _show_endpoints(call, endpoints)
    _show_health(call, health)
    _show_freshness(call, sources)
    for model in models:
        _show_model(call, model)
    _show_database(call, database)
    for source in sources:
        for step in remarks_on_source(source):
            call.out.say(step)
    for step in remarks_on_switched_off(switched_off):
        call.out.say(step)
    if not sources:
        call.out.say("There are no sources yet. `rowen sync ./folder` adds one and reads it.")


def _show_sources(call: Invocation, sources: list["Overview"]) -> None:

    now = datetime.now(UTC)
    columns: dict[str, Callable[[Overview], str | Piece]] = {
        "source": lambda source: (source.name, "bold"),
        "state": lambda source: source.state,
        "items": lambda source: str(source.items),
        "last run": lambda source: source.last_status or "never",
        "when": lambda source: age(source.last_run_at, now) if call.out.terminal else moment(source.last_run_at),
        "unreadable": lambda source: (str(source.quarantined), "red" if source.quarantined else "dim"),
        "held back": lambda source: (str(source.deletions_held), "red" if source.deletions_held else "dim"),
        "stale": lambda source: "" if source.stale is None else percent(source.stale),
        "by meaning": lambda source: "" if source.coverage is None else percent(source.coverage),
    }
    if not call.out.terminal:
        # In a pipe the first cell tells sources from the database.
        columns = {"what": lambda _: "source", **columns}
    if sources or not call.out.terminal:
        call.out.listing(sources, columns)


def _show_followed(call: Invocation, followed: list["Following"]) -> None:
    """How feeds and event streams are followed: one line each."""
    from rowen.operations.facts import fact

    for one in followed:
        if call.out.json:
            call.out.emit({"following": fact(one)})
            continue
        pages = f"{count(one.pages, 'page')} ({one.pages_immutable or 0:,} never change)" if one.pages else ""
        told = (
            "feed",
            one.source,
            one.state,
            f"last poll {moment(one.last_poll_at)}",
            f"last new {moment(one.last_new_at)}",
            f"next poll {moment(one.next_poll_at)}" if one.next_poll_at else "",
            pages,
            count(one.members or 0, "member"),
            f"{count(one.backlog, 'page')} not read yet" if one.backlog else "",
            one.last_error or "",
        )
        call.out.line((", " if call.out.terminal else "\t").join(part for part in told if part))


def _show_endpoints(call: Invocation, endpoints: list["StatementTarget"]) -> None:
    """How SPARQL endpoints are told what pages state: one line each."""
    from rowen.interfaces.cli.commands.statements import follow_up
    from rowen.operations.facts import fact

    for endpoint in endpoints:
        if call.out.json:
            call.out.emit({"endpoint": fact(endpoint)})
            continue
        told = ("endpoint", endpoint.source, endpoint.endpoint, follow_up(endpoint))
        call.out.line((", " if call.out.terminal else "\t").join(told))


def _show_freshness(call: Invocation, sources: list["Overview"]) -> None:
    from rowen.operations.summary import stale_share

    share = stale_share(sources)
    if share is None:
        return
    if call.out.json:
        call.out.emit({"freshness": {"stale": round(share, 3)}})
        return
    told = ("freshness", f"{percent(share)} of all items are expected to be stale by now")
    call.out.line((", " if call.out.terminal else "\t").join(told))


def _show_model(call: Invocation, model: "ModelStatus") -> None:
    from rowen.operations.facts import fact
    from rowen.operations.summary import remarks_on_model

    if call.out.json:
        call.out.emit({"embeddings": fact(model)})
        return
    told = (
        "embeddings",
        model.name,
        model.state,
        count(model.vectors, "vector"),
        f"{model.pending:,} pending",
        f"{percent(model.coverage)} of all passages",
        *([f"{model.refused:,} refused"] if model.refused else []),
        *([f"{model.again:,} to be embedded again"] if model.again else []),
        "indexed" if model.indexed else "no index yet",
    )
    call.out.line((", " if call.out.terminal else "\t").join(told))
    for step in remarks_on_model(model):
        call.out.say(step)


def _show_health(call: Invocation, health: "Health") -> None:
    from rowen.operations.facts import fact
    from rowen.operations.summary import remarks_on_health

    if call.out.json:
        call.out.emit({"health": fact(health)})
    else:
        queue = health.queue
        told = (
            "queue",
            "paused" if queue.paused else count(len(health.workers), "worker"),
            f"{queue.ready:,} waiting",
            f"{queue.running:,} running",
            f"{queue.later:,} later",
            f"{health.due:,} due",
        )
        call.out.line((", " if call.out.terminal else "\t").join(told))
    for step in remarks_on_health(health):
        call.out.say(step)


def _show_database(call: Invocation, database: "DatabaseStatus") -> None:
    from rowen.operations.facts import fact

    if call.out.json:
        call.out.emit({"database": fact(database)})
        return
    told = (
        "database",
        database.place,
        f"PostgreSQL {database.server_version}",
        f"schema {database.schema}",
        count(database.last_change, "change"),
    )
    call.out.line((", " if call.out.terminal else "\t").join(told))


COMMANDS = {"status": status}
