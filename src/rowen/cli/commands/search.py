"""search."""

from typing import TYPE_CHECKING

import click

from rowen.cli.command import command
from rowen.cli.door import Door

if TYPE_CHECKING:
    from rowen.cli.output import Output
    from rowen.model.query import Hit
    from rowen.service import Rowen

__all__ = ["COMMANDS", "show_hits"]


@command("search")
@click.argument("words", nargs=-1, required=True)
@click.option("--source", "sources", multiple=True, metavar="NAME", help="Only in this source; may be repeated.")
@click.option("--version", metavar="V", help="Only in this version of packages: 2.x, ^2.1, '>=1.0,<2', latest.")
@click.option("--limit", type=click.IntRange(min=1), default=10, show_default=True, help="At most so many items.")
def search(door: Door, words: tuple[str, ...], sources: tuple[str, ...], version: str | None, limit: int) -> None:
    """Find the items that answer best.

    Inside the quotes of the shell: "exact phrases" must stand there, -words must not, word* finds beginnings.
    """
    query = " ".join(words)

    async def asked(rowen: "Rowen") -> tuple[list["Hit"], int]:
        hits = await rowen.search(query, sources=sources or None, version=version, limit=limit)
        held = 1 if hits else sum(source.items for source in await rowen.sources())
        return hits, held

    hits, held = door.ask(asked)
    show_hits(door.out, hits, query)
    if not held:
        door.out.say("Nothing is stored yet. `rowen sync ./folder` reads a folder.")
    elif not hits:
        door.out.say(f"No results for {query!r}. Fewer or other words may find more; word* finds beginnings.")


def show_hits(out: "Output", hits: list["Hit"], query: str) -> None:
    """Each hit with the lines that answer, and where they stand."""
    from rowen.cli.facts import hit_fact
    from rowen.cli.snippet import highlight, pattern, snippet
    from rowen.model.query import Query

    wanted = pattern(Query.parse(query))
    for rank, hit in enumerate(hits, start=1):
        if out.json:
            out.emit(hit_fact(hit))
            continue
        out.line((f"{rank:>2}  ", "dim"), (hit.title or hit.url, "bold"), (f"  {hit.source}", "cyan"))
        if path := _path(hit):
            out.line((f"    {path}", "italic"))
        for line in snippet(hit.text, wanted):
            out.line("    ", *highlight(line, wanted))
        out.line((f"    {hit.link}", "blue"))


def _path(hit: "Hit") -> str:
    """The headings above the passage, unless they only repeat the title."""
    headings = hit.heading[1:] if hit.heading[:1] == (hit.title,) else hit.heading
    return " › ".join(headings)


COMMANDS = {"search": search}
