"""Adding a source: what is at an address is found out and shown before anything is kept."""

from starlette.requests import Request

from rowen.errors import RowenError
from rowen.interfaces.web.forms import read_form
from rowen.interfaces.web.view import Goto, View, caller, check_origin, command, goto, need, reach, takes, text
from rowen.operations import Rowen

__all__ = ["add", "add_page"]

SCHEDULES = (
    ("auto", "as often as it changes"),
    ("1h", "every hour"),
    ("6h", "every 6 hours"),
    ("1d", "every day"),
    ("1w", "every week"),
    ("none", "only when somebody asks"),
)


async def add_page(rowen: Rowen, request: Request) -> View:
    """One field for an address, and beside it what would come of it."""
    address, kind = text(request, "address"), text(request, "kind")
    preview = problem = None
    # Looking asks others for something: whoever may only read has nothing to look for.
    if address is not None:
        need(request, "sources.preview")
        try:
            check_origin(request)
            rowen.limits.count(caller(request))
            preview = await rowen.sources.preview(address, kind=kind, reach=reach(request))
        except RowenError as found:
            problem = found
    named = ("--kind", kind) if kind else ()
    there = address or "ADDRESS"
    commands = (command("add", there, *named, "--every", "auto"), command("sync", there, "--dry-run"))
    context = {"address": address, "kind": kind, "preview": preview, "problem": problem, "schedules": SCHEDULES}
    return View("add.html", "Add a source", context, {"preview": preview, "problem": problem}, commands)


@takes("sources.add", "queue.enqueue")
async def add(rowen: Rowen, request: Request) -> Goto:
    """Keep a source from now on, and have it read at once."""
    form = await read_form(request)
    every = form.text("every")
    source = await rowen.sources.add(
        form.need("address"),
        name=form.text("name"),
        kind=form.text("kind"),
        options=form.options("options"),
        # Folders and secrets of the server are named by who runs it.
        reach=reach(request),
        every=None if every == "none" else every,
    )
    job = await rowen.queue.enqueue(source.name)
    return goto("jobs", job.id)
