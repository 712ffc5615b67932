"""Commands of the server: serve, token."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import click

from rowen.errors import ConfigurationError
from rowen.interfaces.cli.command import CommandGroup, command, options_of
from rowen.interfaces.cli.demo_farm import demo_place, demo_settings, demo_world
from rowen.interfaces.cli.invocation import Invocation
from rowen.interfaces.cli.session import ask, patience
from rowen.model.access import AccessToken, Scope
from rowen.model.wording import moment
from rowen.settings import load
from rowen.version import how_to_install

if TYPE_CHECKING:
    from rowen.operations import Rowen


@command("serve")
@click.option(
    "--host", metavar="ADDRESS", help="Address to listen on; default: 127.0.0.1. Others require tokens or OIDC."
)
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; default: 8400. 0: any free one.")
@click.option("--no-worker", is_flag=True, help="Run no worker in the server.")
@click.option("--demo", is_flag=True, help="Serve a small demo with data of its own, which is deleted at the end.")
@click.option("--log-json", is_flag=True, help="Log each request on stderr as a JSON line with its number.")
def serve(call: Invocation, host: str | None, port: int | None, no_worker: bool, demo: bool, log_json: bool) -> None:
    """Serve the web page and API, and keep sources fresh, until stopped.

    127.0.0.1 can be reached from this machine only, and needs no token. Ctrl-C lets requests and jobs in flight end.
    """
    try:
        # The extra `serve` may not be installed.
        from rowen.server import app, logs
    except ModuleNotFoundError as problem:
        raise ConfigurationError(
            f"The server needs {problem.name}, which is not installed.",
            hint=f"`{how_to_install('serve')}` installs it.",
        ) from None
    settings = load(home=call.home, database_url=call.database_url, host=host, port=port)
    if log_json:
        logs.log_as_json(logging.DEBUG if call.verbose > 1 else logging.INFO)
    stops: list[Callable[[], None]] = []

    def started(address: str, stop: Callable[[], None]) -> None:
        stops.append(stop)
        call.out.say(f"Serving on {address} (API: {address}/api/docs). Ctrl-C stops.")

    def stop(rowen: Rowen) -> None:
        call.out.say("Stopping after the work in flight; Ctrl-C again ends at once.")
        for stop in stops:
            stop()

    waiting = patience(call)
    serve_here = partial(app.serve, works=not no_worker, started=started, patience=waiting)
    if not demo:
        ask(settings, serve_here, stop=stop, patience=waiting)
        return
    with demo_place(call, keep=False) as (home, field):

        async def serve_demo(rowen: Rowen) -> None:
            call.out.say("Reading a farm, its shop and an open data portal, and again after some changes ...")
            async with demo_world(rowen, field):
                await serve_here(rowen)

        ask(demo_settings(call, home, host=settings.host, port=settings.port), serve_demo, stop=stop)


@click.command("token", cls=CommandGroup)
def token() -> None:
    """Create, list and revoke access tokens of the server."""


@command("add")
@click.argument("name")
@options_of(
    "access.add_token",
    scope={"type": click.Choice([str(scope) for scope in Scope]), "help": "Scope of the token."},
    days={"help": "Days until the token expires."},
)
@click.option("--forever", is_flag=True, help="The token never expires.")
def add(call: Invocation, name: str, scope: str, days: float, forever: bool) -> None:
    """Create a token. It is printed once, and never stored."""
    made = call.ask(lambda rowen: rowen.access.add_token(name, scope=scope, days=None if forever else days))
    call.out.answer(made, made.secret)
    call.out.say(
        f"{name} has the scope {scope}, {_expiry(made.token)}. Send it as `Authorization: Bearer …`; it is not shown"
        " again."
    )


@command("list")
def list_tokens(call: Invocation) -> None:
    """List all tokens with their scopes, without the secrets."""
    tokens = call.ask(lambda rowen: rowen.access.list_tokens())
    call.out.listing(
        tokens,
        {
            "name": lambda token: (token.name, "bold"),
            "scope": lambda token: token.scope,
            "expires": _expiry,
            "last used": lambda token: moment(token.last_used_at) if token.last_used_at else "never",
        },
    )
    if not tokens:
        call.out.say("There are no tokens. `rowen token add NAME` creates one.")


@command("revoke")
@click.argument("name")
def revoke(call: Invocation, name: str) -> None:
    """Revoke a token and its sessions: they are refused from now on."""
    call.ask(lambda rowen: rowen.access.revoke_token(name))
    call.out.answer({"revoked": name}, f"{name} is refused from now on.")


def _expiry(token: AccessToken) -> str:
    if token.expires_at is None:
        return "never expires"
    is_over = token.expires_at < datetime.now(UTC)
    return f"{'expired' if is_over else 'until'} {moment(token.expires_at)}"


for _command in (add, list_tokens, revoke):
    token.add_command(_command)

COMMANDS = {"serve": serve, "token": token}
