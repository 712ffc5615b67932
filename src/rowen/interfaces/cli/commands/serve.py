"""serve."""

import logging
from functools import partial
from typing import TYPE_CHECKING

import click

from rowen.errors import ConfigurationError
from rowen.interfaces.cli.command import command
from rowen.interfaces.cli.demo_place import demo_place, demo_settings, demo_world
from rowen.interfaces.cli.invocation import Invocation

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowen.operations import Rowen

__all__ = ["COMMANDS"]


@command("serve")
@click.option("--host", metavar="ADDRESS", help="Listen here; default: 127.0.0.1. Any other requires tokens or OIDC.")
@click.option("--port", type=click.IntRange(0, 65535), help="Listen on this port; default: 8400. 0: any free one.")
@click.option("--no-worker", is_flag=True, help="Only answer: others keep everything fresh.")
@click.option("--demo", is_flag=True, help="Serve a small world of its own, for a first look; it goes when you stop.")
@click.option("--log-json", is_flag=True, help="Log each request on stderr, as JSON lines with its number.")
def serve(call: Invocation, host: str | None, port: int | None, no_worker: bool, demo: bool, log_json: bool) -> None:
    """Answer over HTTP, and keep everything fresh, until told to stop.

    On 127.0.0.1 only this machine can ask, and needs no token. Ctrl-C lets what is in flight end.
    """
    from rowen.interfaces.cli.event_loop import ask
    from rowen.settings import load
    from rowen.version import how_to_install

    try:
        from rowen.server.app import serve as serving
        from rowen.server.logs import log_as_json
    except ModuleNotFoundError as problem:
        raise ConfigurationError(
            f"The server needs {problem.name}, which is not installed.",
            hint=f"`{how_to_install('serve')}` installs it.",
        ) from None
    settings = load(home=call.home, database_url=call.database_url, host=host, port=port)
    if log_json:
        log_as_json(logging.DEBUG if call.verbose > 1 else logging.INFO)
    stops: list[Callable[[], None]] = []

    def started(address: str, stop: "Callable[[], None]") -> None:
        stops.append(stop)
        call.out.say(f"Serving on {address} (API: {address}/api/docs). Ctrl-C stops.")

    def stop(rowen: "Rowen") -> None:
        call.out.say("Stopping after what is in flight; Ctrl-C again ends at once.")
        for stop in stops:
            stop()

    patience = call.patience()
    serving_here = partial(serving, works=not no_worker, started=started, patience=patience)
    if not demo:
        ask(settings, serving_here, stop=stop, patience=patience)
        return
    with demo_place(call, keep=False) as (home, field):

        async def asked(rowen: "Rowen") -> None:
            call.out.say(
                "A farm, its shop and the valley's open data portal are read, and read again after a night ..."
            )
            async with demo_world(rowen, field):
                await serving_here(rowen)

        ask(demo_settings(call, home, host=settings.host, port=settings.port), asked, stop=stop)


COMMANDS = {"serve": serve}
