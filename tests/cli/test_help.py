"""Help is quick, because nothing heavy is imported for it."""

import resource
import subprocess
import sys

import click
import pytest

from rowen.interfaces.cli.app import app
from rowen.version import __version__

COMMANDS = app.list_commands(click.Context(app))


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-m", "rowen", *arguments], capture_output=True, text=True, timeout=60)


def spent_s() -> float:
    """Processor time of finished children: the machine may be busy with other tests."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_help_takes_less_than_half_a_second() -> None:
    times_s = []
    for _ in range(3):
        started = spent_s()
        done = run("--help")
        times_s.append(spent_s() - started)

    assert done.returncode == 0
    assert "rowen sync ./folder" in done.stdout
    assert min(times_s) < 0.4


def test_no_help_page_imports_anything_heavy() -> None:
    script = (
        "import sys\n"
        "from rowen.interfaces.cli.app import app\n"
        "for args in [['--help'], *([name, '--help'] for name in app.list_commands(None))]:\n"
        "    app.main(args, standalone_mode=False)\n"
        "heavy = {'pydantic', 'aiohttp', 'rich', 'procrastinate', 'turbohtml'} & set(sys.modules)\n"
        "print('heavy:', sorted(heavy), file=sys.stderr)\n"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)

    assert done.stderr.strip() == "heavy: []"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_equals_the_summaries_of_commands(name: str) -> None:
    context = click.Context(app)
    listed = {entry: words for section in app._sections.values() for entry, (_, words) in section.items()}

    command = app.get_command(context, name)

    assert command is not None
    assert command.name == name
    assert (command.help or "").partition("\n")[0] == listed[name]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_the_shared_options(name: str) -> None:
    command = app.get_command(click.Context(app), name)

    assert command is not None
    assert {"json", "quiet", "verbose", "home", "database_url"} <= {param.name for param in command.params}


def test_version_is_one_line() -> None:
    assert run("--version").stdout == f"rowen {__version__}\n"


def test_without_a_command_help_goes_to_stderr() -> None:
    done = run()

    assert done.returncode == 2
    assert not done.stdout
    assert "Usage: rowen" in done.stderr


def test_misspelt_commands_and_options_suggest_the_right_ones() -> None:
    command, option = run("snyc"), run("sync", "--full-snc", "--json")

    assert (command.returncode, option.returncode) == (2, 2)
    assert "Did you mean 'sync'" in command.stderr
    assert "--full-sync" in option.stderr
    assert '"exit_code": 2' in option.stderr
    assert not command.stdout + option.stdout
