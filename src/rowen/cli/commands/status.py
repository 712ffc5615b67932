"""status."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rowen.cli.command import command
from rowen.cli.invocation import Invocation
from rowen.cli.output import Piece
from rowen.model.wording import age, count, moment

if TYPE_CHECKING:
    from rowen.model.database import DatabaseStatus
    from rowen.model.embedding import ModelStatus
    from rowen.model.library import Overview
    from rowen.service import Rowen

__all__ = ["COMMANDS"]


@command("status")
def status(call: Invocation) -> None:
    """Show how sources and database are doing."""
    from rowen.service.tally import remarks_on_source

    async def asked(rowen: "Rowen") -> tuple[list["Overview"], list["ModelStatus"], "DatabaseStatus"]:
        return await rowen.overview(), await rowen.embeddings(), await rowen.database()

    sources, models, database = call.ask(asked)
    _show_sources(call, sources)
    for model in models:
        _show_model(call, model)
    _show_database(call, database)
    for source in sources:
        for step in remarks_on_source(source):
            call.out.say(step)
    if not sources:
        call.out.say("There are no sources yet. `rowen sync ./folder` adds one and reads it.")


def _show_sources(call: Invocation, sources: list["Overview"]) -> None:
    from rowen.service.facts import fact

    now = datetime.now(UTC)
    columns: dict[str, Callable[[Overview], str | Piece]] = {
        "source": lambda source: (source.name, "bold"),
        "state": lambda source: source.state,
        "items": lambda source: str(source.items),
        "last run": lambda source: source.last_status or "never",
        "when": lambda source: age(source.last_run_at, now) if call.out.terminal else moment(source.last_run_at),
        "unreadable": lambda source: (str(source.quarantined), "red" if source.quarantined else "dim"),
        "held back": lambda source: (str(source.deletions_held), "red" if source.deletions_held else "dim"),
    }
    if not call.out.terminal:
        # In a pipe the first cell tells sources from the database.
        columns = {"what": lambda _: "source", **columns}
    if sources or not call.out.terminal:
        call.out.listing(sources, columns, fact=fact)


def _show_model(call: Invocation, model: "ModelStatus") -> None:
    from rowen.service.facts import fact
    from rowen.service.tally import remarks_on_model

    if call.out.json:
        call.out.emit({"embeddings": fact(model)})
        return
    told = (
        "embeddings",
        model.name,
        model.state,
        count(model.vectors, "vector"),
        f"{model.pending:,} pending",
        *([f"{model.refused:,} refused"] if model.refused else []),
        "indexed" if model.indexed else "no index yet",
    )
    call.out.line((", " if call.out.terminal else "\t").join(told))
    for step in remarks_on_model(model):
        call.out.say(step)


def _show_database(call: Invocation, database: "DatabaseStatus") -> None:
    from rowen.service.facts import fact

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
