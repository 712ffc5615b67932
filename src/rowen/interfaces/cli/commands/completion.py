"""completion."""

import click

from rowen.interfaces.cli.command import command
from rowen.interfaces.cli.invocation import Invocation

__all__ = ["COMMANDS"]


@command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(call: Invocation, shell: str) -> None:
    """Print the script by which a shell completes commands, options, names of sources and kinds.

    bash: eval "$(rowen completion bash)" in ~/.bashrc; zsh: the same with zsh in ~/.zshrc, below compinit; fish:
    rowen completion fish > ~/.config/fish/completions/rowen.fish
    """
    from click.shell_completion import get_completion_class

    from rowen.interfaces.cli.app import app

    found = get_completion_class(shell)
    assert found is not None  # noqa: S101 (click has all three)
    call.out.line(found(app, {}, "rowen", "_ROWEN_COMPLETE").source())


COMMANDS = {"completion": completion}
