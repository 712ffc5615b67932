"""How an operation is declared: a method of a resource group, whose signature is the declaration of its parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rowen.model.access import Scope

if TYPE_CHECKING:
    from rowen.harvest.engine import Engine
    from rowen.operations import Rowen

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation with the scope that callers need over HTTP or through an assistant.

    Without a scope the operation is internal: interfaces use it, but offer it to nobody.
    """

    function: Callable[..., Any]
    scope: Scope | None

    @property
    def group(self) -> str:
        """The name of the resource group, which is that of its module."""
        return self.function.__module__.rpartition(".")[2]

    @property
    def name(self) -> str:
        """The name, such as `sources.add`."""
        return f"{self.group}.{self.function.__name__}"

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]


def operation(*, scope: Scope | None) -> Callable[[F], F]:
    """Declare a method of a group as an operation; nothing is inspected before somebody asks the registry."""

    def declare(function: F) -> F:
        vars(function)["operation"] = Operation(function, scope)
        return function

    return declare


class ResourceGroup:
    """The operations of one resource. It is created when the client is first asked for it."""

    def __init__(self, client: Rowen, engine: Engine) -> None:
        self._client = client
        self._engine = engine
        self._database = engine.database
        self._settings = engine.settings
        self._prepare()

    def _prepare(self) -> None:
        """Create the state that the operations of this group share."""
