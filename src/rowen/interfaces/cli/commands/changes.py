"""Commands that publish changes: changes, feed."""

from __future__ import annotations

import sys
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from rowen.interfaces.cli.command import command, options_of
from rowen.interfaces.cli.invocation import Invocation
from rowen.interfaces.cli.output import Output
from rowen.model.changes import Change
from rowen.model.wording import moment

if TYPE_CHECKING:
    from rowen.operations import Rowen

Start = int | timedelta | datetime

# About 200 kB, so that a log of millions of lines is never in memory as a whole.
PAGE_LINES = 1_000
# The height of a large terminal.
SCREEN_LINES = 50

_STYLES = {"created": "green", "updated": "yellow", "amended": "yellow", "deleted": "red", "moved": "cyan"}
_STYLES |= {"failing": "bold red", "recovered": "green"}

_FORMS = ("atom", "json", "ldes", "dcat", "datajson")
# The options of each format, beside --source.
_NEWS = {"query", "kinds", "field", "before"}
_OPTIONS = {"atom": _NEWS, "json": _NEWS, "ldes": {"node"}, "dcat": {"after"}}


@command("changes")
@options_of(
    "changes.list",
    only=("since", "source", "limit"),
    since={"default": None, "show_default": False},
    limit={"help": "Maximum number of lines: the newest, or with --since the first."},
)
@click.option("--follow", is_flag=True, help="Print new lines as they are written, until Ctrl-C.")
def changes(call: Invocation, since: Start | None, source: str | None, limit: int | None, follow: bool) -> None:
    """Read the change log, or follow it."""

    async def answer(rowen: Rowen) -> None:
        start = since if since is not None else await _first_number(rowen, call.out, source, limit)
        if follow:
            async with aclosing(rowen.changes.follow(since=start, source=source)) as lines:
                printed = 0
                async for change in lines:
                    show_change(call.out, change)
                    printed += 1
                    if printed == limit:
                        break
            return
        left = limit
        while left is None or left > 0:
            size = PAGE_LINES if left is None else min(left, PAGE_LINES)
            page = await rowen.changes(since=start, source=source, limit=size)
            for change in page:
                show_change(call.out, change)
            if len(page) < size:
                return
            start = page[-1].number
            left = None if left is None else left - size

    call.ask(answer)


async def _first_number(rowen: Rowen, out: Output, source: str | None, limit: int | None) -> Start:
    """Return the number before the first line to print, so that as many lines as the limit or the screen are shown."""
    if limit is not None:
        return await rowen.changes.number_before_last(limit, source=source)
    last = await rowen.changes.last_number()
    if source or not out.terminal or last <= SCREEN_LINES:
        return 0
    out.say(f"The last {SCREEN_LINES} of {last:,} lines; `rowen changes --since 0` shows all.")
    return last - SCREEN_LINES


def show_change(out: Output, change: Change) -> None:
    """Print one line of the log."""
    if out.json:
        out.emit(change)
    elif out.terminal:
        kind = (f"{change.kind:<8}", _STYLES[change.kind])
        before = f"  (before: {change.moved_from})" if change.moved_from else ""
        where = (f"  {change.source}  {change.url}{before}", "dim")
        out.line((f"{change.number:>7}  ", "dim"), kind, f"  {moment(change.at)}  ", (change.title, "bold"), where)
    else:
        cells = (str(change.number), change.kind, moment(change.at), change.source, change.title, change.url)
        out.line("\t".join(cells))


@command("feed")
@click.argument("form", metavar="FORM", type=click.Choice(_FORMS))
@options_of(
    "feeds.feed",
    only=("source", "query", "kinds", "field", "before"),
    query={"help": "Atom and JSON Feed: only changes of items that contain these words."},
    kinds={"help": "Atom and JSON Feed: only changes of this kind; may be repeated."},
    field={"help": "Atom and JSON Feed: only changes in which this field of extracted facts differs."},
    before={"help": "Atom and JSON Feed: only changes before this number of the change log."},
)
@options_of(
    "feeds.event_stream",
    only=("node",),
    node={"flag": "--page", "default": None, "help": "LDES: a page of the stream, such as blocks/0 or pages/17."},
)
@options_of(
    "feeds.catalog",
    only=("after",),
    after={"metavar": "PLACE", "help": "DCAT: the page after this place, which the previous page names."},
)
def feed(call: Invocation, form: str, source: str | None, **options: Any) -> None:
    """Print the change log as a feed, or all datasets as a catalog.

    atom and json are feeds for feed readers, ldes is an event stream that programs can copy and follow, dcat and
    datajson are catalogs of all datasets. `ROWEN_PUBLIC_URL` is the address in them.
    """
    options = {name: value for name, value in options.items() if value not in (None, ())}
    if unusable := sorted(set(options) - _OPTIONS.get(form, set())):
        flag = {"node": "page", "kinds": "kind"}.get(unusable[0], unusable[0])
        raise click.UsageError(f"--{flag} cannot be combined with {form}.")

    async def write(rowen: Rowen) -> None:
        match form:
            case "atom" | "json":
                body = (await rowen.feeds.feed(form, source=source, **options)).body
            case "ldes":
                body = (await rowen.feeds.event_stream(options.get("node", ""), source=source)).body
            case "dcat":
                body = (await rowen.feeds.catalog(source=source, **options)).body
            case _:
                body = b""
                async for piece in rowen.feeds.data_json(source=source):
                    sys.stdout.buffer.write(piece)
        sys.stdout.buffer.write(body)
        sys.stdout.buffer.flush()

    call.ask(write)


COMMANDS = {"changes": changes, "feed": feed}
