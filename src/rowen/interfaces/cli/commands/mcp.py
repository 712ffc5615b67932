"""mcp: answers assistants."""

from __future__ import annotations

import gc

import click

from rowen.interfaces.cli.command import command
from rowen.interfaces.cli.invocation import Invocation

__all__ = ["COMMANDS"]


@command("mcp")
@click.option("--allow-writes", is_flag=True, help="Let assistants add, sync, remove and extract.")
@click.option("--allow-files", is_flag=True, help="With --allow-writes: also folders and files of this machine.")
@click.option(
    "--profile",
    type=click.Choice(["rowen", "docs-server"]),
    default="rowen",
    show_default=True,
    help="The names of the tools; docs-server: those of a well-known documentation server.",
)
def mcp(call: Invocation, allow_writes: bool, allow_files: bool, profile: str) -> None:
    """Answer an assistant on standard input and output (Model Context Protocol).

    An assistant starts this by itself, from its own configuration. Over HTTP the same is at /mcp of `rowen serve`.
    """
    # Nothing of what is imported now is ever garbage; looking for it takes a sixth of the time to the first answer. It
    # is begun again when all is imported.
    gc.disable()
    from rowen.interfaces.cli.event_loop import run
    from rowen.interfaces.mcp import serve_stdio

    settings = call.settings
    run(
        lambda: serve_stdio(
            settings,
            allow_writes=allow_writes,
            local_files=allow_files,
            profile="docs-server" if profile == "docs-server" else "rowen",
        )
    )


COMMANDS = {"mcp": mcp}
