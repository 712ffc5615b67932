"""held."""

from typing import TYPE_CHECKING

import click

from rowen.interfaces.cli.command import command
from rowen.interfaces.cli.completing import source_names
from rowen.interfaces.cli.invocation import Invocation
from rowen.model.wording import count, moment

if TYPE_CHECKING:
    from rowen.model.items import PendingDeletion
    from rowen.operations import Rowen

__all__ = ["COMMANDS"]


@command("held")
@click.argument("name", shell_complete=source_names, required=False)
@click.option("--accept", multiple=True, metavar="URL", help="Delete this item after all; may be repeated.")
@click.option(
    "--keep", multiple=True, metavar="URL", help="Keep this item until its source shows it again; may be repeated."
)
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="At most so many.")
def held(call: Invocation, name: str | None, accept: tuple[str, ...], keep: tuple[str, ...], limit: int) -> None:
    """List deletions that were held back, or decide about some."""
    if not accept and not keep:
        _list(call, name, limit)
    elif name is None:
        raise click.UsageError("--accept and --keep go with the name of a source.")
    else:
        _decide(call, name, accept, keep)


def _list(call: Invocation, name: str | None, limit: int) -> None:

    found = call.ask(lambda rowen: rowen.deletions.list(name, limit=limit))
    call.out.listing(
        found,
        {
            "source": lambda one: (one.source, "bold"),
            "since": lambda one: moment(one.since),
            "why": lambda one: "called gone" if one.told else "vanished",
            "decision": _decision,
            "title": lambda one: one.title,
            "url": lambda one: one.url,
        },
    )
    if not found:
        call.out.say("No deletions are held back.")


def _decision(one: "PendingDeletion") -> str:
    return f"kept since {moment(one.kept_at)}" if one.kept_at else "open"


def _decide(call: Invocation, name: str, accept: tuple[str, ...], keep: tuple[str, ...]) -> None:
    async def asked(rowen: "Rowen") -> tuple[int, int]:
        accepted = await rowen.deletions.accept(name, accept) if accept else 0
        return accepted, await rowen.deletions.keep(name, keep) if keep else 0

    accepted, kept = call.ask(asked)
    told = [f"{count(number, 'item')} {what}" for number, what in ((accepted, "deleted"), (kept, "kept")) if number]
    call.out.answer({"source": name, "accepted": accepted, "kept": kept}, (name, "bold"), f"\t{', '.join(told)}")


COMMANDS = {"held": held}
