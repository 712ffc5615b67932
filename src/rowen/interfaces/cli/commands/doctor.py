"""doctor: one check a line, and what to do about each that failed."""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rowen.errors import RowenError
from rowen.interfaces.cli.command import command
from rowen.interfaces.cli.invocation import Invocation
from rowen.model.wording import count, size

if TYPE_CHECKING:
    from rowen.model.sources import Source
    from rowen.operations import Rowen
    from rowen.settings import Settings

__all__ = ["COMMANDS"]

LEAST_FREE_BYTES = 500_000_000
"""An empty cluster takes 60 MB, its write-ahead log up to 300 MB under load."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    check: str
    ok: bool
    found: str
    hint: str | None = None


@command("doctor")
def doctor(call: Invocation) -> int:
    """Check that everything works, and say what to do if not."""
    from rowen.interfaces.cli.event_loop import run

    async def examined() -> list[Finding]:
        findings = []
        async for finding in _examine(call.settings):
            _show(call, finding)
            findings.append(finding)
        return findings

    wrong = sum(not finding.ok for finding in run(examined))
    call.out.say("All is well." if not wrong else f"{wrong} of these need your attention.")
    return 1 if wrong else 0


def _show(call: Invocation, finding: Finding) -> None:
    word = ("ok    ", "green") if finding.ok else ("wrong ", "bold red")
    call.out.answer(asdict(finding), word, (f"{finding.check}: ", "bold"), finding.found)
    if finding.hint and not call.out.json:
        call.out.line(f"      {finding.hint}")


async def _examine(settings: "Settings") -> AsyncIterator[Finding]:
    from rowen.operations import Rowen

    for finding in _machine(settings):
        yield finding
    rowen = Rowen(settings)
    async with AsyncExitStack() as closing:
        closing.push_async_callback(rowen.close)
        opened = await _try("database", _opened(rowen))
        yield opened
        if opened.ok:
            yield await _try("connections", _connections(rowen))
            yield await _try("vectors", _vectors(rowen))
        yield await _try("workers", _workers(rowen))
        if opened.ok:
            yield await _try("embedder", rowen.embeddings.check())
            async for finding in _sources(rowen):
                yield finding


def _machine(settings: "Settings") -> Iterator[Finding]:
    from rowen.operations.database import kinds

    yield Finding("python", True, f"{sys.version.split()[0]} at {sys.executable}")
    for name, origin in settings.origins.items():
        yield Finding(f"setting {name}", True, f"{_told(getattr(settings, name))}, from {origin}")
    yield _home(settings.home)
    yield _space(settings.home)
    try:
        yield Finding("connectors", True, ", ".join(kinds()))
    except (ImportError, AttributeError) as problem:
        yield Finding(
            "connectors", False, f"one cannot be imported: {problem}", "Reinstall the package that brings it."
        )


def _told(value: Any) -> str:
    """A setting as it may be shown: no secret, whichever kind of setting it stands in."""
    from rowen.net.target import redact
    from rowen.settings import SecretStr

    if isinstance(value, SecretStr):
        return "(hidden)"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_told(one)}" for name, one in value.items())
    if isinstance(value, tuple):
        return ", ".join(map(_told, value))
    return redact(str(value))


def _home(home: Path) -> Finding:
    place = _nearest(home)
    if os.access(place, os.W_OK | os.X_OK) and place.is_dir():
        return Finding("home", True, f"{home} is writable" if place == home else f"{home} can be made")
    return Finding("home", False, f"{place} is not writable", "Choose another folder with --home or ROWEN_HOME.")


def _space(home: Path) -> Finding:
    free = shutil.disk_usage(_nearest(home)).free
    ok = free >= LEAST_FREE_BYTES
    return Finding("disk", ok, f"{size(free)} free", None if ok else "Free some space, or choose another --home.")


def _nearest(path: Path) -> Path:
    """The folder itself, or the nearest one above it that is there."""
    return next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())


async def _try(check: str, found: Awaitable[str]) -> Finding:
    try:
        return Finding(check, True, await found)
    except RowenError as problem:
        return Finding(check, False, str(problem), problem.hint or "Run again with -vv to see more.")
    except OSError as problem:
        return Finding(check, False, str(problem), "Run again with -vv to see more.")


async def _opened(rowen: "Rowen") -> str:
    await rowen.start()
    facts = await rowen.database.status()
    return f"{facts.place}, PostgreSQL {facts.server_version}, schema {facts.schema}"


async def _connections(rowen: "Rowen") -> str:
    facts = await rowen.database.status()
    told = (
        f"the server allows {facts.connections_allowed}, of which others had {facts.connections_in_use};"
        f" this process takes up to {facts.connections_taken}, for {count(facts.runs_at_once, 'run')} at a time"
    )
    wanted = rowen.settings.side_by_side
    return told if facts.runs_at_once == wanted else f"{told} (ROWEN_SIDE_BY_SIDE asks for {wanted}; the others wait)"


async def _vectors(rowen: "Rowen") -> str:
    await rowen.database.check_vectors()
    return "distances are computed"


async def _workers(rowen: "Rowen") -> str:
    if rowen.settings.workers == 0:
        return "none (ROWEN_WORKERS is 0): parsing is done in the program itself"
    read, locks = await rowen.database.check_workers()
    return f"a process read a document of {size(read)}, held by {' and '.join(locks)}"


async def _sources(rowen: "Rowen") -> AsyncIterator[Finding]:
    """All at once, as far as hosts allow, and told in their order."""
    tasks = [asyncio.create_task(_source(rowen, source)) for source in await rowen.sources.list()]
    try:
        for task in tasks:
            yield await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _source(rowen: "Rowen", source: "Source") -> Finding:
    from rowen.net.credentials import exposed

    if name := next(exposed(source.options), None):
        hint = f"Name its place instead: `rowen edit {source.name} --option …`, with env:NAME or file:PATH."
        return Finding(f"source {source.name}", False, f"option {name} holds a credential in clear", hint)
    if source.state == "paused":
        return Finding(f"source {source.name}", True, "is paused, and was not looked at")
    try:
        await rowen.sources.check(source)
    except RowenError as problem:
        kept = f"What is stored of it is kept; `rowen remove {source.name}` forgets it."
        return Finding(f"source {source.name}", False, str(problem), f"{problem.hint} {kept}" if problem.hint else kept)
    return Finding(f"source {source.name}", True, "can be read")


COMMANDS = {"doctor": doctor}
