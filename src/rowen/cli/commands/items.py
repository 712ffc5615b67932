"""get, diff, history."""

from typing import TYPE_CHECKING

import click

from rowen.cli.command import command
from rowen.cli.invocation import Invocation
from rowen.model.wording import count, moment

if TYPE_CHECKING:
    from rowen.model.library import Entry
    from rowen.model.twins import TwinGroup
    from rowen.service import Rowen

__all__ = ["COMMANDS"]

_source = click.option("--source", metavar="NAME", help="Its copy in this source, where several have one.")
_STYLES = {"+++": "bold", "---": "bold", "@@ ": "cyan", "+": "green", "-": "red"}


@command("get")
@click.argument("url", metavar="URL|PATH")
@_source
def get(call: Invocation, url: str, source: str | None) -> None:
    """Print the text of one item, as Markdown."""
    from rowen.service.facts import fact

    async def asked(rowen: "Rowen") -> tuple["Entry", "TwinGroup | None"]:
        return await rowen.get(url, source=source), await rowen.twins(url, source=source)

    entry, group = call.ask(asked)
    others = [one for one in group.members if one.id != entry.id] if group else []
    if call.out.json:
        listed = [{"source": one.source, "url": one.url} for one in others]
        call.out.emit({**fact(entry), "original": group.original.url if group else None, "also_listed_by": listed})
        return
    call.out.line(entry.text)
    for remark in entry.remarks:
        call.out.say(remark)
    if group:
        listed_by = ", ".join(f"{one.source} ({one.url})" for one in others)
        original = "this one" if group.original.id == entry.id else f"that of {group.original.source}"
        call.out.say(f"Also listed by {listed_by}. The original is {original}.")


@command("diff")
@click.argument("url", metavar="URL|PATH")
@_source
@click.option(
    "--from", "older", type=click.IntRange(min=0), metavar="N", help="Older revision; default: the one before."
)
@click.option("--to", "newer", type=click.IntRange(min=1), metavar="N", help="Newer revision; default: the last.")
def diff(call: Invocation, url: str, source: str | None, older: int | None, newer: int | None) -> None:
    """Show what changed between two texts of an item."""

    async def asked(rowen: "Rowen") -> tuple[str, int]:
        kept = await rowen.history(url, source=source)
        return await rowen.diff(url, source=source, older=older, newer=newer), kept[-1].number

    text, last = call.ask(asked)
    newer = last if newer is None else newer
    older = newer - 1 if older is None else older
    if call.out.json:
        call.out.emit({"url": url, "older": older, "newer": newer, "diff": text})
        return
    for line in text.splitlines():
        call.out.line((line, next((style for mark, style in _STYLES.items() if line.startswith(mark)), "")))
    if not older:
        call.out.say("This is its first text: all of it is new.")
    elif not text:
        call.out.say(f"The texts of revisions {older} and {newer} are the same; title or tags differ.")


@command("history")
@click.argument("url", metavar="URL|PATH")
@_source
def history(call: Invocation, url: str, source: str | None) -> None:
    """List all texts that an item had."""
    from rowen.service.facts import fact

    found = call.ask(lambda rowen: rowen.history(url, source=source))
    call.out.listing(
        found,
        {
            "revision": lambda revision: str(revision.number),
            "since": lambda revision: moment(revision.at),
            "length": lambda revision: count(len(revision.text), "character"),
            "title": lambda revision: (revision.title, "bold"),
        },
        fact=lambda revision: {"url": url, **fact(revision), "current": revision is found[-1]},
    )
    if len(found) > 1:
        call.out.say(f"`rowen diff {url}` shows the last difference.")


COMMANDS = {"get": get, "diff": diff, "history": history}
