"""Jobs and workers: what waits, who does it; and one job, until it becomes a run."""

from typing import get_args

from starlette.requests import Request

from rowen.interfaces.web.live import glance_at_job
from rowen.interfaces.web.view import Goto, View, goto, takes, text
from rowen.model.queue import JobState
from rowen.operations import Rowen

__all__ = ["cancel", "job", "jobs", "pause", "resume", "retry"]

_ROWS = 40


async def jobs(rowen: Rowen, request: Request) -> View:
    """The queue, and who works."""
    asked, source = text(request, "state"), text(request, "source")
    chosen = next((state for state in get_args(JobState) if state == asked), None)
    found = await rowen.queue.list(source, state=chosen, limit=_ROWS, after=text(request, "after"))
    workers, depth = await rowen.queue.list_workers(), await rowen.queue.depth()
    context = {
        "jobs": found,
        "workers": workers,
        "depth": depth,
        "chosen": chosen,
        "states": get_args(JobState),
        "source": source,
        "next": found.next,
    }
    facts = {"jobs": found, "workers": workers, "queue": depth, "next": found.next}
    return View("jobs.html", "Jobs and workers", context, facts, ("rowen jobs", "rowen worker"))


async def job(rowen: Rowen, request: Request) -> View | Goto:
    """One job: until it begins it waits here, then its run is shown."""
    held = await rowen.queue.get(int(request.path_params["number"]))
    if held.run is not None and not request.url.path.endswith(".json"):
        return goto("runs", held.run)
    workers = await rowen.queue.list_workers()
    context = {"job": held, "workers": workers, "seen": glance_at_job(held).mark}
    return View("job.html", f"Job {held.id}", context, {"job": held}, (f"rowen jobs show {held.id}", "rowen worker"))


@takes("queue.cancel")
async def cancel(rowen: Rowen, request: Request) -> Goto:
    """Take a job out of the queue."""
    await rowen.queue.cancel(int(request.path_params["number"]))
    return goto("jobs")


@takes("queue.retry")
async def retry(rowen: Rowen, request: Request) -> Goto:
    """Begin a job again."""
    made = await rowen.queue.retry(int(request.path_params["number"]))
    return goto("jobs", made.id)


@takes("queue.pause")
async def pause(rowen: Rowen, request: Request) -> Goto:
    """Begin no job until the queue is resumed."""
    await rowen.queue.pause()
    return goto("jobs")


@takes("queue.resume")
async def resume(rowen: Rowen, request: Request) -> Goto:
    """Go on after a pause."""
    await rowen.queue.resume()
    return goto("jobs")
