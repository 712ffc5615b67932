"""poke and push: looking at once at what somebody says has changed."""

from typing import TYPE_CHECKING

import click

from rowen.interfaces.cli.command import command, listing_group
from rowen.interfaces.cli.completing import source_names
from rowen.interfaces.cli.invocation import Invocation
from rowen.model.wording import count, moment

if TYPE_CHECKING:
    from rowen.model.push import Poked, Subscription
    from rowen.operations import Rowen

__all__ = ["COMMANDS"]


@command("poke")
@click.argument("targets", nargs=-1, shell_complete=source_names, required=True, metavar="URL|NAME...")
def poke(call: Invocation, targets: tuple[str, ...]) -> None:
    """Say that something changed: a worker looks at it before all that is due.

    A URL that is held is looked at by itself, where its kind can do that; otherwise its source is looked at as a whole.
    """
    from rowen.operations.facts import fact

    async def ask(rowen: "Rowen") -> "tuple[list[Poked], bool]":
        return await rowen.push.poke(*targets), bool(await rowen.queue.list_workers())

    poked, is_work_done = call.ask(ask)
    for one in poked:
        what = count(one.urls, "item") if one.urls else "the whole source"
        merged = ", with what waited already" if one.merged else ""
        call.out.answer(fact(one), f"{one.source}\tjob {one.job}\t{what}{merged}")
    if not is_work_done:
        call.out.say("No worker runs at the moment. `rowen worker --until-idle` does what is due now, and ends.")


@listing_group("push")
def push(call: Invocation) -> None:
    """List subscriptions to hubs; subscribe, unsubscribe, show what senders sign with."""
    found = call.ask(lambda rowen: rowen.push.list_subscriptions())
    call.out.listing(
        found,
        {
            "source": lambda one: (one.source, "bold"),
            "state": lambda one: one.state,
            "until": lambda one: moment(one.expires_at),
            "topic": lambda one: one.topic,
            "hub": lambda one: one.hub,
            "error": lambda one: one.error or "",
        },
    )
    if not found:
        call.out.say("There are no subscriptions. `rowen push subscribe NAME` asks the hub of a source to tell us.")


@command("subscribe")
@click.argument("name", shell_complete=source_names)
@click.option("--topic", metavar="URL", help="A page or feed of the source that names a hub; default: its address.")
def subscribe(call: Invocation, name: str, topic: str | None) -> None:
    """Have the hub of a source tell us what changed; renewed by workers before it ends."""
    _tell(call, call.ask(lambda rowen: rowen.push.subscribe(name, topic=topic)))


@command("unsubscribe")
@click.argument("name", shell_complete=source_names)
def unsubscribe(call: Invocation, name: str) -> None:
    """Have the hub of a source tell us no more."""
    call.ask(lambda rowen: rowen.push.unsubscribe(name))
    call.out.answer({"source": name, "state": "ending"}, f"{name}\tending")


@command("secret")
@click.argument("name", shell_complete=source_names)
def secret(call: Invocation, name: str) -> None:
    """Show where senders of a source call, and the secret that they sign with."""
    from rowen.operations.facts import fact

    for one in call.ask(lambda rowen: rowen.push.access(name)):
        call.out.answer(fact(one), f"{one.way}\t{one.url or '(ROWEN_PUBLIC_URL is not set)'}\t{one.secret}")


def _tell(call: Invocation, held: "Subscription") -> None:
    from rowen.operations.facts import fact

    call.out.answer(fact(held), f"{held.source}\t{held.state}\t{held.topic}\t{held.hub}")
    if held.state == "pending":
        call.out.say("The hub asks back at ROWEN_PUBLIC_URL before it tells us anything.")


for _command in (subscribe, unsubscribe, secret):
    push.add_command(_command)

COMMANDS = {"poke": poke, "push": push}
