"""token: who may ask the server."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from rowen.interfaces.cli.command import CommandGroup, command
from rowen.interfaces.cli.invocation import Invocation
from rowen.model.access import Scope
from rowen.model.wording import moment

if TYPE_CHECKING:
    from rowen.model.access import AccessToken

__all__ = ["COMMANDS"]


@click.command("token", cls=CommandGroup)
def token() -> None:
    """Make, list and revoke the tokens by which others may ask the server."""


@command("add")
@click.argument("name")
@click.option(
    "--scope",
    type=click.Choice([str(scope) for scope in Scope]),
    default="read",
    show_default=True,
    help="What it may do.",
)
@click.option(
    "--days", type=click.FloatRange(min=0, min_open=True), default=90, show_default=True, help="It holds so long."
)
@click.option("--forever", is_flag=True, help="It holds until it is revoked.")
def add(call: Invocation, name: str, scope: str, days: float, forever: bool) -> None:
    """Make a token. It is printed this once, and stored nowhere."""
    from rowen.operations.facts import fact

    made = call.ask(lambda rowen: rowen.access.add_token(name, scope=scope, days=None if forever else days))
    call.out.answer(fact(made), made.secret)
    call.out.say(
        f"{name} may {scope} {_until(made.token)}. Send it as `Authorization: Bearer …`; it is not shown again."
    )


@command("list")
def list_tokens(call: Invocation) -> None:
    """List all tokens: what they are called and may do, never themselves."""
    from rowen.operations.facts import fact

    found = call.ask(lambda rowen: rowen.access.list_tokens())
    call.out.listing(
        found,
        {
            "name": lambda one: (one.name, "bold"),
            "scope": lambda one: one.scope,
            "holds": _until,
            "last used": lambda one: moment(one.last_used_at) if one.last_used_at else "never",
        },
        fact=fact,
    )
    if not found:
        call.out.say("There is no token. `rowen token add NAME` makes one.")


@command("revoke")
@click.argument("name")
def revoke(call: Invocation, name: str) -> None:
    """Take a token back: it is refused from now on, and so are the sessions that were made from it."""
    call.ask(lambda rowen: rowen.access.revoke_token(name))
    call.out.answer({"revoked": name}, f"{name} is refused from now on.")


def _until(one: "AccessToken") -> str:
    if one.expires_at is None:
        return "for ever"
    over = one.expires_at < datetime.now(UTC)
    return f"{'expired' if over else 'until'} {moment(one.expires_at)}"


for one in (add, list_tokens, revoke):
    token.add_command(one)

COMMANDS = {"token": token}
