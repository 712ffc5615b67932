"""webhooks: who is called when something changes."""

from typing import TYPE_CHECKING

import click

from rowen.interfaces.cli.command import command, listing_group, options_of
from rowen.interfaces.cli.completing import source_names
from rowen.interfaces.cli.invocation import Invocation
from rowen.interfaces.cli.output import Piece
from rowen.model.wording import count, moment, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowen.model.changes import ChangeKind
    from rowen.model.webhooks import Webhook

__all__ = ["CARE", "COMMANDS", "list_receivers", "show_receiver", "wanted"]

_STYLES = {"active": "green", "paused": "yellow", "disabled": "bold red"}
_secret = click.option(
    "--secret", required=True, metavar="REFERENCE", help="Where the signing secret is found: env:NAME or file:PATH."
)
_since = click.option("--since", type=click.IntRange(min=0), metavar="N", help="Send what followed this number, too.")


def wanted(function: "Callable[..., None]") -> "Callable[..., None]":
    """The options that say which changes a receiver is told of."""
    for option in (
        _since,
        click.option("--query", metavar="WORDS", help="Only changes of items that have these words."),
        click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only such: created, updated, deleted …"),
        click.option(
            "--source",
            "sources",
            multiple=True,
            metavar="NAME",
            shell_complete=source_names,
            help="Only of this source; may be repeated.",
        ),
    ):
        function = option(function)
    return function


@listing_group("webhooks")
def webhooks(call: Invocation) -> None:
    """List who is called when something changes; add, pause, replay."""
    list_receivers(
        call, call.ask(lambda rowen: rowen.webhooks.list()), "`rowen webhooks add NAME URL --secret env:NAME`"
    )


def list_receivers(call: Invocation, found: "Sequence[Webhook]", begin: str) -> None:
    """Show receivers, or how to have the first one."""
    call.out.listing(
        found,
        {
            "name": lambda one: (one.name, "bold"),
            "state": _state,
            "wants": _wants,
            "waiting": lambda one: f"{one.waiting:,}",
            "last error": lambda one: one.last_error or "",
            "url": lambda one: one.url,
        },
    )
    if not found:
        call.out.say(f"Nobody is told. {begin} changes that.")


def _state(one: "Webhook") -> Piece:
    return one.state, _STYLES[one.state]


def _wants(one: "Webhook") -> str:
    parts = [*one.wants.sources, *one.wants.kinds, *([f"“{one.wants.query}”"] if one.wants.query else [])]
    return ", ".join(parts) or "everything"


@command("add")
@click.argument("name")
@click.argument("url")
@_secret
@options_of("webhooks.add", since={"metavar": "N"}, kinds={"metavar": "KIND"})
def add(
    call: Invocation,
    name: str,
    url: str,
    secret: str,
    sources: tuple[str, ...],
    kinds: tuple["ChangeKind", ...],
    query: str | None,
    since: int | None,
) -> None:
    """Call an address whenever something changes, with signed messages (Standard Webhooks)."""
    made = call.ask(
        lambda rowen: rowen.webhooks.add(
            name, url, secret=secret, sources=sources, kinds=kinds, query=query, since=since
        )
    )
    show_receiver(call, made)
    call.out.say("A worker makes the calls: `rowen worker`. `rowen webhooks deliver NAME` makes those that wait now.")


@command("remove")
@click.argument("name")
def remove(call: Invocation, name: str) -> None:
    """Tell it no more, and forget what became of its calls."""
    call.ask(lambda rowen: rowen.webhooks.remove(name))
    call.out.answer({"removed": name}, f"{name} is told no more.")


@command("pause")
@click.argument("name")
def pause(call: Invocation, name: str) -> None:
    """Tell it no more until it is resumed; what it misses is sent then."""
    show_receiver(call, call.ask(lambda rowen: rowen.webhooks.pause(name)))


@command("resume")
@click.argument("name")
@_since
def resume(call: Invocation, name: str, since: int | None) -> None:
    """Tell it again, also after it was disabled; --since replays."""
    show_receiver(call, call.ask(lambda rowen: rowen.webhooks.resume(name, since=since)))


@command("rotate")
@click.argument("name")
@_secret
@click.option("--only", is_flag=True, help="Do not sign with the secret before any more.")
def rotate(call: Invocation, name: str, secret: str, only: bool) -> None:
    """Sign with another secret, and with the one before as well until --only is given."""
    show_receiver(call, call.ask(lambda rowen: rowen.webhooks.rotate(name, secret=secret, keep=not only)))


@command("deliver")
@click.argument("name")
def deliver(call: Invocation, name: str) -> None:
    """Make the calls that wait, now and here."""
    done = call.ask(lambda rowen: rowen.webhooks.deliver(name))
    call.out.answer({"webhook": name, "delivered": done}, f"{name}\t{count(done, 'change')} delivered")


@command("log")
@click.argument("name")
@options_of("webhooks.deliveries")
def log(call: Invocation, name: str, limit: int) -> None:
    """List what became of the last calls, newest first."""
    call.out.listing(
        call.ask(lambda rowen: rowen.webhooks.deliveries(name, limit=limit)),
        {
            "change": lambda one: str(one.number),
            "at": lambda one: moment(one.at),
            "status": lambda one: str(one.status or ""),
            "took": lambda one: seconds(one.seconds),
            "error": lambda one: one.error or "",
        },
    )


def show_receiver(call: Invocation, made: "Webhook") -> None:
    """All that is known of one receiver."""
    from rowen.operations.facts import fact

    told = fact(made)
    lines = {name.replace("_", " "): _shown(value) for name, value in told.items() if value not in (None, (), 0)}
    call.out.card(told, lines)


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


CARE = (remove, pause, resume, deliver, log)
"""What can be done to any receiver, program or people."""

for _command in (add, rotate, *CARE):
    webhooks.add_command(_command)

COMMANDS = {"webhooks": webhooks}
