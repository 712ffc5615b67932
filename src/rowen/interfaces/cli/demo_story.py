"""The demo, told: three syncs of a small world, side by side, the change log, and a few questions."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rowen.interfaces.cli.commands.changes import show_change
from rowen.interfaces.cli.commands.search import show_hits
from rowen.interfaces.cli.demo_field import CHANGES, lay_out, next_day
from rowen.interfaces.cli.demo_portal import WEEK, DemoPortal, open_portal
from rowen.interfaces.cli.demo_site import OVERNIGHT, open_shop, overnight, set_up
from rowen.interfaces.cli.output import Output
from rowen.interfaces.cli.summary import line
from rowen.model.runs import Run, RunStats
from rowen.model.wording import seconds, size
from rowen.operations import Rowen

__all__ = ["Story", "side_by_side"]

QUESTIONS = ("goat roof weather vane", "honey from the angry hive", "price of six eggs", "how deep is the mud")

MEANT = "livestock misbehaving on a rooftop"

_ROWS: dict[str, Callable[[RunStats], str | int]] = {
    "created": lambda stats: stats.created,
    "updated": lambda stats: stats.updated,
    "deleted": lambda stats: stats.deleted,
    "unchanged": lambda stats: stats.unchanged,
    "read": lambda stats: size(stats.bytes) if stats.bytes else 0,
    "passages written": lambda stats: stats.chunks_written,
    "rows written": lambda stats: stats.rows_written,
    "texts embedded": lambda stats: stats.embedded,
    "time": lambda stats: seconds(stats.seconds),
    "spared: files not opened": lambda stats: stats.stopped_at_validator,
    "spared: files not parsed": lambda stats: stats.stopped_at_body,
    "spared: passages kept": lambda stats: stats.chunks_kept,
}
_SITE_ROWS: dict[str, Callable[[RunStats], str | int]] = {
    **{name: _ROWS[name] for name in ("created", "updated", "deleted", "unchanged")},
    "requests": lambda stats: stats.requests,
    "received": lambda stats: size(stats.bytes) if stats.bytes else 0,
    "passages written": _ROWS["passages written"],
    "spared: pages not sent": lambda stats: stats.not_modified,
    "spared: pages not stored": lambda stats: stats.stopped_at_content,
}
_PORTAL_ROWS: dict[str, Callable[[RunStats], str | int]] = {
    **{name: _ROWS[name] for name in ("created", "updated")},
    "amended": lambda stats: stats.amended,
    **{name: _ROWS[name] for name in ("deleted", "unchanged")},
    "not asked for": lambda stats: stats.not_asked,
    "requests": _SITE_ROWS["requests"],
    "received": _SITE_ROWS["received"],
    **{name: _ROWS[name] for name in ("passages written", "rows written")},
}
_COLUMNS = ("first sync", "after the changes", "once more")
_SPENT, _SPARED = "", "green"


class Story:
    """What the demo does and says."""

    def __init__(self, rowen: Rowen, out: Output, field: Path) -> None:
        self._rowen = rowen
        self._out = out
        self._field = field

    async def tell(self) -> None:
        """From the first sync to the last question."""
        files = lay_out(self._field)
        self._chapter("1", f"Rowen Hill is a small farm with {files} files and a goat. Rowen reads all of them:")
        runs = [await self._sync()]
        self._say("   ", *line(runs[0]))
        self._chapter("2", "A night passes. In the morning:")
        for change in CHANGES:
            self._say(f"   - {change}")
        mark = await self._rowen.changes.last_number()
        next_day(self._field)
        self._chapter("3", "Rowen looks again, and once more after that, when nothing has changed at all:")
        runs += [await self._sync(), await self._sync()]
        self._say()
        for row in side_by_side([run.stats for run in runs], _COLUMNS):
            self._say(*row)
        self._say()
        self._say("   Every file was touched, but what says the same is not parsed, cut or stored again.")
        await self._log(mark)
        await self._site()
        await self._portal()
        await self._questions()

    async def _site(self) -> None:
        """The same with a website, over HTTP."""
        shop = self._field.parent / "shop"
        pages = set_up(shop)
        self._chapter("5", f"The farm has a shop on the web, with {pages} pages. Rowen reads it, and a night passes:")
        with open_shop(shop) as address:
            await self._rowen.sources.add(address, name="shop")
            runs = [await self._sync("shop")]
            for change in OVERNIGHT:
                self._say(f"   - {change}")
            overnight(shop)
            runs += [await self._sync("shop"), await self._sync("shop")]
        self._say()
        for row in side_by_side([run.stats for run in runs], _COLUMNS, _SITE_ROWS):
            self._say(*row)
        self._say()
        self._say("   Every page came with new bytes. What stands on all of them says nothing, and is no change.")

    async def _portal(self) -> None:
        """The same with a catalog that can be asked what was modified."""
        portal = DemoPortal()
        words = (
            f"The valley has an open data portal, with {len(portal.records)} datasets. Rowen reads it; a week passes:"
        )
        self._chapter("6", words)
        with open_portal(portal) as address:
            await self._rowen.sources.add(address, name="valley", kind="ckan")
            runs = [await self._sync("valley")]
            for change in WEEK:
                self._say(f"   - {change}")
            portal.let_a_week_pass()
            runs += [await self._sync("valley"), await self._sync("valley")]
        self._say()
        for row in side_by_side([run.stats for run in runs], _COLUMNS, _PORTAL_ROWS):
            self._say(*row)
        self._say()
        self._say("   The portal is asked what was modified, not for everything; and what is gone shows in its count.")

    async def _sync(self, target: str | None = None) -> Run:
        run = await self._rowen.sync(target or str(self._field))
        if self._out.json:
            self._out.emit(run.to_json())
        return run

    async def _log(self, mark: int) -> None:
        self._chapter("4", "What happened stands in the change log, for feeds and webhooks to read:")
        for change in await self._rowen.changes(since=mark):
            if self._out.json:
                show_change(self._out, change)
            else:
                self._say(f"   {change.number:>3}  ", (f"{change.kind:<8}", "cyan"), f"  {change.title}")

    async def _questions(self) -> None:
        self._chapter("7", "And all of it can be asked, whatever format it was in:")
        for question in QUESTIONS:
            await self._ask(question)
        if self._rowen.settings.embedder != "none":
            self._say()
            self._say("   And by what is meant: none of these words stands anywhere.")
            await self._ask(MEANT)

    async def _ask(self, question: str) -> None:
        self._say()
        self._say("   $ rowen search ", (f"'{question}'", "bold"))
        show_hits(self._out, await self._rowen.search(question, limit=1), question)

    def _chapter(self, number: str, words: str) -> None:
        self._say()
        self._say((f"{number}. ", "bold green"), (words, "bold"))

    def _say(self, *pieces: str | tuple[str, str]) -> None:
        if not self._out.json:
            self._out.line(*pieces)


def side_by_side(
    tallies: Sequence[RunStats], columns: Sequence[str], rows: Mapping[str, Callable[[RunStats], str | int]] = _ROWS
) -> list[list[tuple[str, str]]]:
    """The statistics as a small table, a line for each count that occurred."""
    label = max(map(len, rows)) + 3
    lines = [[(" " * label, "")] + [(name.rjust(len(name) + 3), "dim") for name in columns]]
    for name, told in rows.items():
        cells = [told(stats) for stats in tallies]
        if not any(cells):
            continue
        style = _SPARED if name.startswith("spared") else _SPENT
        texts = [f"{cell or '–'}".rjust(len(column) + 3) for cell, column in zip(cells, columns, strict=True)]
        lines.append([(f"   {name}".ljust(label), style), *((text, style) for text in texts)])
    return lines
