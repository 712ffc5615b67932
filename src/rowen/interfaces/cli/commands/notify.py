"""notify: people who are told when something changes."""

from typing import TYPE_CHECKING

import click

from rowen.interfaces.cli.command import command, listing_group
from rowen.interfaces.cli.commands.webhooks import CARE, list_receivers, show_receiver, wanted
from rowen.interfaces.cli.invocation import Invocation

if TYPE_CHECKING:
    from rowen.model.changes import ChangeKind

__all__ = ["COMMANDS"]


@listing_group("notify")
def notify(call: Invocation) -> None:
    """List people who are told of changes, by mail or chat; add, pause."""
    list_receivers(call, call.ask(lambda rowen: rowen.webhooks.list_notices()), "`rowen notify add NAME env:ADDRESS`")


@command("add")
@click.argument("name")
@click.argument("target", metavar="REFERENCE")
@wanted
def add(
    call: Invocation,
    name: str,
    target: str,
    sources: tuple[str, ...],
    kinds: tuple["ChangeKind", ...],
    query: str | None,
    since: int | None,
) -> None:
    """Tell people whenever something changes.

    REFERENCE says where the address is found: env:NAME or file:PATH. It holds logins, so it is never stored. It is
    written as Apprise has it: `mailto://…`, `slack://…`, `ntfy://…` and a hundred others are understood.
    """
    made = call.ask(
        lambda rowen: rowen.webhooks.add_notice(name, target, sources=sources, kinds=kinds, query=query, since=since)
    )
    show_receiver(call, made)
    call.out.say("A worker sends the messages: `rowen worker`. `rowen notify deliver NAME` sends those that wait now.")


notify.add_command(add)
for _command in CARE:
    notify.add_command(_command)

COMMANDS = {"notify": notify}
