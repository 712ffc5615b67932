"""Options of commands, derived from the declarations of operations, and their types."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import click

from rowen.errors import UsageError
from rowen.interfaces.cli.command import OptionsOf, completing
from rowen.model.dates import moment_of, parse_since, since_of
from rowen.operations.registry import Parameter, parameter_of, signature_of

# Larger bounds come from database columns, and are not shown in the help.
_SHOWN_BOUND = 1_000_000
_METAVARS = {
    "source": "NAME",
    "sources": "NAME",
    "kinds": "KIND",
    "tags": "T",
    "languages": "CODE",
    "record_kinds": "KIND",
    "publisher": "P",
    "path": "PREFIX",
    "where": "CONDITION",
    "conditions": "CONDITION",
    "only_urls": "PATTERN",
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
    "graph": "IRI",
    "topic": "URL",
    "proxy": "URL",
    "url": "URL",
    "model": "NAME",
    "models": "NAME",
    "schema": "NAME[@V]",
    "instructions": "TEXT",
    "prefix": "TEXT",
    "embedder": "KIND",
    "field": "NAME",
    "before": "N",
    "node": "NODE",
}
_COMPLETIONS = {
    "source": completing("source_names"),
    "sources": completing("source_names"),
    "kind": completing("kind_names"),
    "kinds": completing("kind_names"),
}


def derived_options(place: OptionsOf) -> list[click.Option]:
    """Return options for the parameters that callers may send and may omit, or for the parameters named."""
    parameters = (
        signature_of(place.operation).parameters
        if isinstance(place.operation, str)
        else {
            name: parameter_of(name, hint, None)
            for name, hint in get_type_hints(place.operation, include_extras=True).items()
        }
    )
    names = place.only or [
        parameter.name
        for parameter in parameters.values()
        if not parameter.is_local and not parameter.is_required and parameter.name not in place.leave_out
    ]
    return [_option(parameters[name], dict(place.changes.get(name, {}))) for name in names]


def _option(parameter: Parameter, changes: dict[str, Any]) -> click.Option:
    kind, is_repeated = _type(parameter.type)
    default = None if parameter.is_required or is_repeated else parameter.default
    attributes: dict[str, Any] = {
        "help": f"{parameter.help[:-1]}; may be repeated." if is_repeated else parameter.help,
        "metavar": _METAVARS.get(parameter.name, "N" if kind is int else None),
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
    flag = changes.pop("flag", "--" + parameter.flag.replace("_", "-"))
    return click.Option((flag, parameter.name), **attributes | changes)


def _type(hint: Any) -> tuple[Any, bool]:
    """Return the plain type of a value, and whether several values are allowed."""
    if get_origin(hint) is Annotated:
        return _type(hint.__origin__)
    if get_origin(hint) in (Union, UnionType):
        parts = [_type(part) for part in get_args(hint) if part is not NoneType]
        return next((part for part in parts if part[1]), parts[0])
    if get_origin(hint) is Sequence:
        return _type(get_args(hint)[0])[0], True
    return hint, False


def _param_type(parameter: Parameter, kind: Any) -> Any:
    if "convert" in parameter.extra:
        return SinceParam() if parameter.extra["convert"] is since_of else MomentParam()
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
    """A number of the change log, a duration until now, or a date."""

    name = "N|1d|DATE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | timedelta | datetime:
        """Parse the value."""
        try:
            return parse_since(value) if isinstance(value, str) else value
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is not a change number (42), a duration (30min, 2h, 1d) or a date (2026-01-31).")


class MomentParam(click.ParamType[datetime]):
    """A date, or a duration until now."""

    name = "1d|DATE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Parse the value."""
        try:
            return moment_of(value) if isinstance(value, str) else value
        except UsageError as problem:
            self.fail(str(problem))
