"""The command `mcp`."""

import gc

import click

from rowen.interfaces.cli.command import command
from rowen.interfaces.cli.invocation import Invocation


@command("mcp")
@click.option("--allow-writes", is_flag=True, help="Allow assistants to add, sync, remove and extract.")
@click.option("--allow-files", is_flag=True, help="With --allow-writes: also folders and files of this machine.")
@click.option(
    "--profile",
    type=click.Choice(["rowen", "docs-server"]),
    default="rowen",
    show_default=True,
    help="Names of the tools; docs-server: those of a well-known documentation server.",
)
def mcp(call: Invocation, allow_writes: bool, allow_files: bool, profile: str) -> None:
    """Serve an assistant on standard input and output (Model Context Protocol).

    An assistant starts this command from its own configuration. `rowen serve` offers the same over HTTP at /mcp.
    """
    # Imported objects never become garbage; collecting among them takes a sixth of the time to the first answer. The
    # server enables collection again after its imports.
    gc.disable()
    from rowen.interfaces.cli.session import run
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
