"""A run in one line: what became of the items, what it cost, what it spared."""

from collections import Counter
from collections.abc import Iterator

from rowen.cli.output import Piece
from rowen.cli.words import count, seconds, size
from rowen.model.run import Run, Status, Tally

__all__ = ["cost", "counts", "exit_code", "line", "noun", "plain", "price", "remarks", "spared", "together", "worst"]

DONE, FAILED, SOME_FAILED, INTERRUPTED = 0, 1, 3, 130

_STYLES = {
    "created": "green",
    "updated": "yellow",
    "amended": "yellow",
    "unchanged": "dim",
    "deleted": "red",
    "failed": "bold red",
    "skipped": "magenta",
}
_ENDS: tuple[Status, ...] = ("completed", "partial", "cancelled", "failed")
_SEVERITY = (DONE, SOME_FAILED, 2, 4, 5, FAILED, INTERRUPTED)


def noun(kind: str) -> str:
    """What the items of a kind are called."""
    return "file" if kind == "files" else "item"


def line(run: Run, *, width: int = 0, dry: bool = False) -> list[Piece]:
    """The whole line, in pieces with their styles."""
    pieces: list[Piece] = [(run.source.ljust(width), "bold"), ("  ", "")]
    if dry:
        pieces.append(("would be: ", "cyan"))
    if run.status != "completed":
        pieces.append((f"{run.status}: ", "bold red" if run.status == "failed" else "yellow"))
    pieces += _joined(counts(run.tally)) or [("nothing there", "dim")]
    pieces.append((f" — {cost(run.tally)}", ""))
    if saved := spared(run.tally, noun(run.kind)):
        pieces.append((f"; {saved}", "green"))
    return pieces


def plain(run: Run) -> str:
    """The same line without styles."""
    return "".join(text for text, _ in line(run))


def counts(tally: Tally) -> list[Piece]:
    """How many items came to each outcome; what did not occur is left out."""
    return [(f"{number:,} {name}", style) for name, style in _STYLES.items() if (number := int(getattr(tally, name)))]


def cost(tally: Tally) -> str:
    """What was spent."""
    read = [count(tally.requests, "request")] if tally.requests else []
    read += [f"read {size(tally.bytes)}" if tally.bytes else "read nothing"]
    wrote = [f"wrote {count(tally.chunks_written, 'passage')}"] if tally.chunks_written else []
    wrote += [f"embedded {tally.embedded:,}{price(tally.embedding_usd)}"] if tally.embedded else []
    return ", ".join([f"{', '.join(read)} in {seconds(tally.seconds)}", *wrote])


def price(usd: float | None) -> str:
    """A price in brackets, where there is one."""
    return f" ({usd:,.4f} USD)" if usd else ""


def spared(tally: Tally, thing: str) -> str:
    """What was not spent, because it was not needed."""
    deeds = (
        ("reading", tally.stopped_at_validator, thing),
        ("parsing", tally.stopped_at_body, thing),
        ("storing", tally.stopped_at_content, thing),
        ("rewriting", tally.chunks_kept, "passage"),
        ("embedding", tally.embeddings_reused, "passage"),
    )
    told = [f"{verb} {count(number, what)}" for verb, number, what in deeds if number]
    return f"spared {', '.join(told)}" if told else ""


def remarks(run: Run, *, dry: bool = False) -> Iterator[str]:
    """What the reader should know or do next."""
    tally, name = run.tally, run.source
    if run.status == "cancelled":
        yield f"{name}: stopped early; what was read is kept, and the next sync goes on from there."
    if run.status == "partial":
        why = (run.error or "the source did not prove that this was all of it").rstrip(".")
        yield f"{name}: not seen whole ({why}), so what was not seen was kept. `rowen sync {name}` tries again."
    if tally.fell_back:
        yield f"{name}: the source does not tell reliably what was modified, so it was read whole."
    if tally.moved:
        yield f"{name}: {count(tally.moved, noun(run.kind))} have other addresses now; their history is kept."
    if tally.deletions_held:
        yield _held(run)
    if tally.failed and not dry:
        yield f"{name}: {count(tally.failed, noun(run.kind))} could not be read. `rowen quarantine {name}` says why."
    if tally.embeddings_pending:
        waiting = count(tally.embeddings_pending, "passage")
        yield f"{name}: {waiting} found by words only so far; `rowen embed`, or the next sync, goes on."


def _held(run: Run) -> str:
    vanished = count(run.tally.deletions_held, noun(run.kind))
    if run.complete and not run.tally.seen:
        return (
            f"{run.source}: the source came up empty, so all {vanished} were kept. Is a disk not mounted?"
            f" `rowen remove {run.source}` forgets them."
        )
    return (
        f"{run.source}: {vanished} vanished and were kept: more than a run deletes unasked."
        f" `rowen sync {run.source} --accept-deletions` lets them go."
    )


def together(runs: list[Run], *, of: int, expected: int) -> str:
    """Several runs in one line; `of` counts those as well that failed at once, `expected` those not begun."""
    statuses = Counter(run.status for run in runs)
    statuses["failed"] += of - len(runs)
    ends = [f"{number:,} {status}" for status in _ENDS if (number := statuses[status])]
    told = ", ".join([*ends, f"{expected - of:,} not begun"] if expected > of else ends)
    whole = Tally()
    for run in runs:
        whole.add({name: int(getattr(run.tally, name)) for name in _STYLES})
    became = " · ".join(text for text, _ in counts(whole)) or "nothing there"
    return f"{count(expected, 'source')}: {told}; {became}."


def exit_code(run: Run) -> int:
    """The exit code that a run stands for."""
    match run.status:
        case "cancelled":
            return INTERRUPTED
        case "completed":
            return SOME_FAILED if run.tally.failed else DONE
        case "partial" if run.error is None:
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
