"""What a tool is: its words for a model, what it takes, what it gives, and the function behind it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, model_validator

from rowen.errors import RowenError
from rowen.model.access import Reach, Scope
from rowen.model.text import check_storable
from rowen.operations.registry import scope_of

if TYPE_CHECKING:
    from rowen.operations import Rowen

__all__ = ["Arguments", "ToolAnswer", "ToolCall", "ToolResult", "ToolSpec"]

log = logging.getLogger(__name__)


class Arguments(BaseModel):
    """What a tool takes; a name that it does not know is an error, since a model would believe that it was heeded."""

    model_config = ConfigDict(extra="forbid")

    _storable = model_validator(mode="before")(check_storable)


class ToolResult(BaseModel):
    """What a tool gives to programs."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What a tool works with: Rowen, the time, and what may be read or begun."""

    rowen: Rowen
    local_files: bool = False
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    background: set[asyncio.Task[Any]] = field(default_factory=set)

    @property
    def reach(self) -> Reach:
        """What of this machine may be named: files where the user said so, its secrets never."""
        return Reach.FILES if self.local_files else Reach.OUTSIDE

    def begin(self, work: Awaitable[Any]) -> asyncio.Task[Any]:
        """Begin work that may outlive the call."""
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
    """What a tool says to a model, and the same for programs; `uris` are resources that it told of."""

    markdown: str
    result: ToolResult
    uris: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool; `operations` are those that it may call."""

    name: str
    title: str
    description: str
    takes: type[Arguments]
    gives: type[ToolResult]
    run: Callable[[ToolCall, Any], Awaitable[ToolAnswer]]
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
        """The JSON Schema of what it takes."""
        return dict(_plain(self.takes.model_json_schema()))

    @property
    def output_schema(self) -> dict[str, Any]:
        """The JSON Schema of what it gives."""
        return dict(_plain(self.gives.model_json_schema(mode="serialization")))


def _plain(schema: Any) -> Any:
    """A schema without titles, which repeat the names and cost a model a fifth of the tokens."""
    match schema:
        case dict():
            return {
                name: _plain(value)
                for name, value in schema.items()
                if not (name == "title" and isinstance(value, str))
            }
        case list():
            return [_plain(one) for one in schema]
    return schema
