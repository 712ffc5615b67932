"""A run in one line, as a terminal shows it, and the exit code that it stands for."""

from rowen.errors import ItemError
from rowen.interfaces.cli.output import Piece
from rowen.model.runs import Run, RunStats
from rowen.operations.summary import cost, noun, spared
from rowen.operations.summary import counts as counted

__all__ = ["counts", "exit_code", "line", "plain", "worst"]

DONE, FAILED, SOME_FAILED, UNDECIDED, INTERRUPTED = 0, 1, 3, 5, 130

_STYLES = {
    "created": "green",
    "updated": "yellow",
    "amended": "yellow",
    "unchanged": "dim",
    "deleted": "red",
    "failed": "bold red",
    "skipped": "magenta",
    "not_asked": "dim",
    "missing": "bold red",
    "truncated": "yellow",
}
# From the most harmless to what a script must notice first.
_SEVERITY = (DONE, SOME_FAILED, 2, 4, UNDECIDED, FAILED, INTERRUPTED)


def line(run: Run, *, width: int = 0, dry: bool = False) -> list[Piece]:
    """The whole line, in pieces with their styles."""
    pieces: list[Piece] = [(run.source.ljust(width), "bold"), ("  ", "")]
    if dry:
        pieces.append(("would be: ", "cyan"))
    if run.status != "completed":
        pieces.append((f"{run.status}: ", "bold red" if run.status == "failed" else "yellow"))
    pieces += _joined(counts(run.stats)) or [("nothing there", "dim")]
    pieces.append((f" — {cost(run.stats)}", ""))
    if saved := spared(run.stats, noun(run.kind)):
        pieces.append((f"; {saved}", "green"))
    return pieces


def plain(run: Run) -> str:
    """The same line without styles."""
    return "".join(text for text, _ in line(run))


def counts(stats: RunStats) -> list[Piece]:
    """How many items came to each outcome, each in its colour."""
    return [(text, _STYLES[outcome]) for text, outcome in counted(stats)]


def exit_code(run: Run, *, dry: bool = False) -> int:
    """The exit code that a run stands for; of deletions that a dry run would hold back, none waits for a decision."""
    match run.status:
        case "cancelled":
            return INTERRUPTED
        case "completed" if run.stats.deletions_held and not dry:
            return UNDECIDED
        case "completed":
            return SOME_FAILED if run.stats.failed or run.stats.missing else DONE
        case "partial" if run.error is None or run.error_code == ItemError.code:
            return SOME_FAILED
    return FAILED


def worst(codes: list[int]) -> int:
    """The exit code that counts when there are several."""
    return max(codes, key=_SEVERITY.index, default=DONE)


def _joined(pieces: list[Piece]) -> list[Piece]:
    joined: list[Piece] = []
    for piece in pieces:
        joined += [(" · ", "dim"), piece] if joined else [piece]
    return joined
