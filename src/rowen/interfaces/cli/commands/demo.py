"""demo."""

import time
from typing import TYPE_CHECKING

import click

from rowen.interfaces.cli.command import command
from rowen.interfaces.cli.demo_place import demo_place, demo_settings
from rowen.interfaces.cli.invocation import Invocation
from rowen.model.wording import seconds

if TYPE_CHECKING:
    from rowen.operations import Rowen

__all__ = ["COMMANDS"]


@command("demo")
@click.option("--keep", is_flag=True, help="Leave the demo's folder and database behind.")
def demo(call: Invocation, keep: bool) -> None:
    """See the whole thing at work on a small world, offline."""
    from rowen.interfaces.cli.event_loop import ask

    started = time.monotonic()
    if not call.json:
        call.out.line("Welcome. First a database of its own, so that nothing of yours is touched ...")
    with demo_place(call, keep=keep) as (home, field):

        async def asked(rowen: "Rowen") -> None:
            from rowen.interfaces.cli.demo_story import Story

            await Story(rowen, call.out, field).tell()

        ask(demo_settings(call, home), asked)
    if not call.json:
        _farewell(call, time.monotonic() - started)


def _farewell(call: Invocation, elapsed_s: float) -> None:
    call.out.line()
    call.out.line(f"That was all, in {seconds(elapsed_s)}. Now with something of yours:")
    for line in (
        ("   rowen sync ./folder       ", "read a folder; again whenever you like, it costs what changed"),
        ('   rowen search "words"      ', "find it"),
        ("   rowen changes --follow    ", "watch what changes"),
        ("   rowen status              ", "see how all of it is doing"),
    ):
        call.out.line((line[0], "bold"), (line[1], "dim"))


COMMANDS = {"demo": demo}
