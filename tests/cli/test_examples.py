"""Every command's help ends with examples that work, fits a narrow terminal, and shells complete names and kinds."""

import os
import shlex
import subprocess
import sys

import click
import pytest

from rowen.connectors import registry
from rowen.interfaces.cli.app import app
from rowen.interfaces.cli.completing import kind_names, option_names
from rowen.interfaces.cli.examples import EXAMPLES, FORMATS, KINDS
from rowen.interfaces.cli.invocation import Invocation
from tests.cli.conftest import Cli
from tests.docs.test_reference import COMMANDS

PATHS = [path.removeprefix("rowen ") for path in COMMANDS]


def help_of(path: str, width: int = 80) -> str:
    context = click.Context(app, info_name="rowen")
    command: click.Command = app
    for name in path.split():
        assert isinstance(command, click.Group)
        found = command.get_command(context, name)
        assert found is not None
        command, context = found, click.Context(found, parent=context, info_name=name, terminal_width=width)
    return command.get_help(context)


@pytest.mark.parametrize("path", PATHS)
def test_the_help_of_every_command_shows_examples_of_it(path: str) -> None:
    shown = help_of(path).partition("Examples:\n")[2].splitlines()

    assert shown
    assert all(line.startswith(f"  rowen {path}") for line in shown)


@pytest.mark.parametrize("example", [example for examples in EXAMPLES.values() for example in examples])
def test_every_example_is_understood(example: str) -> None:
    words = shlex.split(example.partition(" >")[0])
    context = app.make_context("rowen", words, obj=Invocation())

    while isinstance(context.command, click.Group):
        given = [*context._protected_args, *context.args]
        if not given:
            break
        name, command, rest = context.command.resolve_command(context, given)
        assert command is not None
        context = command.make_context(name, rest, parent=context)

    assert context.command is not app or words == []


@pytest.mark.parametrize("path", PATHS)
def test_help_is_readable_in_sixty_columns(path: str) -> None:
    prose = help_of(path, width=60).partition("Examples:\n")[0]

    assert [line for line in prose.splitlines() if len(line) > 60] == []


def test_add_shows_an_address_of_each_kind_and_export_its_formats() -> None:
    assert set(KINDS) == set(registry.kinds())
    assert all(f"  {kind} " in help_of("add") for kind in KINDS)
    assert all(f"  {form} " in help_of("export") for form in FORMATS)


def test_kinds_and_the_options_of_a_kind_are_completed() -> None:
    context = click.Context(app)
    parameter = app.params[0]

    assert kind_names(context, parameter, "spa") == ["sparql"]
    context.params["kind"] = "web"
    assert "max_pages=" in option_names(context, parameter, "max_p")
    assert option_names(context, parameter, "page_size") == []


def test_names_of_sources_are_completed_by_the_shell(docs: Cli) -> None:
    asked = {"COMP_WORDS": "rowen show d", "COMP_CWORD": "2", "_ROWEN_COMPLETE": "bash_complete"}

    assert docs(**asked).out == "plain,docs\n"


def test_where_there_is_no_database_no_names_are_completed_and_none_is_made(cli: Cli) -> None:
    asked = {"COMP_WORDS": "rowen show d", "COMP_CWORD": "2", "_ROWEN_COMPLETE": "bash_complete"}
    del cli.environment["ROWEN_DATABASE_URL"]

    assert cli(**asked).out.strip() == ""
    assert not (cli.folder / "home").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_asks_rowen(shell: str) -> None:
    command = [sys.executable, "-m", "rowen", "completion", shell]
    script = subprocess.run(command, capture_output=True, text=True, timeout=60, env=dict(os.environ)).stdout

    assert f"_ROWEN_COMPLETE={shell}_complete" in script
