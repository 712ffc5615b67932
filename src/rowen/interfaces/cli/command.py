"""Commands that are imported when they are called, the options of all commands, and options of operations."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import click

from rowen.interfaces.cli.invocation import Invocation

Function = TypeVar("Function", bound=Callable[..., Any])

Sections = Mapping[str, Mapping[str, tuple[str, str]]]

_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Shared(click.Option):
    """An option of every command, accepted before or after the name of the command."""

    def __init__(self, *names: str, **attributes: Any) -> None:
        super().__init__(names, expose_value=False, is_eager=True, callback=_store, **attributes)


def _store(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    call = ctx.find_object(Invocation)
    if call is not None and value and option.name is not None:
        setattr(call, option.name, call.verbose + value if option.name == "verbose" else value)


class _Folder(click.ParamType[Path]):
    name = "folder"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        return Path(value).expanduser()


class Command(click.Command):
    """A command whose help lists its own options, and below them the options of all commands."""

    _params: list[Any]

    def __init__(self, name: str | None, **attributes: Any) -> None:
        attributes["context_settings"] = {**_SETTINGS, **(attributes.get("context_settings") or {})}
        super().__init__(name, **attributes)
        self._params += [
            Shared("--json", is_flag=True, help="Print one JSON object per line."),
            Shared("-q", "--quiet", is_flag=True, help="Print nothing on stderr but errors."),
            Shared("-v", "--verbose", count=True, help="Log events; -vv logs details and tracebacks."),
            Shared("--home", type=_Folder(), help="Data folder; default: ROWEN_HOME, or the user's data folder."),
            Shared(
                *("--database-url", "database_url"),
                metavar="URL",
                help="Your own PostgreSQL. Prefer ROWEN_DATABASE_URL: other users can see the options of a process.",
            ),
        ]

    @property
    def params(self) -> list[click.Parameter]:
        """The parameters; those that come from operations are derived at first use."""
        if any(isinstance(param, OptionsOf) for param in self._params):
            from rowen.interfaces.cli.options import derived_options

            derived = (derived_options(param) if isinstance(param, OptionsOf) else [param] for param in self._params)
            self._params = [parameter for several in derived for parameter in several]
        return self._params

    @params.setter
    def params(self, value: list[click.Parameter]) -> None:
        self._params = value

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the options of the command, then the options of all commands."""
        options = [option for option in self.get_params(ctx) if isinstance(option, click.Option)]
        for heading, is_shared in {"Options": False, "Options of every command": True}.items():
            listed = [option for option in options if isinstance(option, Shared) is is_shared]
            if records := [record for option in listed if (record := option.get_help_record(ctx))]:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List examples; for `add` also an address of each kind, for `export` the use of each format."""
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


class CommandGroup(Command, click.Group):
    """A command with subcommands."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands, then the options."""
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)


class LazyCommandGroup(CommandGroup):
    """A group that imports the module of a command when the command is called."""

    def __init__(self, name: str | None, *, sections: Sections, **attributes: Any) -> None:
        super().__init__(name, **attributes)
        self._sections = sections
        self._modules = {name: module for entries in sections.values() for name, (module, _) in entries.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, in the order of the help."""
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, and import its module."""
        if cmd_name not in self._modules:
            return None
        module = import_module(f"rowen.interfaces.cli.commands.{self._modules[cmd_name]}")
        imported: click.Command = module.COMMANDS[cmd_name]
        return imported

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command; if the name is unknown, raise an error that lists similar names."""
        if not args[0].startswith("-") and args[0] not in self._modules:
            raise click.exceptions.NoSuchCommand(args[0], possibilities=self._modules, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        for heading, entries in self._sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(10), words) for name, (_, words) in entries.items()])


@dataclass(frozen=True, slots=True)
class OptionsOf:
    """A placeholder for the options of an operation, which are derived on first use."""

    operation: str | type
    only: Collection[str] | None
    leave_out: Collection[str]
    changes: Mapping[str, Mapping[str, Any]]


def options_of(
    operation: str | type,
    *,
    only: Collection[str] | None = None,
    leave_out: Collection[str] = (),
    **changes: Mapping[str, Any],
) -> Callable[[Function], Function]:
    """Add the parameters of an operation to a command as options; `changes` overrides attributes of some options.

    Instead of an operation whose module is slow to import, a record of parameters can be passed.
    """

    def decorate(function: Function) -> Function:
        # click stores the options in this attribute before the command exists.
        vars(function).setdefault("__click_params__", []).append(OptionsOf(operation, only, leave_out, changes))
        return function

    return decorate


def command(name: str) -> Callable[[Callable[..., Any]], Command]:
    """Declare a command; its function receives the `Invocation` as the first argument."""

    def declare(function: Callable[..., Any]) -> Command:
        return click.command(name, cls=Command)(click.pass_obj(function))

    return declare


def listing_group(name: str) -> Callable[[Callable[..., None]], CommandGroup]:
    """Declare a group; without a subcommand, its function is called, which lists the resources."""

    def declare(function: Callable[..., None]) -> CommandGroup:
        @wraps(function)
        def listing(ctx: click.Context, /, **options: Any) -> None:
            if ctx.invoked_subcommand is None:
                function(ctx.obj, **options)

        return click.command(name, cls=CommandGroup, invoke_without_command=True)(click.pass_context(listing))

    return declare


def completing(function: str) -> Callable[..., list[str]]:
    """Return a completion function by its name; its module is imported when a shell requests completions."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        module = import_module("rowen.interfaces.cli.completing")
        completions: list[str] = getattr(module, function)(ctx, param, incomplete)
        return completions

    return complete


def source_argument(name: str = "name", **attributes: Any) -> Callable[[Function], Function]:
    """Declare an argument that is the name of a source, with completion."""
    return click.argument(name, shell_complete=completing("source_names"), **attributes)
