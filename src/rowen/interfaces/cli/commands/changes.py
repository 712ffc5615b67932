"""changes."""

from contextlib import aclosing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from rowen.interfaces.cli.command import command, options_of
from rowen.interfaces.cli.invocation import Invocation
from rowen.model.wording import moment

if TYPE_CHECKING:
    from rowen.interfaces.cli.output import Output
    from rowen.model.changes import Change
    from rowen.operations import Rowen

__all__ = ["COMMANDS", "show_change"]

Start = int | timedelta | datetime

# Some 200 kB at a time, so that a log of millions never stands in memory.
PAGE_LINES = 1_000
# A tall terminal.
SCREEN_LINES = 50

_STYLES = {"created": "green", "updated": "yellow", "amended": "yellow", "deleted": "red", "moved": "cyan"}
_STYLES |= {"failing": "bold red", "recovered": "green"}


@command("changes")
@options_of(
    "changes.list",
    only=("since", "source", "limit"),
    since={"default": None, "show_default": False},
    limit={"help": "Maximum number of lines: the newest, or with --since the first."},
)
@click.option("--follow", is_flag=True, help="Print each new line as it is written, until Ctrl-C.")
def changes(call: Invocation, since: Start | None, source: str | None, limit: int | None, follow: bool) -> None:
    """Read the change log, or follow it."""

    async def asked(rowen: "Rowen") -> None:
        start = since if since is not None else await _start(rowen, call, source, limit)
        if follow:
            await _follow(rowen, call, start, source, limit)
        else:
            await _read(rowen, call, start, source, limit)

    call.ask(asked)


async def _start(rowen: "Rowen", call: Invocation, source: str | None, limit: int | None) -> Start:
    """Where to begin: with the last lines, if only some are wanted; a screen gets no more, unless asked otherwise."""
    if limit is not None:
        return await rowen.changes.number_before_last(limit, source=source)
    last = await rowen.changes.last_number()
    if source or not call.out.terminal or last <= SCREEN_LINES:
        return 0
    call.out.say(f"The last {SCREEN_LINES} of {last:,} lines; `rowen changes --since 0` shows all.")
    return last - SCREEN_LINES


async def _read(rowen: "Rowen", call: Invocation, start: Start, source: str | None, limit: int | None) -> None:
    """Page by page, so that a long log never stands in memory."""
    left = limit
    while left is None or left > 0:
        page = PAGE_LINES if left is None else min(left, PAGE_LINES)
        found = await rowen.changes(since=start, source=source, limit=page)
        for change in found:
            show_change(call.out, change)
        if len(found) < page:
            return
        start = found[-1].number
        left = None if left is None else left - page


async def _follow(rowen: "Rowen", call: Invocation, start: Start, source: str | None, limit: int | None) -> None:
    async with aclosing(rowen.changes.follow(since=start, source=source)) as lines:
        shown = 0
        async for change in lines:
            show_change(call.out, change)
            shown += 1
            if shown == limit:
                return


def show_change(out: "Output", change: "Change") -> None:
    """One line of the log."""
    from rowen.operations.facts import fact

    if out.json:
        out.emit(fact(change))
    elif out.terminal:
        kind = (f"{change.kind:<8}", _STYLES[change.kind])
        before = f"  (before: {change.moved_from})" if change.moved_from else ""
        where = (f"  {change.source}  {change.url}{before}", "dim")
        out.line((f"{change.number:>7}  ", "dim"), kind, f"  {moment(change.at)}  ", (change.title, "bold"), where)
    else:
        cells = (str(change.number), change.kind, moment(change.at), change.source, change.title, change.url)
        out.line("\t".join(cells))


COMMANDS = {"changes": changes}
