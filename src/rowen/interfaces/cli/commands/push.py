"""Commands on reported changes: poke, push."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowen.interfaces.cli.command import command, listing_group, options_of, source_argument
from rowen.interfaces.cli.invocation import Invocation
from rowen.model.wording import count, moment

if TYPE_CHECKING:
    from rowen.model.push import Poked
    from rowen.operations import Rowen


@command("poke")
@source_argument("targets", nargs=-1, required=True, metavar="URL|NAME...")
def poke(call: Invocation, targets: tuple[str, ...]) -> None:
    """Report a change: a worker checks it before all due jobs.

    A known URL is checked alone if its kind supports that; otherwise its whole source is checked.
    """

    async def answer(rowen: Rowen) -> tuple[list[Poked], bool]:
        return await rowen.push.poke(*targets), bool(await rowen.queue.list_workers())

    poked, has_worker = call.ask(answer)
    for source in poked:
        scope = count(source.urls, "item") if source.urls else "the whole source"
        merged = ", merged with a waiting job" if source.merged else ""
        call.out.answer(source, f"{source.source}\tjob {source.job}\t{scope}{merged}")
    if not has_worker:
        call.out.say("No worker is running. `rowen worker --until-idle` runs the jobs that are due now, and exits.")


@listing_group("push")
def push(call: Invocation) -> None:
    """List push subscriptions; subscribe, unsubscribe, show secrets."""
    subscriptions = call.ask(lambda rowen: rowen.push.list_subscriptions())
    call.out.listing(
        subscriptions,
        {
            "source": lambda subscription: (subscription.source, "bold"),
            "state": lambda subscription: subscription.state,
            "until": lambda subscription: moment(subscription.expires_at),
            "topic": lambda subscription: subscription.topic,
            "hub": lambda subscription: subscription.hub,
            "error": lambda subscription: subscription.error or "",
        },
    )
    if not subscriptions:
        call.out.say("There are no subscriptions. `rowen push subscribe NAME` subscribes to the hub of a source.")


@command("subscribe")
@source_argument()
@options_of("push.subscribe")
def subscribe(call: Invocation, name: str, topic: str | None) -> None:
    """Subscribe to the hub of a source; workers renew the subscription before it expires."""
    subscription = call.ask(lambda rowen: rowen.push.subscribe(name, topic=topic))
    call.out.answer(
        subscription, f"{subscription.source}\t{subscription.state}\t{subscription.topic}\t{subscription.hub}"
    )
    if subscription.state == "pending":
        call.out.say("The hub first verifies the subscription with a request to ROWEN_PUBLIC_URL.")


@command("unsubscribe")
@source_argument()
def unsubscribe(call: Invocation, name: str) -> None:
    """End the subscription to the hub of a source."""
    call.ask(lambda rowen: rowen.push.unsubscribe(name))
    call.out.answer({"source": name, "state": "ending"}, f"{name}\tending")


@command("secret")
@source_argument()
def secret(call: Invocation, name: str) -> None:
    """Show the addresses that senders of a source call, and the secrets that they sign with."""
    for access in call.ask(lambda rowen: rowen.push.access(name)):
        call.out.answer(access, f"{access.way}\t{access.url or '(ROWEN_PUBLIC_URL is not set)'}\t{access.secret}")


for _command in (subscribe, unsubscribe, secret):
    push.add_command(_command)

COMMANDS = {"poke": poke, "push": push}
