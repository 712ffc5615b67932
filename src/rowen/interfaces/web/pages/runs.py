"""Runs: all of them, and one as it goes on."""

from starlette.requests import Request

from rowen.interfaces.web.live import glance_at_run
from rowen.interfaces.web.view import Goto, View, goto, takes, text
from rowen.model.runs import Run
from rowen.operations import Rowen
from rowen.operations.summary import cost, counts, noun, remarks, spared

__all__ = ["cancel", "listing", "run"]

_ROWS = 40
_CHANGES = 20


async def listing(rowen: Rowen, request: Request) -> View:
    """The last runs, newest first."""
    source = text(request, "source")
    found = await rowen.runs.list(source, limit=_ROWS, after=text(request, "after"))
    context = {"runs": found, "source": source, "next": found.next}
    return View("runs.html", "Runs", context, {"runs": found, "next": found.next}, ("rowen runs",))


async def run(rowen: Rowen, request: Request) -> View:
    """One run: how far it is, what became of the items, what went wrong."""
    held = await rowen.runs.get(int(request.path_params["number"]))
    before = await _held_before(rowen, held)
    troubles = await rowen.runs.error_groups(held.id) if held.stats.failed else []
    changes = await rowen.changes.newest(run=held.id, limit=_CHANGES)
    context = {
        "run": held,
        "expected": max(before, held.stats.seen) if before else 0,
        "counts": counts(held.stats),
        "cost": cost(held.stats),
        "spared": spared(held.stats, noun(held.kind)),
        "remarks": list(remarks(held)),
        "troubles": troubles,
        "changes": changes,
        "rungs": _rungs(held),
        "seen": glance_at_run(held).mark,
    }
    facts = {"run": held, "troubles": troubles, "changes": changes}
    return View("run.html", f"Run {held.id} of {held.source}", context, facts, (f"rowen run {held.id}",))


async def _held_before(rowen: Rowen, run: Run) -> int:
    """How many items its source had when a run began: about as many as it will see. Nothing for a first harvest."""
    items = await rowen.items.count((await rowen.sources.get(run.source, counted=False)).id)
    return max(0, items - run.stats.created + run.stats.deleted)


def _rungs(held: Run) -> list[tuple[str, int]]:
    stats = held.stats
    paid = stats.created + stats.updated + stats.amended
    known = (stats.not_asked, stats.stopped_at_validator, stats.stopped_at_body, stats.stopped_at_content, paid)
    return list(zip(("listing", "validator", "body", "content", "paid"), known, strict=True))


@takes("runs.cancel")
async def cancel(rowen: Rowen, request: Request) -> Goto:
    """Ask a live run to end; what it read is kept."""
    await rowen.runs.cancel(int(request.path_params["number"]))
    return goto("runs", request.path_params["number"])
