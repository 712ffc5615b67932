"""Commands on receivers of changes: webhooks for programs, notify for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from rowen.interfaces.cli.command import command, listing_group, options_of
from rowen.interfaces.cli.invocation import Invocation
from rowen.model.wording import count, moment, seconds

if TYPE_CHECKING:
    from rowen.model.webhooks import Webhook

_SINCE = {"help": "Also send earlier changes, after this number of the change log."}
_STYLES = {"active": "green", "paused": "yellow", "disabled": "bold red"}


@listing_group("webhooks")
def webhooks(call: Invocation) -> None:
    """List webhooks; add, pause, replay."""
    listed = call.ask(lambda rowen: rowen.webhooks.list())
    _list(call, listed, "There are no webhooks. `rowen webhooks add NAME URL --secret env:NAME` adds one.")


@listing_group("notify")
def notify(call: Invocation) -> None:
    """List notifications by mail or chat; add, pause."""
    listed = call.ask(lambda rowen: rowen.webhooks.list_notices())
    _list(call, listed, "There are no notifications. `rowen notify add NAME env:ADDRESS` adds one.")


def _list(call: Invocation, webhooks: Sequence[Webhook], hint: str) -> None:
    call.out.listing(
        webhooks,
        {
            "name": lambda webhook: (webhook.name, "bold"),
            "state": lambda webhook: (webhook.state, _STYLES[webhook.state]),
            "filters": _filters,
            "pending": lambda webhook: f"{webhook.waiting:,}",
            "last error": lambda webhook: webhook.last_error or "",
            "url": lambda webhook: webhook.url,
        },
    )
    if not webhooks:
        call.out.say(hint)


def _filters(webhook: Webhook) -> str:
    wants = webhook.wants
    return ", ".join([*wants.sources, *wants.kinds, *([f"“{wants.query}”"] if wants.query else [])]) or "everything"


@command("add")
@click.argument("name")
@click.argument("url")
@options_of("webhooks.add", only=("secret", "sources", "kinds", "query", "since"), since=_SINCE)
def add(call: Invocation, name: str, url: str, secret: str, **filters: Any) -> None:
    """Call an address when something changes, with signed messages (Standard Webhooks)."""
    call.out.card(call.ask(lambda rowen: rowen.webhooks.add(name, url, secret=secret, **filters)))
    call.out.say("`rowen worker` makes the calls. `rowen webhooks deliver NAME` makes pending ones now.")


@command("add")
@click.argument("name")
@click.argument("target", metavar="REFERENCE")
@options_of("webhooks.add_notice", since=_SINCE)
def add_notice(call: Invocation, name: str, target: str, **filters: Any) -> None:
    """Notify people when something changes.

    REFERENCE says where the address is found: env:NAME or file:PATH. The address holds passwords, so it is never
    stored. It is an Apprise URL: `mailto://…`, `slack://…`, `ntfy://…` and a hundred others.
    """
    call.out.card(call.ask(lambda rowen: rowen.webhooks.add_notice(name, target, **filters)))
    call.out.say("`rowen worker` sends the messages. `rowen notify deliver NAME` sends pending ones now.")


@command("remove")
@click.argument("name")
def remove(call: Invocation, name: str) -> None:
    """Remove it with its delivery log."""
    call.ask(lambda rowen: rowen.webhooks.remove(name))
    call.out.answer({"removed": name}, f"{name} was removed.")


@command("pause")
@click.argument("name")
def pause(call: Invocation, name: str) -> None:
    """Send nothing until it is resumed; changes in between are sent then."""
    call.out.card(call.ask(lambda rowen: rowen.webhooks.pause(name)))


@command("resume")
@click.argument("name")
@options_of("webhooks.resume", since={"help": "Send changes after this number of the change log again."})
def resume(call: Invocation, name: str, since: int | None) -> None:
    """Send again, also after it was disabled; --since replays."""
    call.out.card(call.ask(lambda rowen: rowen.webhooks.resume(name, since=since)))


@command("rotate")
@click.argument("name")
@options_of("webhooks.rotate", only=("secret",))
@click.option("--only", is_flag=True, help="Stop signing with the previous secret.")
def rotate(call: Invocation, name: str, secret: str, only: bool) -> None:
    """Sign with a new secret, and with the previous one as well unless --only is given."""
    call.out.card(call.ask(lambda rowen: rowen.webhooks.rotate(name, secret=secret, keep=not only)))


@command("deliver")
@click.argument("name")
def deliver(call: Invocation, name: str) -> None:
    """Send pending changes now, in this process."""
    delivered = call.ask(lambda rowen: rowen.webhooks.deliver(name))
    call.out.answer({"webhook": name, "delivered": delivered}, f"{name}\t{count(delivered, 'change')} delivered")


@command("log")
@click.argument("name")
@options_of("webhooks.deliveries")
def log(call: Invocation, name: str, limit: int) -> None:
    """List the last deliveries, newest first."""
    call.out.listing(
        call.ask(lambda rowen: rowen.webhooks.deliveries(name, limit=limit)),
        {
            "change": lambda delivery: str(delivery.number),
            "at": lambda delivery: moment(delivery.at),
            "status": lambda delivery: str(delivery.status or ""),
            "took": lambda delivery: seconds(delivery.seconds),
            "error": lambda delivery: delivery.error or "",
        },
    )


_SHARED = (remove, pause, resume, deliver, log)
for _command in (add, rotate, *_SHARED):
    webhooks.add_command(_command)
for _command in (add_notice, *_SHARED):
    notify.add_command(_command)

COMMANDS = {"webhooks": webhooks, "notify": notify}
