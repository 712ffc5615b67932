"""All operations, with everything that interfaces derive from their declarations; each is read when it is needed."""

from __future__ import annotations

import ast
import collections.abc
import inspect
import sys
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache, reduce
from importlib import import_module
from operator import or_
from pathlib import Path
from typing import Any, Union, Unpack

import msgspec
from msgspec import Meta

from rowen.errors import UsageError
from rowen.model.access import Scope
from rowen.operations import GROUPS
from rowen.operations.operation import Operation

CONTACTS = Scope.WRITE
"""The scope that is required to see names and addresses of contacts in records."""

SIGNED = frozenset({"push.receive_call", "push.receive_github", "push.receive_websub", "push.verify_websub"})
"""Operations whose calls are authenticated by a signature instead of a token."""

_BOUNDS = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an operation.

    `type` is the type of the values that remote callers send, with its bounds; None for a parameter of Python code
    only, such as a callback. `flag` is the name in REST and on the command line.
    """

    name: str
    type: Any
    default: Any
    help: str
    bounds: Mapping[str, Any]
    extra: Mapping[str, Any]
    is_positional: bool

    @property
    def flag(self) -> str:
        """The name of the parameter in REST and on the command line."""
        return str(self.extra.get("flag", self.name))

    @property
    def is_required(self) -> bool:
        """Whether a caller must send it."""
        return self.default is inspect.Parameter.empty

    @property
    def is_local(self) -> bool:
        """Whether the process sets it, and a remote caller never does."""
        return self.type is None

    def convert(self, value: Any) -> Any:
        """Convert a validated value from a caller to the Python value: `1d` becomes a moment."""
        return self.extra["convert"](value) if isinstance(value, str) and "convert" in self.extra else value


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of an operation and the type of its result, with all annotations resolved."""

    operation: Operation
    parameters: Mapping[str, Parameter]
    result: Any

    @property
    def sent(self) -> Iterator[Parameter]:
        """The parameters that a remote caller may send."""
        return (parameter for parameter in self.parameters.values() if not parameter.is_local)

    def struct(self, names: Iterable[str] | None = None, *, by_flag: bool = False) -> type[msgspec.Struct]:
        """Return a struct of the parameters that callers send, or of those in `names`; unknown fields are rejected."""
        wanted = None if names is None else set(names)
        fields = {
            parameter.flag if by_flag else parameter.name: parameter
            for parameter in self.sent
            if wanted is None or parameter.name in wanted
        }
        title = "".join(part.title() for part in self.operation.name.replace("_", ".").split("."))
        return struct_of(title, fields)

    def json_schema(self, names: Iterable[str] | None = None, *, by_flag: bool = False) -> dict[str, Any]:
        """Return the JSON Schema of the parameters."""
        return msgspec.json.schema(self.struct(names, by_flag=by_flag))

    def result_schema(self) -> dict[str, Any] | None:
        """Return the JSON Schema of the result; None if it has no JSON form."""
        try:
            return msgspec.json.schema(self.result)
        except TypeError:
            return None


def operations() -> Mapping[str, Operation]:
    """Return all operations by name."""
    return {declared.name: declared for group in sorted(GROUPS) for declared in _declared(group).values()}


def operation_named(name: str) -> Operation:
    """Return an operation by its name; raise `LookupError` for an unknown one."""
    group, _, method = name.partition(".")
    if group not in GROUPS or method not in _declared(group):
        raise LookupError(f"There is no operation {name!r}.")
    return _declared(group)[method]


@cache
def _declared(group: str) -> Mapping[str, Operation]:
    """Return the operations of a group by method name, without importing other groups."""
    members = vars(getattr(import_module(f"rowen.operations.{group}"), GROUPS[group]))
    declared = {name: getattr(member, "operation", None) for name, member in members.items()}
    # An alias of a method, such as `__call__`, is not an operation of its own.
    return {
        name: operation
        for name, operation in declared.items()
        if isinstance(operation, Operation) and operation.function.__name__ == name
    }


def scope_of(names: Iterable[str]) -> Scope:
    """Return the scope that a caller needs for all of these operations."""
    scopes = [operation_named(name).scope for name in names]
    if None in scopes:
        raise LookupError(f"One of {', '.join(names)} is internal and has no scope.")
    return max((scope for scope in scopes if scope is not None), key=list(Scope).index, default=Scope.READ)


@cache
def signature_of(name: str) -> Signature:
    """Return the resolved signature of an operation."""
    operation = operation_named(name)
    module = operation.function.__module__
    hints = typing.get_type_hints(operation.function, vars(sys.modules[module]), _names(module), include_extras=True)
    parameters: dict[str, Parameter] = {}
    for parameter in list(inspect.signature(operation.function).parameters.values())[1:]:
        hint = hints[parameter.name]
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            if typing.get_origin(hint) is Unpack:
                record = typing.get_args(hint)[0]
                for field, of in typing.get_type_hints(record, include_extras=True).items():
                    parameters[field] = parameter_of(field, of, _default_of(of), is_positional=False)
            continue
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            hint = types.GenericAlias(collections.abc.Sequence, hint)
        parameters[parameter.name] = parameter_of(
            parameter.name, hint, parameter.default, is_positional=parameter.kind is not inspect.Parameter.KEYWORD_ONLY
        )
    return Signature(operation, types.MappingProxyType(parameters), hints.get("return"))


def validated(
    name: str, values: Mapping[str, Any], *, names: Iterable[str] | None = None, strict: bool = True
) -> dict[str, Any]:
    """Return untrusted values as arguments of an operation; parameters that were not sent are left out.

    `UsageError` names the wrong parameter. Without `strict`, text is converted to numbers and booleans, as needed for
    the query of a URL.
    """
    checked = validated_by(signature_of(name).struct(names), values, strict=strict)
    return {field: getattr(checked, field) for field in values}


def struct_of(title: str, parameters: Mapping[str, Parameter]) -> type[msgspec.Struct]:
    """Return a struct of parameters with the names that callers send; unknown fields are rejected."""
    fields: list[Any] = []
    for name, parameter in parameters.items():
        default = msgspec.NODEFAULT if parameter.is_required else parameter.default
        fields.append((parameter.name, parameter.type, msgspec.field(default=default, name=name)))
    return msgspec.defstruct(title, fields, kw_only=True, forbid_unknown_fields=True)


def validated_by(struct: type[msgspec.Struct], values: Mapping[str, Any], *, strict: bool) -> Any:
    """Return untrusted values as an instance of a struct; raise `UsageError`, which names the wrong parameter."""
    try:
        return msgspec.convert(dict(values), struct, strict=strict)
    except msgspec.ValidationError as problem:
        message, _, place = str(problem).partition(" - at `$")
        raise UsageError(f"{place.strip('.`')}: {message}." if place.strip(".`") else f"{message}.") from None


def parameter_of(name: str, hint: Any, default: Any, *, is_positional: bool = False) -> Parameter:
    """Return the parameter that an annotated type declares."""
    help_text = ""
    extra: dict[str, Any] = {}
    bounds: dict[str, Any] = {}
    for meta in _metas(hint):
        help_text = help_text or (meta.description or "")
        extra = {**(meta.extra or {}), **extra}
        bounds = {**{bound: value for bound in _BOUNDS if (value := getattr(meta, bound)) is not None}, **bounds}
    sent = None if extra.get("local") else _on_the_wire(hint, extra)
    if isinstance(default, Enum):
        default = default.value
    return Parameter(name, sent, default, help_text, bounds, extra, is_positional)


def _metas(hint: Any) -> Iterator[Meta]:
    """Yield the metadata of a type, outermost first."""
    yield from (meta for meta in reversed(getattr(hint, "__metadata__", ())) if isinstance(meta, Meta))
    if typing.get_origin(hint) is typing.Annotated:
        yield from _metas(hint.__origin__)
    elif typing.get_origin(hint) in (Union, types.UnionType):
        for part in typing.get_args(hint):
            yield from _metas(part)


def _default_of(hint: Any) -> Any:
    """Return the default of a field in a shared record; UNSET if it has none."""
    if any("default" in (meta.extra or {}) for meta in _metas(hint)):
        return next(meta.extra["default"] for meta in _metas(hint) if meta.extra and "default" in meta.extra)
    parts = typing.get_args(hint) if typing.get_origin(hint) in (Union, types.UnionType) else (hint,)
    bare = [part.__origin__ if typing.get_origin(part) is typing.Annotated else part for part in parts]
    plain = [kind for part in bare for kind in (typing.get_args(part) if _is_union(part) else (part,))]
    if types.NoneType in plain:
        return None
    if bool in plain:
        return False
    return () if any(typing.get_origin(kind) is collections.abc.Sequence for kind in plain) else msgspec.UNSET


def _on_the_wire(hint: Any, extra: Mapping[str, Any]) -> Any:
    """Return the type of the values that callers send; None if the values are not data."""
    if "wire" in extra:
        description = next((meta.description for meta in _metas(hint) if meta.description), None)
        return _annotated(extra["wire"], Meta(description=description))
    if typing.get_origin(hint) is typing.Annotated:
        inner = _on_the_wire(hint.__origin__, {})
        return None if inner is None else _annotated(inner, *hint.__metadata__)
    if _is_union(hint):
        parts = [sent for part in typing.get_args(hint) if (sent := _on_the_wire(part, {})) is not None]
        return reduce(or_, parts) if any(part is not types.NoneType for part in parts) else None
    if typing.get_origin(hint) in (collections.abc.Callable, type) or hint is Path:
        return None
    try:
        msgspec.json.schema(hint)
    except TypeError:
        return None
    return hint


def _annotated(kind: Any, *metas: Any) -> Any:
    return typing.Annotated[(kind, *metas)]


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (Union, types.UnionType)


class _Names(dict[str, Any]):
    """The names that a module imports for type checkers only; each is imported when an annotation uses it."""

    def __init__(self, module: str) -> None:
        super().__init__()
        self._origins: dict[str, tuple[str, str]] = {}
        for node in ast.parse(inspect.getsource(sys.modules[module])).body:
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                for statement in node.body:
                    if isinstance(statement, ast.ImportFrom):
                        for name in statement.names:
                            self._origins[name.asname or name.name] = (statement.module or "", name.name)

    def __missing__(self, name: str) -> Any:
        origin, original = self._origins[name]
        self[name] = getattr(import_module(origin), original)
        return self[name]


_names = cache(_Names)
