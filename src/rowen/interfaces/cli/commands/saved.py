"""saved: searches that somebody follows."""

import click

from rowen.interfaces.cli.command import command, listing_group
from rowen.interfaces.cli.completing import source_names
from rowen.interfaces.cli.invocation import Invocation
from rowen.model.wording import moment

__all__ = ["COMMANDS"]

_STYLES = {"matches": "green", "no longer matches": "red"}


@listing_group("saved")
def saved(call: Invocation) -> None:
    """List searches that are followed, and see what newly matches."""
    found = call.ask(lambda rowen: rowen.searches.list())
    call.out.listing(
        found,
        {
            "name": lambda one: (one.name, "bold"),
            "matches": lambda one: f"{one.matches:,}",
            "sources": lambda one: ", ".join(one.sources) or "all",
            "query": lambda one: one.query,
        },
    )
    if not found:
        call.out.say('No search is followed. `rowen saved add NAME "words"` changes that.')


@command("add")
@click.argument("name")
@click.argument("query", metavar="WORDS")
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="NAME",
    shell_complete=source_names,
    help="Only in this source; may be repeated.",
)
def add(call: Invocation, name: str, query: str, sources: tuple[str, ...]) -> None:
    """Follow a search: what matches now is no news, what newly does, or no longer does, is."""
    from rowen.operations.facts import fact

    made = call.ask(lambda rowen: rowen.searches.save(name, query, sources=sources))
    call.out.answer(fact(made), f"{name}\t{made.matches:,} match now")


@command("remove")
@click.argument("name")
def remove(call: Invocation, name: str) -> None:
    """Follow a search no longer."""
    call.ask(lambda rowen: rowen.searches.remove(name))
    call.out.answer({"removed": name}, f"{name} is followed no longer.")


@command("news")
@click.argument("name")
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="ID", help="Only what follows this line.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="At most so many.")
def news(call: Invocation, name: str, after: int, limit: int) -> None:
    """Show what newly matches, and what no longer does."""
    found = call.ask(lambda rowen: rowen.searches.news(name, after=after, limit=limit))
    call.out.listing(
        found,
        {
            "id": lambda one: str(one.id),
            "what": lambda one: (one.kind, _STYLES[one.kind]),
            "at": lambda one: moment(one.at),
            "source": lambda one: one.source,
            "title": lambda one: (one.title, "bold"),
            "url": lambda one: one.url,
        },
    )
    if not found:
        call.out.say("Nothing newly matches, and nothing stopped matching.")


for _command in (add, remove, news):
    saved.add_command(_command)

COMMANDS = {"saved": saved}
