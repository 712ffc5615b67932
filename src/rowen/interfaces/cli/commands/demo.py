"""The command `demo`: sync a folder, a site and a catalog three times each, then show the change log and searches."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click

from rowen.interfaces.cli.command import command
from rowen.interfaces.cli.commands.changes import show_change
from rowen.interfaces.cli.commands.search import show_hits
from rowen.interfaces.cli.demo_farm import (
    CHANGES,
    OVERNIGHT,
    WEEK,
    DemoPortal,
    demo_place,
    demo_settings,
    lay_out,
    next_day,
    open_portal,
    open_shop,
    overnight,
    set_up,
)
from rowen.interfaces.cli.invocation import Invocation
from rowen.interfaces.cli.output import Output
from rowen.interfaces.cli.session import ask
from rowen.interfaces.cli.summary import line
from rowen.model.runs import Run, RunStats
from rowen.model.wording import seconds, size
from rowen.operations import Rowen

QUESTIONS = ("goat roof weather vane", "honey from the angry hive", "price of six eggs", "how deep is the mud")
QUESTION_OF_MEANING = "livestock misbehaving on a rooftop"

Rows = Mapping[str, Callable[[RunStats], str | int]]

_ROWS: Rows = {
    "created": lambda stats: stats.created,
    "updated": lambda stats: stats.updated,
    "deleted": lambda stats: stats.deleted,
    "unchanged": lambda stats: stats.unchanged,
    "read": lambda stats: size(stats.bytes) if stats.bytes else 0,
    "passages written": lambda stats: stats.chunks_written,
    "rows written": lambda stats: stats.rows_written,
    "texts embedded": lambda stats: stats.embedded,
    "time": lambda stats: seconds(stats.seconds),
    "avoided: files not opened": lambda stats: stats.stopped_at_validator,
    "avoided: files not parsed": lambda stats: stats.stopped_at_body,
    "avoided: passages kept": lambda stats: stats.chunks_kept,
}
_SITE_ROWS: Rows = {
    **{name: _ROWS[name] for name in ("created", "updated", "deleted", "unchanged")},
    "requests": lambda stats: stats.requests,
    "received": _ROWS["read"],
    "passages written": _ROWS["passages written"],
    "avoided: pages not sent": lambda stats: stats.not_modified,
    "avoided: pages not stored": lambda stats: stats.stopped_at_content,
}
_PORTAL_ROWS: Rows = {
    **{name: _ROWS[name] for name in ("created", "updated")},
    "amended": lambda stats: stats.amended,
    **{name: _ROWS[name] for name in ("deleted", "unchanged")},
    "not requested": lambda stats: stats.not_asked,
    "requests": _SITE_ROWS["requests"],
    "received": _ROWS["read"],
    **{name: _ROWS[name] for name in ("passages written", "rows written")},
}
_COLUMNS = ("first sync", "after the changes", "once more")


@command("demo")
@click.option("--keep", is_flag=True, help="Keep the demo's folder and database.")
def demo(call: Invocation, keep: bool) -> None:
    """Show every feature on a small offline demo."""
    started = time.monotonic()
    if not call.json:
        call.out.line("Welcome. The demo first creates a database of its own; your data is not touched ...")
    with demo_place(call, keep=keep) as (home, field):
        ask(demo_settings(call, home), lambda rowen: Story(rowen, call.out, field).tell())
    if call.json:
        return
    call.out.line()
    call.out.line(f"This took {seconds(time.monotonic() - started)}. Now try it with your own data:")
    for command_line, meaning in (
        ("rowen sync ./folder", "read a folder; later runs read only changes"),
        ('rowen search "words"', "search it"),
        ("rowen changes --follow", "watch for changes"),
        ("rowen status", "see the state of everything"),
    ):
        call.out.line((f"   {command_line:<26}", "bold"), (meaning, "dim"))


class Story:
    """The chapters of the demo."""

    def __init__(self, rowen: Rowen, out: Output, field: Path) -> None:
        self._rowen = rowen
        self._out = out
        self._field = field

    async def tell(self) -> None:
        """Run all chapters."""
        await self._folder()
        await self._site()
        await self._portal()
        await self._questions()

    async def _folder(self) -> None:
        files = lay_out(self._field)
        self._chapter("1", f"Rowen Hill is a small farm with {files} files and a goat. Rowen reads all of them:")
        runs = [await self._sync()]
        self._say("   ", *line(runs[0]))
        self._chapter("2", "A night passes. In the morning:")
        for change in CHANGES:
            self._say(f"   - {change}")
        mark = await self._rowen.changes.last_number()
        next_day(self._field)
        self._chapter("3", "Rowen syncs again, and once more when nothing has changed at all:")
        runs += [await self._sync(), await self._sync()]
        self._compare(runs, _ROWS)
        self._say("   Every file was touched, but files with the same content are not parsed or stored again.")
        self._chapter("4", "The change log has all of it, for feeds and webhooks to read:")
        for logged in await self._rowen.changes(since=mark):
            if self._out.json:
                show_change(self._out, logged)
            else:
                self._say(f"   {logged.number:>3}  ", (f"{logged.kind:<8}", "cyan"), f"  {logged.title}")

    async def _site(self) -> None:
        shop = self._field.parent / "shop"
        pages = set_up(shop)
        self._chapter("5", f"The farm has a web shop with {pages} pages. Rowen reads it, and a night passes:")
        with open_shop(shop) as address:
            await self._rowen.sources.add(address, name="shop")
            runs = [await self._sync("shop")]
            for change in OVERNIGHT:
                self._say(f"   - {change}")
            overnight(shop)
            runs += [await self._sync("shop"), await self._sync("shop")]
        self._compare(runs, _SITE_ROWS)
        self._say("   Every page arrived with new bytes. A change that is on all pages alike is ignored.")

    async def _portal(self) -> None:
        portal = DemoPortal()
        datasets = len(portal.records)
        self._chapter(
            "6", f"The valley has an open data portal with {datasets} datasets. Rowen reads it; a week passes:"
        )
        with open_portal(portal) as address:
            await self._rowen.sources.add(address, name="valley", kind="ckan")
            runs = [await self._sync("valley")]
            for change in WEEK:
                self._say(f"   - {change}")
            portal.let_a_week_pass()
            runs += [await self._sync("valley"), await self._sync("valley")]
        self._compare(runs, _PORTAL_ROWS)
        self._say("   Rowen requests only modified records; the number of records reveals the deletion.")

    async def _questions(self) -> None:
        self._chapter("7", "All of it can be searched, whatever its format:")
        for question in QUESTIONS:
            await self._ask(question)
        if self._rowen.settings.embedder != "none":
            self._say()
            self._say("   And by meaning: none of these words is in the text.")
            await self._ask(QUESTION_OF_MEANING)

    async def _ask(self, question: str) -> None:
        self._say()
        self._say("   $ rowen search ", (f"'{question}'", "bold"))
        show_hits(self._out, await self._rowen.search(question, limit=1), question)

    async def _sync(self, target: str | None = None) -> Run:
        run = await self._rowen.sync(target or str(self._field))
        if self._out.json:
            self._out.emit(run.to_json())
        return run

    def _compare(self, runs: Sequence[Run], rows: Rows) -> None:
        self._say()
        for row in side_by_side([run.stats for run in runs], _COLUMNS, rows):
            self._say(*row)
        self._say()

    def _chapter(self, number: str, words: str) -> None:
        self._say()
        self._say((f"{number}. ", "bold green"), (words, "bold"))

    def _say(self, *pieces: str | tuple[str, str]) -> None:
        if not self._out.json:
            self._out.line(*pieces)


def side_by_side(runs: Sequence[RunStats], columns: Sequence[str], rows: Rows = _ROWS) -> list[list[tuple[str, str]]]:
    """Return run statistics as a table with a line for each count that occurred."""
    label = max(map(len, rows)) + 3
    lines = [[(" " * label, "")] + [(name.rjust(len(name) + 3), "dim") for name in columns]]
    for name, value_of in rows.items():
        cells = [value_of(stats) for stats in runs]
        if not any(cells):
            continue
        style = "green" if name.startswith("avoided") else ""
        texts = [f"{cell or '–'}".rjust(len(column) + 3) for cell, column in zip(cells, columns, strict=True)]
        lines.append([(f"   {name}".ljust(label), style), *((text, style) for text in texts)])
    return lines


COMMANDS = {"demo": demo}
