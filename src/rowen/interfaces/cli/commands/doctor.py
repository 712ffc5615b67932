"""Commands on the installation: doctor, completion."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from typing import Any

import click
from click.shell_completion import get_completion_class

from rowen.errors import RowenError
from rowen.interfaces.cli.command import command
from rowen.interfaces.cli.invocation import Invocation
from rowen.interfaces.cli.session import run
from rowen.model.sources import Source
from rowen.model.wording import count, size
from rowen.net.credentials import exposed
from rowen.net.target import redact
from rowen.operations import Rowen
from rowen.operations.database import kinds
from rowen.settings import SecretStr, Settings

LEAST_FREE_BYTES = 500_000_000
"""An empty cluster takes 60 MB, and its write-ahead log up to 300 MB under load."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    check: str
    ok: bool
    found: str
    hint: str | None = None


@command("doctor")
def doctor(call: Invocation) -> int:
    """Check the installation, and suggest repairs."""

    async def examine() -> int:
        wrong = 0
        async for finding in _examine(call.settings):
            word = ("ok    ", "green") if finding.ok else ("wrong ", "bold red")
            call.out.answer(asdict(finding), word, (f"{finding.check}: ", "bold"), finding.found)
            if finding.hint and not call.out.json:
                call.out.line(f"      {finding.hint}")
            wrong += not finding.ok
        return wrong

    wrong = run(examine)
    call.out.say(f"{count(wrong, 'problem')} found." if wrong else "No problems found.")
    return 1 if wrong else 0


async def _examine(settings: Settings) -> AsyncIterator[Finding]:
    for finding in _examine_machine(settings):
        yield finding
    rowen = Rowen(settings)
    async with AsyncExitStack() as closing:
        closing.push_async_callback(rowen.close)
        database = await _check("database", _open(rowen))
        yield database
        if database.ok:
            yield await _check("connections", _check_connections(rowen))
            yield await _check("vectors", _check_vectors(rowen))
        yield await _check("workers", _check_workers(rowen))
        if database.ok:
            yield await _check("embedder", rowen.embeddings.check())
            # The checks run concurrently, as far as hosts allow, and are shown in their order.
            tasks = [asyncio.create_task(_check_source(rowen, source)) for source in await rowen.sources.list()]
            try:
                for task in tasks:
                    yield await task
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


def _examine_machine(settings: Settings) -> Iterator[Finding]:
    yield Finding("python", True, f"{sys.version.split()[0]} at {sys.executable}")
    for name, origin in settings.origins.items():
        yield Finding(f"setting {name}", True, f"{_redacted(getattr(settings, name))}, from {origin}")
    home = settings.home.absolute()
    folder = next(place for place in (home, *home.parents) if place.exists())
    if os.access(folder, os.W_OK | os.X_OK) and folder.is_dir():
        state = "is writable" if folder == home else "can be created"
        yield Finding("home", True, f"{settings.home} {state}")
    else:
        hint = "Choose another folder with --home or ROWEN_HOME."
        yield Finding("home", False, f"{folder} is not writable", hint)
    free_bytes = shutil.disk_usage(folder).free
    has_space = free_bytes >= LEAST_FREE_BYTES
    advice = None if has_space else "Free some space, or choose another --home."
    yield Finding("disk", has_space, f"{size(free_bytes)} free", advice)
    try:
        yield Finding("connectors", True, ", ".join(kinds()))
    except (ImportError, AttributeError) as problem:
        hint = "Reinstall the package that brings it."
        yield Finding("connectors", False, f"one cannot be imported: {problem}", hint)


def _redacted(value: Any) -> str:
    """Return the value of a setting with all secrets redacted, at any depth."""
    if isinstance(value, SecretStr):
        return "(hidden)"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_redacted(part)}" for name, part in value.items())
    if isinstance(value, tuple):
        return ", ".join(map(_redacted, value))
    return redact(str(value))


async def _check(check: str, result: Awaitable[str]) -> Finding:
    try:
        return Finding(check, True, await result)
    except (RowenError, OSError) as problem:
        hint = problem.hint if isinstance(problem, RowenError) else None
        return Finding(check, False, str(problem), hint or "Run again with -vv to see more.")


async def _open(rowen: Rowen) -> str:
    await rowen.start()
    status = await rowen.database.status()
    return f"{status.place}, PostgreSQL {status.server_version}, schema {status.schema}"


async def _check_connections(rowen: Rowen) -> str:
    status = await rowen.database.status()
    line = (
        f"the server allows {status.connections_allowed}, others use {status.connections_in_use};"
        f" this process takes up to {status.connections_taken}, for {count(status.runs_at_once, 'run')} at a time"
    )
    wanted = rowen.settings.side_by_side
    return line if status.runs_at_once == wanted else f"{line} (ROWEN_SIDE_BY_SIDE is {wanted}; the others wait)"


async def _check_vectors(rowen: Rowen) -> str:
    await rowen.database.check_vectors()
    return "distances are computed"


async def _check_workers(rowen: Rowen) -> str:
    if rowen.settings.workers == 0:
        return "none (ROWEN_WORKERS is 0): documents are parsed in this process"
    size_bytes, locks = await rowen.database.check_workers()
    return f"a process read a document of {size(size_bytes)}, confined by {' and '.join(locks)}"


async def _check_source(rowen: Rowen, source: Source) -> Finding:
    check = f"source {source.name}"
    if name := next(exposed(source.options), None):
        hint = f"Name its place instead: `rowen edit {source.name} --option …`, with env:NAME or file:PATH."
        return Finding(check, False, f"option {name} holds a credential in clear", hint)
    if source.state == "paused":
        return Finding(check, True, "paused, not checked")
    try:
        await rowen.sources.check(source)
    except RowenError as problem:
        kept = f"Its items are kept; `rowen remove {source.name}` deletes them."
        return Finding(check, False, str(problem), f"{problem.hint} {kept}" if problem.hint else kept)
    return Finding(check, True, "can be read")


@command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(call: Invocation, shell: str) -> None:
    """Print the completion script for a shell.

    It completes commands, options, and names of sources and kinds. bash: eval "$(rowen completion bash)" in ~/.bashrc;
    zsh: the same with zsh in ~/.zshrc, below compinit; fish:
    rowen completion fish > ~/.config/fish/completions/rowen.fish
    """
    script = get_completion_class(shell)
    assert script is not None  # noqa: S101 (click has all three)
    app = click.get_current_context().find_root().command
    call.out.line(script(app, {}, "rowen", "_ROWEN_COMPLETE").source())


COMMANDS = {"doctor": doctor, "completion": completion}
