"""The two streams of a command: tables on a terminal, plain lines in a pipe, or JSON; messages on stderr."""

import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar

from rowen.errors import Hint, RowenError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

T = TypeVar("T")

Piece = tuple[str, str]
"""A text and its style; only terminals show the style."""

# Characters in file names or texts that could move a cursor or change the colours of a terminal.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
# The same characters, marks that only change the writing direction, and invisible letters.
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]")


def clean(text: str) -> str:
    """Return a text without characters that control a terminal; tabs and line ends are kept."""
    return _CONTROLS.sub("�", text)


def escaped(text: str) -> str:
    """Return a text with invisible characters escaped as in JSON, so that a JSON parser reads the original text."""
    return _UNSEEN.sub(lambda match: json.dumps(match[0])[1:-1].replace("\x7f", "\\u007f"), text)


class Output:
    """The two streams of one call."""

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        self.json = as_json
        self.quiet = quiet
        self.terminal = not as_json and sys.stdout.isatty()

    @property
    def watched(self) -> bool:
        """Whether stderr is a terminal on which progress may be drawn."""
        return not self.quiet and sys.stderr.isatty()

    @cached_property
    def console(self) -> "Console":
        """The terminal on stdout."""
        from rich.console import Console

        return Console(file=sys.stdout, highlight=False, markup=False, emoji=False, soft_wrap=True)

    def emit(self, thing: Any, **more: Any) -> None:
        """Print a result as a JSON object on one line; `more` fields are added."""
        print(_dumped({**fact_of(thing), **more}), flush=True)

    def line(self, *pieces: str | Piece) -> None:
        """Print one line of data."""
        if self.terminal:
            self.console.print(_styled(pieces))
        else:
            print(clean("".join(piece if isinstance(piece, str) else piece[0] for piece in pieces)), flush=True)

    def answer(self, thing: Any, *pieces: str | Piece, **more: Any) -> None:
        """Print one result: a JSON object for programs, with `more` fields, or a line for people."""
        if self.json:
            self.emit(thing, **more)
        else:
            self.line(*pieces)

    def listing(
        self,
        things: Iterable[T],
        columns: Mapping[str, Callable[[T], str | Piece]],
        *,
        fact: Callable[[T], Mapping[str, Any]] | None = None,
    ) -> None:
        """Print results of one type: as a table on a terminal, as tab-separated cells in a pipe, or as JSON."""
        if self.json:
            for thing in things:
                self.emit(fact(thing) if fact else thing)
        elif self.terminal:
            self._table(list(columns), [[cell(thing) for cell in columns.values()] for thing in things])
        else:
            for thing in things:
                cells = [cell(thing) for cell in columns.values()]
                texts = [cell if isinstance(cell, str) else cell[0] for cell in cells]
                print("\t".join(clean(" ".join(text.split())) for text in texts), flush=True)

    def card(
        self, thing: Any, lines: Mapping[str, str] | None = None, *, always: Collection[str] = (), **more: Any
    ) -> None:
        """Print one result, one field per line; without `lines`, all fields that are not empty or are in `always`."""
        if self.json:
            self.emit(thing, **more)
            return
        if lines is None:
            fields = {name: value for name, value in fact_of(thing).items() if value or name in always}
            lines = {
                name.replace("_", " "): ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
                for name, value in fields.items()
            }
        width = max(map(len, lines)) + 2 if self.terminal else 0
        for name, value in lines.items():
            self.line((name.ljust(width) if self.terminal else f"{name}\t", "dim"), value)

    def fields(self, *cells: str) -> None:
        """Print facts about one thing on one line; empty facts are left out."""
        self.line((", " if self.terminal else "\t").join(cell for cell in cells if cell))

    def say(self, text: str) -> None:
        """Print a message on stderr; in JSON, an object that includes the suggested actions."""
        if self.quiet:
            return
        actions = [action.to_json() for action in text.actions] if isinstance(text, Hint) else []
        message = _dumped({"remark": text, "actions": actions}) if self.json else clean(text)
        print(message, file=sys.stderr, flush=True)

    def fail(self, error: str, *, exit_code: int, hint: str | None = None, **more: Any) -> int:
        """Print an error, and return its exit code; the fields `more` are added in JSON."""
        return self._fail({"error": error, "hint": hint, "exit_code": exit_code, **more})

    def fail_with(self, problem: RowenError, **more: Any) -> int:
        """Print an error of Rowen with its code and its suggested actions; return its exit code."""
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
        from rich import box, table

        drawn = table.Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
        for name in names:
            drawn.add_column(name, overflow="fold")
        for row in rows:
            drawn.add_row(*(_styled([cell]) for cell in row))
        self.console.print(drawn, soft_wrap=False)


def fact_of(thing: Any) -> Mapping[str, Any]:
    """Return the JSON form of a result; a mapping is returned unchanged."""
    if isinstance(thing, Mapping):
        return thing
    # This import loads the types of all results, which takes longer than listing a thousand sources.
    from rowen.operations.facts import fact

    return fact(thing)


def _styled(pieces: Iterable[str | Piece]) -> "Text":
    from rich.text import Text

    pairs = [(piece, "") if isinstance(piece, str) else piece for piece in pieces]
    return Text.assemble(*((clean(text), style) for text, style in pairs))


def _dumped(fact: Mapping[str, Any]) -> str:
    # Python's escapes for a stream without UTF-8 are not valid in JSON.
    ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    return escaped(json.dumps(fact, ensure_ascii=ascii_only, default=_plain))


def _plain(value: Any) -> str:
    match value:
        case datetime():
            return value.isoformat()
        case PurePath():
            return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
