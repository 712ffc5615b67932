"""One call of the program: what was asked for, where answers go, and how Rowen is asked."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rowen.interfaces.cli.output import Output

if TYPE_CHECKING:
    from rowen.operations import Rowen
    from rowen.settings import Settings
    from rowen.store.database import Patience

__all__ = ["Invocation"]

T = TypeVar("T")


@dataclass
class Invocation:
    """The options of every command."""

    home: Path | None = None
    database_url: str | None = None
    json: bool = False
    quiet: bool = False
    verbose: int = 0

    @cached_property
    def out(self) -> Output:
        """Where answers go; asked for only when all options are read."""
        return Output(as_json=self.json, quiet=self.quiet)

    @cached_property
    def settings(self) -> "Settings":
        """The settings in force."""
        from rowen.interfaces.cli.logs import start_logging
        from rowen.settings import load, misspelt

        for variable, meant in misspelt().items():
            self.out.say(f"{variable} sets nothing; {meant} is a setting.")
        found = load(home=self.home, database_url=self.database_url)
        start_logging(self.verbose, as_json=found.log == "json")
        return found

    def ask(
        self, question: Callable[["Rowen"], Awaitable[T]], *, gently: bool = False, patience: "Patience | None" = None
    ) -> T:
        """Open Rowen, ask, and close it.

        `gently`: the first Ctrl-C lets live runs end properly. With `patience` an outage of the database is waited out,
        when it is opened.
        """
        from rowen.interfaces.cli.event_loop import ask

        return ask(self.settings, question, stop=self._stop if gently else None, patience=patience)

    def patience(self) -> "Patience":
        """Wait for the database, and say so."""
        from rowen.store.database import Patience

        def say(problem: Exception, wait_s: float) -> None:
            self.out.say(f"{str(problem).rstrip('.')}. Trying again in {wait_s:.1f} s.")

        return Patience(say)

    def _stop(self, rowen: "Rowen") -> None:
        self.out.say("Stopping after what is in flight; Ctrl-C again ends at once.")
        rowen.stop()
