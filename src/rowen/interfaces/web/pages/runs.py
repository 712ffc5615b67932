"""Runs and jobs, pending deletions, and items in quarantine."""

from typing import get_args

from starlette.requests import Request

from rowen.errors import UsageError
from rowen.interfaces.web.forms import read_form
from rowen.interfaces.web.live import glance_at_job, glance_at_run
from rowen.interfaces.web.view import Goto, View, command, goto, takes, text
from rowen.model.queue import JobState
from rowen.operations import Rowen
from rowen.operations.summary import cost, counts, noun, remarks, spared

_ROWS = 40
_ITEMS = 50
_CHANGES = 20


async def listing(rowen: Rowen, request: Request) -> View:
    """Show the last runs, newest first."""
    source = text(request, "source")
    page = await rowen.runs.list(source, limit=_ROWS, after=text(request, "after"))
    context = {"runs": page, "source": source, "next": page.next}
    return View("runs.html", "Runs", context, {"runs": page, "next": page.next}, ("rowen runs",))


async def run(rowen: Rowen, request: Request) -> View:
    """Show the progress, results and errors of one run."""
    run = await rowen.runs.get(int(request.path_params["number"]))
    stats = run.stats
    items = await rowen.items.count((await rowen.sources.get(run.source, counted=False)).id)
    # A run checks about as many items as its source had before; the first run of a source has no such number.
    before = max(0, items - stats.created + stats.deleted)
    troubles = await rowen.runs.error_groups(run.id) if stats.failed else []
    changes = await rowen.changes.newest(run=run.id, limit=_CHANGES)
    context = {
        "run": run,
        "expected": max(before, stats.seen) if before else 0,
        "counts": counts(stats),
        "cost": cost(stats),
        "spared": spared(stats, noun(run.kind)),
        "remarks": list(remarks(run)),
        "troubles": troubles,
        "changes": changes,
        "rungs": [
            ("listing", stats.not_asked),
            ("validator", stats.stopped_at_validator),
            ("body", stats.stopped_at_body),
            ("content", stats.stopped_at_content),
            ("paid", stats.created + stats.updated + stats.amended),
        ],
        "seen": glance_at_run(run).mark,
    }
    facts = {"run": run, "troubles": troubles, "changes": changes}
    return View("run.html", f"Run {run.id} of {run.source}", context, facts, (f"rowen run {run.id}",))


@takes("runs.cancel")
async def cancel(rowen: Rowen, request: Request) -> Goto:
    """Cancel a live run; items that it has read are kept."""
    await rowen.runs.cancel(int(request.path_params["number"]))
    return goto("runs", request.path_params["number"])


async def jobs(rowen: Rowen, request: Request) -> View:
    """Show the queue and the workers."""
    state, source = text(request, "state"), text(request, "source")
    chosen = next((name for name in get_args(JobState) if name == state), None)
    page = await rowen.queue.list(source, state=chosen, limit=_ROWS, after=text(request, "after"))
    workers, depth = await rowen.queue.list_workers(), await rowen.queue.depth()
    context = {
        "jobs": page,
        "workers": workers,
        "depth": depth,
        "chosen": chosen,
        "states": get_args(JobState),
        "source": source,
        "next": page.next,
    }
    facts = {"jobs": page, "workers": workers, "queue": depth, "next": page.next}
    return View("jobs.html", "Jobs and workers", context, facts, ("rowen jobs", "rowen worker"))


async def job(rowen: Rowen, request: Request) -> View | Goto:
    """Show a job until it starts; then redirect to its run."""
    job = await rowen.queue.get(int(request.path_params["number"]))
    if job.run is not None and not request.url.path.endswith(".json"):
        return goto("runs", job.run)
    context = {"job": job, "workers": await rowen.queue.list_workers(), "seen": glance_at_job(job).mark}
    return View("job.html", f"Job {job.id}", context, {"job": job}, (f"rowen jobs show {job.id}", "rowen worker"))


@takes("queue.cancel")
async def cancel_job(rowen: Rowen, request: Request) -> Goto:
    """Cancel a job."""
    await rowen.queue.cancel(int(request.path_params["number"]))
    return goto("jobs")


@takes("queue.retry")
async def retry(rowen: Rowen, request: Request) -> Goto:
    """Restart a job."""
    return goto("jobs", (await rowen.queue.retry(int(request.path_params["number"]))).id)


@takes("queue.pause")
async def pause(rowen: Rowen, request: Request) -> Goto:
    """Start no job until the queue is resumed."""
    await rowen.queue.pause()
    return goto("jobs")


@takes("queue.resume")
async def resume(rowen: Rowen, request: Request) -> Goto:
    """Start jobs again after a pause."""
    await rowen.queue.resume()
    return goto("jobs")


async def pending_deletions(rowen: Rowen, request: Request) -> View:
    """Show pending deletions, with forms to accept or reject them."""
    source = text(request, "source")
    page = await rowen.deletions.list(source, limit=_ITEMS, after=text(request, "after"))
    context = {
        "held": page,
        "source": source,
        "next": page.next,
        "kept_days": rowen.settings.withdrawn_kept_days,
        "waiting": (await rowen.status.get()).held,
    }
    commands = (command("held", source or "NAME"), command("sync", source or "NAME", "--accept-deletions"))
    return View("held.html", "Pending deletions", context, {"held": page, "next": page.next}, commands)


@takes("deletions.accept", "deletions.keep")
async def decide(rowen: Rowen, request: Request) -> Goto:
    """Delete or keep the chosen items."""
    form = await read_form(request)
    source, urls = form.need("source"), form.many("url")
    if not urls:
        raise UsageError("No item was chosen. Nothing was changed.")
    match form.text("decision"):
        case "accept":
            await rowen.deletions.accept(source, urls)
        case "keep":
            await rowen.deletions.keep(source, urls)
        case other:
            raise UsageError(f"{other!r} is not a decision: accept or keep. Nothing was changed.")
    return goto("held", source=source)


async def quarantine(rowen: Rowen, request: Request) -> View:
    """Show unreadable items with their errors."""
    source = text(request, "source")
    page = await rowen.items.quarantine(source, limit=_ITEMS, after=text(request, "after"))
    context = {"cases": page, "source": source, "next": page.next}
    facts = {"quarantine": page, "next": page.next}
    return View(
        "quarantine.html", "Quarantine", context, facts, (command("quarantine", *([source] if source else [])),)
    )
