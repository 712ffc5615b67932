"""worker: keeps everything fresh."""

import os
import socket
import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from rowen.errors import StoreUnavailableError, UsageError
from rowen.interfaces.cli.command import command
from rowen.interfaces.cli.invocation import Invocation
from rowen.model.queue import SIDE_PLACES
from rowen.model.wording import count, moment, seconds

if TYPE_CHECKING:
    from rowen.model.queue import JobEnd
    from rowen.operations import Rowen

__all__ = ["COMMANDS"]


@command("worker")
@click.option(
    "--places",
    multiple=True,
    metavar="[KIND=]N",
    help="Jobs of a kind at a time, sync=4 or just 4; may be repeated. Default: side_by_side syncs.",
)
@click.option("--until-idle", is_flag=True, help="Do what is due now, and end.")
@click.option("--check", is_flag=True, help="Say whether a worker of this machine lives, and end: for health checks.")
def worker(call: Invocation, places: tuple[str, ...], until_idle: bool, check: bool) -> int:
    """Keep everything fresh: do what is due, until told to stop.

    Any number of workers on any number of machines share one database. Ctrl-C or SIGTERM lets what is in flight end at
    a checkpoint; a second one ends at once. Nothing is lost either way.
    """
    if check:
        return _check(call)
    wanted = _places(places)
    work = partial(_work, call=call, places=wanted, until_idle=until_idle)
    # With --until-idle, cron starts the next worker soon: if each waited for the database, they would pile up.
    again = call.ask(work, gently=True, patience=None if until_idle else call.patience())
    if again:
        call.out.say("Beginning anew, with less memory.")
        os.execv(sys.executable, [sys.executable, "-m", "rowen", *sys.argv[1:]])  # noqa: S606 (this very program)
    return 0


def _check(call: Invocation) -> int:
    """0 if one was heard of within its lease; those of other machines, or containers, do not count."""
    from rowen.operations.facts import fact

    lease_s = call.settings.lease_s
    live = [one for one in call.ask(lambda rowen: rowen.queue.list_workers()) if one.silent_s < lease_s]
    here = [one for one in live if one.host == socket.gethostname()]
    for one in here:
        call.out.answer(fact(one), f"{one.host}:{one.pid}\t{count(one.running, 'job')}\t{moment(one.heard_at)}")
    if not here:
        call.out.say("No worker of this machine lives; `rowen worker` begins one.")
    return 0 if here else 1


def _places(given: tuple[str, ...]) -> dict[str, int] | None:
    """How many jobs of each kind at a time; a number alone is one of syncs, and leaves the others as usual."""
    wanted: dict[str, int] = {}
    for text in given:
        kind, _, number = text.rpartition("=")
        if not (number.isascii() and number.isdigit() and int(number) > 0):
            raise UsageError(f"--places {text} is no number of places.", hint="Such as --places 4, or --places sync=4.")
        if not kind.strip():
            wanted |= SIDE_PLACES
        wanted[kind.strip() or "sync"] = int(number)
    return wanted or None


async def _work(rowen: "Rowen", *, call: Invocation, places: dict[str, int] | None, until_idle: bool) -> bool:
    call.out.say(await _greeting(rowen))
    return await rowen.queue.work(places=places, until_idle=until_idle, told=partial(_tell, call))


async def _greeting(rowen: "Rowen") -> str:
    """What there is to keep fresh; who has nothing scheduled is told how."""
    try:
        sources, others = await rowen.sources.list(), len(await rowen.queue.list_workers())
    except StoreUnavailableError:
        # The worker waits for the database by itself.
        return "Working. Ctrl-C stops."
    scheduled = sum(source.schedule is not None for source in sources)
    beside = f", beside {count(others, 'other worker')}" if others else ""
    if not scheduled:
        return f"Working{beside}. No source has a schedule yet: `rowen edit NAME --every auto` gives it one."
    return f"Working{beside}: {count(scheduled, 'source')} on a schedule. Ctrl-C stops."


def _tell(call: Invocation, end: "JobEnd") -> None:
    from rowen.interfaces.cli.summary import line
    from rowen.operations.facts import fact

    facts = {**(fact(end.run) if end.run else {}), "job": end.job, "state": end.state, "error": end.error}
    if end.run is not None:
        call.out.answer({**facts, "wait_s": end.wait_s}, *line(end.run, width=0, dry=False))
    elif end.error is None:
        call.out.answer({**facts, "wait_s": end.wait_s}, f"job {end.job}\t{end.task}\t{end.state}")
    if end.error is not None:
        then = "it has failed" if end.wait_s is None else f"it is tried again in {seconds(end.wait_s)}"
        call.out.say(f"Job {end.job}: {end.error} So {then}.")


COMMANDS = {"worker": worker}
