"""One call of the program: the options of all commands, the output, and access to Rowen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from rowen.interfaces.cli.output import Output

if TYPE_CHECKING:
    from rowen.operations import Rowen
    from rowen.settings import Settings
    from rowen.store.database import Patience

T = TypeVar("T")


@dataclass
class Invocation:
    """The options of all commands; the module `session`, which opens Rowen, is imported at first use."""

    home: Path | None = None
    database_url: str | None = None
    json: bool = False
    quiet: bool = False
    verbose: int = 0

    @cached_property
    def out(self) -> Output:
        """The output streams; created after all options are parsed."""
        return Output(as_json=self.json, quiet=self.quiet)

    @cached_property
    def _session(self) -> ModuleType:
        """The module that opens Rowen; a command without a database does not need it."""
        return import_module("rowen.interfaces.cli.session")

    @cached_property
    def settings(self) -> Settings:
        """The settings in force."""
        settings: Settings = self._session.settings_of(self)
        return settings

    def ask(
        self, question: Callable[[Rowen], Awaitable[T]], *, gently: bool = False, patience: Patience | None = None
    ) -> T:
        """Open Rowen, await the result of `question`, and close Rowen.

        With `gently` the first Ctrl-C lets live runs end at a checkpoint.
        """
        answer: T = self._session.ask(self.settings, question, stop=self._stop if gently else None, patience=patience)
        return answer

    def _stop(self, rowen: Rowen) -> None:
        self.out.say("Stopping after the work in flight; Ctrl-C again ends at once.")
        rowen.stop()
