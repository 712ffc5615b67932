"""status."""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rowen.cli.command import command
from rowen.cli.door import Door
from rowen.cli.output import Piece
from rowen.cli.words import age, count, moment

if TYPE_CHECKING:
    from rowen.service import Rowen
    from rowen.service.care import DatabaseFacts
    from rowen.service.embed import ModelFacts
    from rowen.service.read import Overview

__all__ = ["COMMANDS"]


@command("status")
def status(door: Door) -> None:
    """Show how sources and database are doing."""

    async def asked(rowen: "Rowen") -> tuple[list["Overview"], list["ModelFacts"], "DatabaseFacts"]:
        return await rowen.overview(), await rowen.embeddings(), await rowen.database()

    sources, models, database = door.ask(asked)
    _show_sources(door, sources)
    for model in models:
        _show_model(door, model)
    _show_database(door, database)
    for source in sources:
        for step in next_steps(source):
            door.out.say(step)
    if not sources:
        door.out.say("There are no sources yet. `rowen sync ./folder` adds one and reads it.")


def _show_sources(door: Door, sources: list["Overview"]) -> None:
    now = datetime.now(UTC)
    columns: dict[str, Callable[[Overview], str | Piece]] = {
        "source": lambda source: (source.name, "bold"),
        "state": lambda source: source.state,
        "items": lambda source: str(source.items),
        "last run": lambda source: source.last_status or "never",
        "when": lambda source: age(source.last_run_at, now) if door.out.terminal else moment(source.last_run_at),
        "unreadable": lambda source: (str(source.quarantined), "red" if source.quarantined else "dim"),
        "held back": lambda source: (str(source.deletions_held), "red" if source.deletions_held else "dim"),
    }
    if not door.out.terminal:
        # In a pipe the first cell tells sources from the database.
        columns = {"what": lambda _: "source", **columns}
    if sources or not door.out.terminal:
        door.out.listing(sources, columns, fact=asdict)


def _show_model(door: Door, model: "ModelFacts") -> None:
    if door.out.json:
        door.out.emit({"embeddings": asdict(model)})
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
    door.out.line((", " if door.out.terminal else "\t").join(told))
    for step in next_steps_of_model(model):
        door.out.say(step)


def _show_database(door: Door, database: "DatabaseFacts") -> None:
    if door.out.json:
        door.out.emit({"database": asdict(database)})
        return
    told = (
        "database",
        database.place,
        f"PostgreSQL {database.server_version}",
        f"schema {database.schema}",
        count(database.last_change, "change"),
    )
    door.out.line((", " if door.out.terminal else "\t").join(told))


def next_steps_of_model(model: "ModelFacts") -> Iterator[str]:
    """What somebody should do about a model."""
    if model.trouble:
        circuits = [f"{name} is {stats['state']}" for name, stats in model.trouble["circuits"].items()]
        told = f" (circuit of {', '.join(circuits)})" if circuits else ""
        yield f"{model.name}: embedding stopped{told}: {model.trouble['error']}"
    if model.pending and model.state == "active":
        yield f"{model.name}: {count(model.pending, 'passage')} found by words only so far; `rowen embed` goes on."
    if model.state == "building":
        yield f"{model.name}: not complete, so search does not use it; the `rowen embed` that began it goes on."
    if model.state == "retired":
        yield f"{model.name}: not used any more; `rowen embed --drop-old` forgets its vectors."


def next_steps(source: "Overview") -> Iterator[str]:
    """What somebody should do about a source."""
    name = source.name
    if source.state == "paused":
        yield f"{name}: paused; `rowen resume {name}` takes it in again."
    elif source.last_status is None:
        yield f"{name}: not read yet; `rowen sync {name}` does."
    elif source.last_status in ("failed", "partial"):
        why = f" ({source.last_error})" if source.last_error else ""
        yield f"{name}: the last run was {source.last_status}{why}; `rowen sync {name}` tries again."
    elif source.last_status == "cancelled":
        yield f"{name}: the last run was stopped early; `rowen sync {name}` goes on."
    if source.quarantined:
        yield f"{name}: {count(source.quarantined, 'item')} could not be read; `rowen quarantine {name}` says why."
    if source.deletions_held:
        held = count(source.deletions_held, "item")
        yield f"{name}: {held} vanished and were kept; `rowen sync {name} --accept-deletions` lets them go."


COMMANDS = {"status": status}
