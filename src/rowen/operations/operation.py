"""Declare operations: methods of a resource group, whose signatures declare the parameters for all interfaces."""

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
    """An operation, with the scope that callers need over HTTP or through an assistant.

    An operation without a scope is internal: interfaces may use it, but do not offer it to callers.
    """

    function: Callable[..., Any]
    scope: Scope | None

    @property
    def group(self) -> str:
        """The name of the resource group, which is the name of its module."""
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
    """Declare a method of a group as an operation; its signature is inspected only when the registry is used."""

    def declare(function: F) -> F:
        vars(function)["operation"] = Operation(function, scope)
        return function

    return declare


class ResourceGroup:
    """The operations of one resource, created when the client first needs the group."""

    def __init__(self, client: Rowen, engine: Engine) -> None:
        self._client = client
        self._engine = engine
        self._database = engine.database
        self._settings = engine.settings
        self._prepare()

    def _prepare(self) -> None:
        """Create the state that the operations of this group share."""
