"""Commands that are imported when they are called, and the options that every command takes."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import click

from rowen.interfaces.cli.invocation import Invocation

__all__ = ["Command", "CommandGroup", "LazyCommandGroup", "OptionsOf", "command", "listing_group", "options_of"]

Function = TypeVar("Function", bound=Callable[..., Any])

Sections = Mapping[str, Mapping[str, tuple[str, str]]]

_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Shared(click.Option):
    """An option of every command, given before or after the command's name."""

    def __init__(self, *names: str, **attributes: Any) -> None:
        super().__init__(names, expose_value=False, is_eager=True, callback=_note, **attributes)


def _note(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    call = ctx.find_object(Invocation)
    if call is None or not value or option.name is None:
        return
    setattr(call, option.name, call.verbose + value if option.name == "verbose" else value)


def _shared() -> list[click.Parameter]:
    return [
        Shared("--json", is_flag=True, help="One JSON object a line."),
        Shared("-q", "--quiet", is_flag=True, help="No talk on stderr but errors."),
        Shared("-v", "--verbose", count=True, help="Log what happens; -vv with details and tracebacks."),
        Shared("--home", type=_Folder(), help="Data folder; default: ROWEN_HOME, or the user's data folder."),
        Shared(
            *("--database-url", "database_url"),
            metavar="URL",
            help="A PostgreSQL of yours. Prefer ROWEN_DATABASE_URL: others can see the flags of a process.",
        ),
    ]


class _Folder(click.ParamType[Path]):
    name = "folder"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        return Path(value).expanduser()


class _Sharing(click.Command):
    """Takes the shared options, and shows them apart from its own."""

    _params: list[Any]

    def __init__(self, name: str | None, **attributes: Any) -> None:
        attributes["context_settings"] = {**_SETTINGS, **(attributes.get("context_settings") or {})}
        super().__init__(name, **attributes)
        self._params.extend(_shared())

    @property
    def params(self) -> list[click.Parameter]:
        """The parameters; those of operations are derived on first use."""
        if any(isinstance(param, OptionsOf) for param in self._params):
            from rowen.interfaces.cli.options import derived_options

            derived = (derived_options(param) if isinstance(param, OptionsOf) else [param] for param in self._params)
            self._params = [parameter for several in derived for parameter in several]
        return self._params

    @params.setter
    def params(self, value: list[click.Parameter]) -> None:
        self._params = value

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Own options first."""
        options = [option for option in self.get_params(ctx) if isinstance(option, click.Option)]
        _describe("Options", (o for o in options if not isinstance(o, Shared)), ctx, formatter)
        _describe("Options of every command", (o for o in options if isinstance(o, Shared)), ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Examples that can be pasted; for `add` an address of each kind, for `export` what its formats are for."""
        path = ctx.command_path.partition(" ")[2]
        if not path:
            return
        from rowen.interfaces.cli.examples import EXAMPLES, FORMATS, KINDS

        tables = {"add": ("Kinds, and an address of each", KINDS), "export": ("Formats", FORMATS)}
        if path in tables:
            heading, rows = tables[path]
            with formatter.section(heading):
                formatter.write_dl(list(rows.items()))
        with formatter.section("Examples"):
            for example in EXAMPLES.get(path, ()):
                formatter.write(f"  rowen {example}\n")


def _describe(
    heading: str, options: Iterable[click.Parameter], ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    records = [record for option in options if (record := option.get_help_record(ctx))]
    if records:
        with formatter.section(heading):
            formatter.write_dl(records)


class Command(_Sharing):
    """One command."""


class CommandGroup(_Sharing, click.Group):
    """A command with commands of its own."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands, and then the options."""
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)


class LazyCommandGroup(CommandGroup):
    """A group that knows the names of its commands, and the modules that hold them."""

    def __init__(self, name: str | None, *, sections: Sections, **attributes: Any) -> None:
        super().__init__(name, **attributes)
        self._sections = sections
        self._modules = {name: module for entries in sections.values() for name, (module, _) in entries.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order in which they are shown."""
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in self._modules:
            return None
        module = import_module(f"rowen.interfaces.cli.commands.{self._modules[cmd_name]}")
        found: click.Command = module.COMMANDS[cmd_name]
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a misspelt one is answered with the names that are close."""
        if not args[0].startswith("-") and args[0] not in self._modules:
            raise click.exceptions.NoSuchCommand(args[0], possibilities=self._modules, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing one."""
        for heading, entries in self._sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(10), words) for name, (_, words) in entries.items()])


@dataclass(frozen=True, slots=True)
class OptionsOf:
    """The place of an operation's options among those of a command, until they are needed."""

    operation: str
    only: Collection[str] | None
    leave_out: Collection[str]
    changes: Mapping[str, Mapping[str, Any]]


def options_of(
    operation: str,
    *,
    only: Collection[str] | None = None,
    leave_out: Collection[str] = (),
    **changes: Mapping[str, Any],
) -> Callable[[Function], Function]:
    """Give a command the parameters of an operation as options; `changes` has attributes of single ones."""

    def decorate(function: Function) -> Function:
        # This is how click collects the options of a command before it exists.
        vars(function).setdefault("__click_params__", []).append(OptionsOf(operation, only, leave_out, changes))
        return function

    return decorate


def command(name: str) -> Callable[[Callable[..., Any]], Command]:
    """Declare a command; its function gets the call first."""

    def declare(function: Callable[..., Any]) -> Command:
        return click.command(name, cls=Command)(click.pass_obj(function))

    return declare


def listing_group(name: str) -> Callable[[Callable[..., None]], CommandGroup]:
    """Declare a group whose function, called without one of its commands, lists what there is."""

    def declare(function: Callable[..., None]) -> CommandGroup:
        @wraps(function)
        def listing(ctx: click.Context, /, **options: Any) -> None:
            if ctx.invoked_subcommand is None:
                function(ctx.obj, **options)

        return click.command(name, cls=CommandGroup, invoke_without_command=True)(click.pass_context(listing))

    return declare
