"""Where answers go: tables for a terminal, plain lines for a pipe, JSON for those who ask; talk goes to stderr."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar

from rowen.errors import Hint, RowenError
from rowen.interfaces.cli.words import clean, escaped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = ["Output", "Piece"]

T = TypeVar("T")

Piece = tuple[str, str]
"""A text and its style; the style shows on a terminal only."""


class Output:
    """The two streams of one call."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        self.json = as_json
        self.quiet = quiet
        self.terminal = not as_json and sys.stdout.isatty()

    @property
    def watched(self) -> bool:
        """Whether somebody looks at stderr and wants to see progress."""
        return not self.quiet and sys.stderr.isatty()

    @cached_property
    def console(self) -> "Console":
        """The terminal on stdout."""
        from rich.console import Console

        return Console(file=sys.stdout, highlight=False, markup=False, emoji=False, soft_wrap=True)

    def emit(self, fact: Mapping[str, Any]) -> None:
        """One JSON object on a line."""
        print(_dumped(fact), flush=True)

    def facts(self, things: Iterable[Any]) -> None:
        """All that the service returned, an object each."""
        for thing in things:
            self.emit(_fact_of(thing))

    def line(self, *pieces: str | Piece) -> None:
        """One line of data."""
        if self.terminal:
            self.console.print(_styled(pieces))
        else:
            print(clean("".join(piece if isinstance(piece, str) else piece[0] for piece in pieces)), flush=True)

    def answer(self, fact: Mapping[str, Any], *pieces: str | Piece) -> None:
        """One fact: an object for programs, a line for people."""
        if self.json:
            self.emit(fact)
        else:
            self.line(*pieces)

    def listing(
        self,
        things: Iterable[T],
        columns: Mapping[str, Callable[[T], str | Piece]],
        *,
        fact: Callable[[T], Mapping[str, Any]] | None = None,
    ) -> None:
        """Many facts of one shape: a table on a terminal, tabs between the cells in a pipe."""
        if self.json:
            fact = fact or _fact_of
            for thing in things:
                self.emit(fact(thing))
        elif self.terminal:
            self._table(list(columns), [[cell(thing) for cell in columns.values()] for thing in things])
        else:
            for thing in things:
                print("\t".join(_cell(cell(thing)) for cell in columns.values()), flush=True)

    def card(self, fact: Mapping[str, Any], lines: Mapping[str, str]) -> None:
        """One fact with many sides: a line for each."""
        if self.json:
            self.emit(fact)
            return
        width = max(map(len, lines)) + 2 if self.terminal else 0
        for name, value in lines.items():
            self.line((name.ljust(width) if self.terminal else f"{name}\t", "dim"), value)

    def say(self, text: str) -> None:
        """Tell people something, on stderr; a program hears the same as an object."""
        if self.quiet:
            return
        actions = text.actions if isinstance(text, Hint) else ()
        told = (
            _dumped({"remark": text, "actions": [action.to_json() for action in actions]}) if self.json else clean(text)
        )
        print(told, file=sys.stderr, flush=True)

    def fail(self, error: str, *, exit_code: int, hint: str | None = None, **more: Any) -> int:
        """Tell of an error, and return its exit code; `more` is for programs."""
        return self._fail({"error": error, "hint": hint, "exit_code": exit_code, **more})

    def fail_with(self, problem: RowenError, **more: Any) -> int:
        """The same for an error of ours, with its code and the actions that its hint names."""
        return self._fail({**problem.to_json(), **more})

    def _fail(self, fact: Mapping[str, Any]) -> int:
        if self.json:
            print(_dumped(fact), file=sys.stderr)
        else:
            print(clean(f"Error: {fact['error']}"), file=sys.stderr)
            if fact["hint"]:
                print(clean(f"  {fact['hint']}"), file=sys.stderr)
        sys.stderr.flush()
        return int(fact["exit_code"])

    def _table(self, names: Sequence[str], rows: Sequence[Sequence[str | Piece]]) -> None:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="dim")
        for name in names:
            table.add_column(name, overflow="fold")
        for row in rows:
            table.add_row(*(_styled([cell]) for cell in row))
        self.console.print(table, soft_wrap=False)


def _fact_of(thing: Any) -> Mapping[str, Any]:
    # It knows everything that the service returns: imported only where somebody asks for JSON.
    from rowen.operations.facts import fact

    return fact(thing)


def _cell(cell: str | Piece) -> str:
    return clean(" ".join((cell if isinstance(cell, str) else cell[0]).split()))


def _styled(pieces: Iterable[str | Piece]) -> "Text":
    from rich.text import Text

    pairs = [(piece, "") if isinstance(piece, str) else piece for piece in pieces]
    return Text.assemble(*((clean(text), style) for text, style in pairs))


def _dumped(fact: Mapping[str, Any]) -> str:
    # A stream that has no UTF-8 would write escapes that are none of JSON's.
    ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    return escaped(json.dumps(fact, ensure_ascii=ascii_only, default=_plain))


def _plain(value: Any) -> str:
    match value:
        case datetime():
            return value.isoformat()
        case PurePath():
            return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
