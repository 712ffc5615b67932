"""Descriptions of runs, sources and models in words, and remarks on what to do next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rowen.errors import Hint, action
from rowen.model.runs import Outcome, Run, RunStats, RunStatus
from rowen.model.wording import count, moment, seconds, size

if TYPE_CHECKING:
    from rowen.model.models import ModelStatus
    from rowen.model.sources import Overview
    from rowen.model.status import Health, SwitchedOff

_ENDS: tuple[RunStatus, ...] = ("completed", "partial", "cancelled", "failed")


def noun(kind: str) -> str:
    """Return the noun for the items of a kind."""
    return "file" if kind == "files" else "item"


def counts(stats: RunStats) -> list[tuple[str, str]]:
    """Return each outcome that occurred as a text with its number of items, and as a name."""
    texts = [(f"{number:,} {outcome}", str(outcome)) for outcome in Outcome if (number := int(getattr(stats, outcome)))]
    if stats.not_asked:
        texts.append((f"{stats.not_asked:,} not asked for one by one", "not_asked"))
    if stats.missing and not stats.failed:
        texts.append((f"{stats.missing:,} missing", "missing"))
    if stats.truncated:
        texts.append((f"{stats.truncated:,} or more beyond the limit", "truncated"))
    return texts


def cost(stats: RunStats) -> str:
    """Return a description of the cost of a run."""
    read = [count(stats.requests, "request")] if stats.requests else []
    read += [f"read {size(stats.bytes)}" if stats.bytes else "read nothing"]
    wrote = [f"wrote {count(stats.chunks_written, 'passage')}"] if stats.chunks_written else []
    wrote += [f"embedded {stats.embedded:,}{price(stats.embedding_usd)}"] if stats.embedded else []
    if stats.extracted or stats.extraction_calls:
        calls = f" by {count(stats.extraction_calls, 'call')}" if stats.extraction_calls else " without a call"
        wrote += [f"extracted facts of {stats.extracted:,}{calls}{price(stats.extraction_usd)}"]
    return ", ".join([f"{', '.join(read)} in {seconds(stats.seconds)}", *wrote])


def price(usd: float | None) -> str:
    """Return a price in brackets; an empty text if it is unknown or zero."""
    return f" ({usd:,.4f} USD)" if usd else ""


def spared(stats: RunStats, thing: str) -> str:
    """Return a description of the avoided cost; `thing` is the noun for items."""
    savings = (
        ("reading", stats.stopped_at_validator, thing),
        ("parsing", stats.stopped_at_body, thing),
        ("storing", stats.stopped_at_content, thing),
        ("rewriting", stats.chunks_kept, "passage"),
        ("embedding", stats.embeddings_reused, "passage"),
        ("asking a model", stats.extraction_calls_avoided, "time"),
    )
    texts = [f"{verb} {count(number, what)}" for verb, number, what in savings if number]
    return f"spared {', '.join(texts)}" if texts else ""


def remarks(run: Run, *, dry: bool = False) -> Iterator[Hint]:
    """Yield remarks on a run: what the reader should know or do next."""
    stats, name = run.stats, run.source
    items = noun(run.kind)
    if run.status == "cancelled" and dry:
        yield Hint(f"{name}: stopped early; nothing was stored.")
    elif run.status == "cancelled":
        yield Hint(f"{name}: stopped early; what was read is kept, and the next sync continues from there.")
    if run.status == "partial":
        why = (run.error or "the source did not prove that this was all of it").rstrip(".")
        yield Hint(
            f"{name}: not seen whole ({why}), so what was not seen was kept. ", action("sync", name), " tries again."
        )
    if stats.fell_back:
        why = stats.fell_back_because or "What was modified could not be told reliably."
        yield Hint(f"{name}: read whole, and not only what was modified. {why}")
    if stats.truncated:
        yield _truncated(name, stats.truncated)
    if stats.generated:
        yield Hint(
            f"{name}: {count(stats.generated, 'name')} of a documentation generator's own search were left out. ",
            action("edit", name, option="generated=true"),
            " takes them in.",
        )
    if stats.moved:
        yield Hint(f"{name}: {count(stats.moved, items)} have other addresses now; their history is kept.")
    if stats.shared:
        yield Hint(
            f"{name}: {count(stats.shared, items)} share their identifiers with others; each is kept for itself."
        )
    if stats.dropped:
        again = count(stats.dropped, "record")
        yield Hint(f"{name}: {again} came again and said something else: of each identifier only the first is kept.")
    if stats.only and stats.skipped:
        yield Hint(
            f"{name}: {count(stats.skipped, 'URL')} left alone: not among its {items}s, or not to be judged alone. ",
            action("sync", name),
            " looks at everything.",
        )
    if stats.deletions_held:
        yield _held(run)
    if stats.failed and not dry:
        yield Hint(
            f"{name}: {count(stats.failed, items)} could not be read. ", action("quarantine", name), " says why."
        )
    if stats.missing and not dry:
        yield Hint(f"{name}: missing here: {count(stats.missing, items)}, of which no version could be read so far.")
    if stats.extractions_failed:
        unread = count(stats.extractions_failed, items)
        yield Hint(f"{name}: no facts could be had of {unread}. ", action("extract", source=name), " says why.")
    if stats.extractions_pending:
        waiting = count(stats.extractions_pending, items)
        yield Hint(
            f"{name}: {waiting} wait to be extracted; ", action("extract", source=name), ", or a worker, goes on."
        )
    if stats.embeddings_pending:
        waiting = count(stats.embeddings_pending, "text")
        yield Hint(f"{name}: {waiting} found by words only so far; ", action("embed"), ", or the next sync, goes on.")


def _truncated(name: str, beyond: int) -> Hint:
    return Hint(
        f"{name}: its limit of pages was reached; {count(beyond, 'page')} or more were left out. ",
        action("edit", name, option="max_pages=N"),
        " raises it.",
    )


def _held(run: Run) -> Hint:
    vanished = count(run.stats.deletions_held, noun(run.kind))
    if run.complete and not run.stats.seen:
        return Hint(
            f"{run.source}: the source came up empty, so all {vanished} were kept. Is a disk not mounted? ",
            action("remove", run.source),
            " forgets them.",
        )
    return Hint(
        f"{run.source}: {vanished} vanished and were kept: more than a run deletes unasked. ",
        action("sync", run.source, accept_deletions=True),
        " lets them go, ",
        action("held", run.source),
        " shows them.",
    )


def together(runs: list[Run], *, of: int, expected: int) -> str:
    """Return a summary of several runs in one line.

    `expected` is the number of sources, `of` the number of sources that began; those without a run failed at once.
    """
    statuses = Counter(run.status for run in runs)
    statuses["failed"] += of - len(runs)
    ends = [f"{number:,} {status}" for status in _ENDS if (number := statuses[status])]
    ended = ", ".join([*ends, f"{expected - of:,} not begun"] if expected > of else ends)
    whole = RunStats()
    for run in runs:
        whole.add({name: int(getattr(run.stats, name)) for name in Outcome})
    became = " · ".join(text for text, _ in counts(whole)) or "nothing there"
    return f"{count(expected, 'source')}: {ended}; {became}."


def stale_share(sources: Iterable[Overview]) -> float | None:
    """Return the expected share of stale items; None if no source was read completely."""
    known = [(source.stale, source.items) for source in sources if source.stale is not None]
    return sum(stale * items for stale, items in known) / max(1, sum(items for _, items in known)) if known else None


def remarks_on_source(source: Overview) -> Iterator[Hint]:
    """Yield the actions that a source needs from the user."""
    name = source.name
    again = action("sync", name)
    if source.state == "paused":
        yield Hint(f"{name}: paused; ", action("resume", name), " takes it in again.")
    elif source.last_status is None:
        yield Hint(f"{name}: not read yet; ", again, " does.")
    elif source.last_status in ("failed", "partial"):
        why = f" ({source.last_error})" if source.last_error else ""
        ended = "failed" if source.last_status == "failed" else "was partial"
        yield Hint(f"{name}: the last run {ended}{why}; ", again, " tries again.")
    elif source.last_status == "cancelled":
        yield Hint(f"{name}: the last run was stopped early; ", again, " goes on.")
    if source.truncated:
        yield _truncated(name, source.truncated)
    if source.quarantined:
        unread = count(source.quarantined, "item")
        yield Hint(f"{name}: {unread} could not be read; ", action("quarantine", name), " says why.")
    if source.deletions_held:
        held = count(source.deletions_held, "item")
        yield Hint(
            f"{name}: {held} vanished and were kept; ",
            action("sync", name, accept_deletions=True),
            " lets them go, ",
            action("held", name),
            " shows them.",
        )


def remarks_on_health(health: Health) -> Iterator[Hint]:
    """Yield the actions that due sources, failures and backlogs need from the user."""
    if health.queue.paused:
        yield Hint("The queue is paused, and no job begins; ", action("jobs resume"), " goes on.")
    elif health.oldest_due is not None and not health.workers:
        late = seconds(health.oldest_due.late_s)
        yield Hint(f"{health.oldest_due.source}: due for {late}, and no worker runs; ", action("worker"), " reads it.")
    for source in health.failing:
        if source.failing_since is not None:
            since = f"failing since {moment(source.failing_since)}, {source.failures:,} times in a row"
            then = f"; it is tried again at {moment(source.due_at)}" if source.due_at else ""
            yield Hint(f"{source.source}: {since}{then}.")
    for circuit in health.circuits:
        yield Hint(f"{circuit.source}: its circuit is open, job {circuit.job} waits until {moment(circuit.until)}.")


def remarks_on_switched_off(found: Iterable[SwitchedOff]) -> Iterator[Hint]:
    """Yield the actions that disabled webhooks and endpoints need from the user."""
    groups = {"webhook": "webhooks", "notice": "notify"}
    for one in found:
        if one.kind == "endpoint":
            again = action("statements keep", f"{one.source} {one.name}")
            told = f"{one.source}: its SPARQL endpoint {one.name} failed for days and is told nothing; "
        else:
            again = action(f"{groups[one.kind]} resume", one.name)
            told = f"{one.name}: the {one.kind} failed for days and is switched off; "
        yield Hint(told, again, " tries it again, and nothing is lost.")


def remarks_on_model(model: ModelStatus) -> Iterator[Hint]:
    """Yield the actions that a model needs from the user."""
    if model.trouble:
        circuits = [f"{name} is {stats['state']}" for name, stats in model.trouble["circuits"].items()]
        told = f" (circuit of {', '.join(circuits)})" if circuits else ""
        yield Hint(f"{model.name}: embedding stopped{told}: {model.trouble['error']}")
    if model.pending and model.state == "active":
        waiting = count(model.pending, "text")
        yield Hint(f"{model.name}: {waiting} found by words only so far; ", action("embed"), " goes on.")
    if model.again:
        waiting = count(model.again, "text")
        yield Hint(
            f"{model.name}: {waiting} to be embedded again, found by old vectors so far; ", action("embed"), " goes on."
        )
    if model.state == "building":
        yield Hint(
            f"{model.name}: not complete, so search does not use it; the ", action("embed"), " that began it goes on."
        )
    if model.state == "retired":
        yield Hint(f"{model.name}: not used any more; ", action("embed", drop_old=True), " forgets its vectors.")
