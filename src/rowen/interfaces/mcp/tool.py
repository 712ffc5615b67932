"""Tools: the description for a model, the arguments, the result, and the function that is called."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from inspect import Parameter as Missing
from typing import TYPE_CHECKING, Annotated, Any, Self

import msgspec
from msgspec import Meta
from pydantic import BaseModel

from rowen.errors import RowenError, UsageError
from rowen.model.access import Reach, Scope
from rowen.model.text import UNSTORABLE, is_storable
from rowen.operations.registry import Parameter, parameter_of, scope_of, signature_of, struct_of, validated_by

if TYPE_CHECKING:
    from rowen.operations import Rowen

log = logging.getLogger(__name__)


class Arguments:
    """The arguments of a tool, by the names that a model sends."""

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        self.parameters = parameters
        self._struct = struct_of("Arguments", parameters)

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema: each argument with its help, but without titles and examples, which cost tokens."""
        _, components = msgspec.json.schema_components([self._struct])
        schema = components["Arguments"]
        for name, parameter in self.parameters.items():
            schema["properties"][name] = {"description": parameter.help} | _short(schema["properties"][name])
        return {"type": "object", "properties": {}, **_without(schema, "title")}

    def read(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return validated arguments for the function of a tool, with defaults.

        Text is converted to numbers and booleans where the schema has these types, since models confuse them. An
        unknown name is an error: otherwise a model would believe that the argument had an effect.
        """
        if not is_storable(values):
            raise UsageError(UNSTORABLE[0].upper() + UNSTORABLE[1:])
        checked = validated_by(self._struct, values, strict=False)
        return {
            parameter.name: parameter.convert(getattr(checked, parameter.name))
            for parameter in self.parameters.values()
        }


def arguments_of(
    operation: str | None,
    *,
    only: Iterable[str] | None = None,
    leave_out: Iterable[str] = (),
    rename: Mapping[str, str] | None = None,
    **own: Any,
) -> Arguments:
    """Return the arguments of a tool: those of an operation, and the tool's own, which replace equal names.

    The tool's own arguments are annotated types, or pairs of an annotated type and a default. `rename` maps parameter
    names to the names that a model sends.
    """
    declared = {
        name: parameter_of(name, *(hint if isinstance(hint, tuple) else (hint, Missing.empty)))
        for name, hint in own.items()
    }
    derived = {parameter.name: parameter for parameter in signature_of(operation).sent} if operation else {}
    chosen = {
        name: declared.pop(name, parameter)
        for name, parameter in derived.items()
        if name in own or (name not in leave_out and (only is None or name in only))
    }
    return Arguments({(rename or {}).get(name, name): parameter for name, parameter in {**chosen, **declared}.items()})


def at_most(results: int) -> Any:
    """Return the type of `limit` for a tool, which returns fewer results at once than other interfaces."""
    return Annotated[int, Meta(ge=1, le=results, description="Maximum number of results.")]


def _short(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an argument without its help, which is passed separately; `enum` gets a type."""
    schema = ({"type": "string"} if "enum" in schema else {}) | _without(schema, "examples", "description")
    return schema | ({"anyOf": [_short(part) for part in schema["anyOf"]]} if "anyOf" in schema else {})


def _without(schema: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name not in names}


class ToolResult(BaseModel):
    """The result of a tool for programs."""

    @classmethod
    def of(cls, thing: object, **more: Any) -> Self:
        """Return a result with the attributes of `thing` that have the same names, and with further values."""
        names = [name for name in cls.model_fields if name not in more and hasattr(thing, name)]
        return cls(**{name: getattr(thing, name) for name in names}, **more)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The context of a call: Rowen, the time, and the caller's permissions."""

    rowen: Rowen
    local_files: bool = False
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    background: set[asyncio.Task[Any]] = field(default_factory=set)

    @property
    def reach(self) -> Reach:
        """The parts of this machine that the caller may name: files if the user allowed it, but never secrets."""
        return Reach.FILES if self.local_files else Reach.OUTSIDE

    def begin(self, work: Awaitable[Any]) -> asyncio.Task[Any]:
        """Start work that may outlive the call."""
        task = asyncio.ensure_future(work)
        self.background.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self.background.discard(task)
        problem = None if task.cancelled() else task.exception()
        if isinstance(problem, RowenError):
            log.info("work that an assistant began ended early: %s", problem)
        elif problem is not None:
            log.error("work that an assistant began ended over a bug", exc_info=problem)


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """An answer as text for a model and as data for programs; `uris` are the resources that it mentions."""

    markdown: str
    result: ToolResult
    uris: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool; `operations` are the operations that it may call."""

    name: str
    title: str
    description: str
    takes: Arguments
    gives: type[ToolResult]
    run: Callable[..., Awaitable[ToolAnswer]]
    operations: tuple[str, ...]
    writes: bool = False
    destroys: bool = False
    repeatable: bool = True
    goes_out: bool = False
    changes_sources: bool = False

    @property
    def scope(self) -> Scope:
        """The scope that a caller needs."""
        return scope_of(self.operations)

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return self.takes.schema

    @property
    def output_schema(self) -> dict[str, Any]:
        """The JSON Schema of the result."""
        return dict(_untitled(self.gives.model_json_schema(mode="serialization")))


def _untitled(schema: Any) -> Any:
    """Return a schema without titles, which repeat the names and are a fifth of the tokens."""
    match schema:
        case dict():
            return {
                name: _untitled(value)
                for name, value in schema.items()
                if not (name == "title" and isinstance(value, str))
            }
        case list():
            return [_untitled(part) for part in schema]
    return schema
