"""What to do next, as values: each interface offers it in its own way."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

__all__ = ["Action", "Hint", "action"]


@dataclass(frozen=True, slots=True)
class Action:
    """Something to do next: what an interface calls it, what it is done to, and how."""

    name: str
    target: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """The action as a command line, which is its usual notation."""
        options = (f"--{name.replace('_', '-')}" + _value(value) for name, value in self.options.items())
        return " ".join(["rowen", self.name, *([self.target] if self.target else []), *options])

    def to_json(self) -> dict[str, Any]:
        """The action as plain values."""
        return {"action": self.name, "target": self.target, "options": dict(self.options)}


def _value(value: Any) -> str:
    return "" if value is True else f" {value}"


def action(name: str, target: str | None = None, **options: Any) -> Action:
    """An action: `action("sync", "docs", accept_deletions=True)`."""
    return Action(name, target, options)


class Hint(str):
    """What to do next: text, and the actions that it names: `Hint("Down; ", action("sync", "docs"), " tries again.")`.

    As text it names them as commands; an interface that has others words them with `worded`.
    """

    parts: tuple[str | Action, ...]

    def __new__(cls, *parts: str | Action) -> Self:
        """Word the hint as commands."""
        hint = super().__new__(cls, _worded(parts, lambda one: f"`{one.command}`"))
        hint.parts = parts
        return hint

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.parts

    @property
    def actions(self) -> tuple[Action, ...]:
        """What it names, in order."""
        return tuple(part for part in self.parts if isinstance(part, Action))

    def worded(self, word: Callable[[Action], str]) -> str:
        """The text with an interface's own words for the actions."""
        return _worded(self.parts, word)


def _worded(parts: Iterable[str | Action], word: Callable[[Action], str]) -> str:
    return "".join(word(part) if isinstance(part, Action) else part for part in parts)
