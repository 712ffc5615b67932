"""announced: what became of the documents of a feed."""

from typing import TYPE_CHECKING

import click

from rowen.interfaces.cli.command import command
from rowen.interfaces.cli.invocation import Invocation
from rowen.interfaces.cli.output import Piece

if TYPE_CHECKING:
    from rowen.model.push import AnnouncedDocument

__all__ = ["COMMANDS"]

_STYLES = {"stored": "green", "waiting": "yellow", "failed": "bold red"}


@command("announced")
@click.argument("name", metavar="SOURCE")
@click.option("--outcome", metavar="OUTCOME", help="Only such: waiting, stored, unchanged, overview, gone, failed.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Most documents.")
def announced(call: Invocation, name: str, outcome: str | None, limit: int) -> None:
    """List the documents that a feed announced, with their jobs and outcomes."""
    from rowen.operations.facts import fact

    found = call.ask(lambda rowen: rowen.sources.announcements(name, outcome=outcome, limit=limit))
    call.out.listing(
        found,
        {
            "announced": lambda one: one.announced_at,
            "outcome": _outcome,
            "run": lambda one: str(one.run or ""),
            "job": lambda one: str(one.job or ""),
            "document": lambda one: one.location,
        },
        fact=fact,
    )
    counts = call.ask(lambda rowen: rowen.sources.count_announcements(name))
    told = " · ".join(f"{number:,} {word}" for word, number in sorted(counts.items()))
    call.out.say(told or "Nothing was announced so far. The feed is synced first, then its documents.")


def _outcome(one: "AnnouncedDocument") -> Piece:
    return f"{one.outcome}: {one.why}" if one.why else one.outcome, _STYLES.get(one.outcome, "")


COMMANDS = {"announced": announced}
