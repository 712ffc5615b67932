"""Options of commands, derived from the declarations of operations, and their types.

Commands import this module when they run or show their help, and not when they are listed.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click

from rowen.errors import UsageError
from rowen.interfaces.cli.command import OptionsOf
from rowen.interfaces.cli.completing import kind_names, source_names
from rowen.model.dates import moment_of, parse_since
from rowen.operations.registry import Parameter, signature_of

__all__ = ["MomentParam", "SinceParam", "derived_options"]

# Larger bounds are those of columns, which the help need not show.
_SHOWN_BOUND = 1_000_000
_METAVARS = {
    "source": "NAME",
    "sources": "NAME",
    "kinds": "K",
    "tags": "T",
    "languages": "CODE",
    "record_kinds": "KIND",
    "publisher": "P",
    "path": "PREFIX",
    "where": "CONDITION",
    "version": "V",
    "budget": "CHARS",
    "only": "URL",
    "every": "TIME",
    "cron": "FIELDS",
    "tz": "ZONE",
    "during": "HOURS",
    "rename": "NEW",
    "secret": "REFERENCE",
    "query": "WORDS",
}
_COMPLETIONS = {"source": source_names, "sources": source_names, "kind": kind_names, "kinds": kind_names}


def derived_options(place: OptionsOf) -> list[click.Option]:
    """Return the options of an operation: one for each parameter that callers may send and may omit, or those named."""
    parameters = signature_of(place.operation).parameters
    optional = [
        parameter.name for parameter in parameters.values() if not parameter.is_local and not parameter.is_required
    ]
    names = [name for name in optional if name not in place.leave_out] if place.only is None else place.only
    return [_option(parameters[name], place.changes.get(name, {})) for name in names]


def _option(parameter: Parameter, changes: Mapping[str, Any]) -> click.Option:
    kind, is_repeated = _type(parameter.type)
    default = None if parameter.is_required or is_repeated else parameter.default
    attributes: dict[str, Any] = {
        "help": f"{parameter.help[:-1]}; may be repeated." if is_repeated else parameter.help,
        "metavar": _METAVARS.get(parameter.name),
        "shell_complete": _COMPLETIONS.get(parameter.name),
        "required": parameter.is_required,
        "multiple": is_repeated,
    }
    if kind is bool:
        attributes["is_flag"] = True
    else:
        if get_origin(kind) is Literal:
            attributes["shell_complete"] = None
        attributes |= {"default": default, "show_default": default is not None, "type": _param_type(parameter, kind)}
    flag = "--" + parameter.flag.replace("_", "-")
    return click.Option((changes.get("flag", flag), parameter.name), **attributes | _without_flag(changes))


def _without_flag(changes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if name != "flag"}


def _type(hint: Any) -> tuple[Any, bool]:
    """Return the plain type of a value, and whether there may be several."""
    if get_origin(hint) is Annotated:
        return _type(hint.__origin__)
    if get_origin(hint) in (Union, UnionType):
        return _type(next(part for part in get_args(hint) if part is not NoneType))
    if get_origin(hint) is Sequence:
        return _type(get_args(hint)[0])[0], True
    return hint, False


def _param_type(parameter: Parameter, kind: Any) -> Any:
    if "convert" in parameter.extra:
        return MomentParam() if parameter.extra["convert"] is moment_of else SinceParam()
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    bounds = parameter.bounds
    if kind is int:
        highest = bounds.get("le")
        return click.IntRange(min=bounds.get("ge"), max=highest if highest and highest <= _SHOWN_BOUND else None)
    if kind is float:
        return click.FloatRange(min=bounds.get("gt", bounds.get("ge")), min_open="gt" in bounds)
    return click.STRING


class SinceParam(click.ParamType[int | timedelta | datetime]):
    """A number of the change log, a span of time or a date."""

    name = "N|1d|DATE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | timedelta | datetime:
        """Parse it."""
        try:
            return parse_since(value) if isinstance(value, str) else value
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is no change number (42), time passed (30min, 2h, 1d) or date (2026-01-31).")


class MomentParam(click.ParamType[datetime]):
    """A date, or a span of time that has passed."""

    name = "1d|DATE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Parse it."""
        try:
            return moment_of(value) if isinstance(value, str) else value
        except UsageError as problem:
            self.fail(str(problem))
