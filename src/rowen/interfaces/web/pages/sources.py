"""Sources: add one after a preview, list all, and show one with its items, changes, runs and settings."""

from starlette.requests import Request

from rowen.errors import NotFoundError, RowenError
from rowen.interfaces.web.forms import read_form
from rowen.interfaces.web.view import Goto, View, caller, check_origin, command, goto, need, reach, takes, text
from rowen.model.sources import Source
from rowen.operations import Rowen
from rowen.operations.summary import remarks_on_source

# With thirty bars each, this number of rows makes a page of 50 kB.
_ROWS = 20
_ITEMS = 40
FOLLOWED = ("announced", "feed", "ldes")
"""Kinds that are polled for new members, and whose progress is stored."""
TABS = ("items", "changes", "runs", "settings")
SCHEDULES = (
    ("auto", "as often as it changes"),
    ("1h", "every hour"),
    ("6h", "every 6 hours"),
    ("1d", "every day"),
    ("1w", "every week"),
    ("none", "only on request"),
)


async def add_page(rowen: Rowen, request: Request) -> View:
    """Show a form for an address, and a preview of the source at the address."""
    address, kind = text(request, "address"), text(request, "kind")
    preview = problem = None
    # A preview sends requests to other servers, so the scope `read` is not sufficient.
    if address is not None:
        need(request, "sources.preview")
        try:
            check_origin(request)
            rowen.limits.count(caller(request))
            preview = await rowen.sources.preview(address, kind=kind, reach=reach(request))
        except RowenError as error:
            problem = error
    kind_option = ("--kind", kind) if kind else ()
    target = address or "ADDRESS"
    commands = (command("add", target, *kind_option, "--every", "auto"), command("sync", target, "--dry-run"))
    context = {"address": address, "kind": kind, "preview": preview, "problem": problem, "schedules": SCHEDULES}
    return View("add.html", "Add a source", context, {"preview": preview, "problem": problem}, commands)


@takes("sources.add", "queue.enqueue")
async def add(rowen: Rowen, request: Request) -> Goto:
    """Add a source, and sync it."""
    form = await read_form(request)
    values = form.values("sources.add", "address", "name", "kind", "every")
    if values.get("every") == "none":
        del values["every"]
    # Only an administrator may name folders and secrets of the server.
    added = await rowen.sources.add(**values, options=form.options("options"), reach=reach(request))
    return goto("jobs", (await rowen.queue.enqueue(added.name)).id)


async def listing(rowen: Rowen, request: Request) -> View:
    """Show all sources by name."""
    named = text(request, "q")
    page = await rowen.sources.list_status(named=named, limit=_ROWS, after=text(request, "after"))
    runs = await rowen.runs.latest_by_source([source.name for source in page])
    context = {"sources": page, "runs": runs, "named": named, "next": page.next}
    facts = {"sources": page, "next": page.next}
    return View("sources.html", "Sources", context, facts, ("rowen sources", "rowen status"))


async def source(rowen: Rowen, request: Request) -> View:
    """Show the state of one source, with one of its tabs."""
    source = await _named(rowen, request.path_params["name"])
    tab = text(request, "tab") if text(request, "tab") in TABS else "items"
    status = await rowen.sources.status(source.name)
    runs = (await rowen.runs.latest_by_source([source.name]))[source.name]
    listed = await _tab(rowen, request, source, str(tab))
    context = {
        "source": source,
        "standing": status,
        "runs": runs,
        "remarks": list(remarks_on_source(status)),
        "tab": tab,
        "following": await rowen.sources.following(source.name) if source.kind in FOLLOWED else None,
        "schemas": await rowen.extraction.list_attached(source.name),
        **listed,
    }
    facts = {"source": source, "standing": status, **listed}
    commands = (command("show", source.name), command("sync", source.name), command("runs", source.name))
    return View("source.html", source.name, context, facts, commands)


async def _named(rowen: Rowen, name: str) -> Source:
    try:
        return await rowen.sources.get(name, counted=False)
    except NotFoundError as error:
        # The page of a source named `data.json` has the same address as the JSON of a source named `data`.
        try:
            return await rowen.sources.get(f"{name}.json", counted=False)
        except NotFoundError:
            raise error from None


async def _tab(rowen: Rowen, request: Request, source: Source, tab: str) -> dict[str, object]:
    after = text(request, "after")
    match tab:
        case "items":
            items = await rowen.items.browse(source.name, limit=_ITEMS, after=after)
            return {"items": items, "next": items.next}
        case "changes":
            changes = await rowen.changes.newest(source=source.name, limit=_ITEMS, after=after)
            return {"changes": changes, "next": changes.next}
        case "runs":
            runs = await rowen.runs.list(source.name, limit=_ITEMS, after=after)
            return {"all_runs": runs, "next": runs.next}
    return {"next": None}


@takes("queue.enqueue")
async def sync(rowen: Rowen, request: Request) -> Goto:
    """Queue a sync of a source."""
    form = await read_form(request)
    full, accepted = form.text("full") is not None, form.text("accept_deletions") is not None
    job = await rowen.queue.enqueue(request.path_params["name"], full=full, accept_deletions=accepted)
    return goto("jobs", job.id)


@takes("sources.pause")
async def pause(rowen: Rowen, request: Request) -> Goto:
    """Exclude a source from sync until it is resumed."""
    await rowen.sources.pause(request.path_params["name"])
    return goto("sources", request.path_params["name"])


@takes("sources.resume")
async def resume(rowen: Rowen, request: Request) -> Goto:
    """Include a source again."""
    await rowen.sources.resume(request.path_params["name"])
    return goto("sources", request.path_params["name"])


@takes("sources.edit")
async def edit_source(rowen: Rowen, request: Request) -> Goto:
    """Change name, schedule or options of a source."""
    form, name = await read_form(request), request.path_params["name"]
    before = await rowen.sources.get(name, counted=False)
    options = {**dict.fromkeys(before.options), **form.options("options")}
    rename = form.text("name")
    when = {"every": form.text("every") or ("none" if before.schedule else None)}
    if cron := form.text("cron"):
        when = {"cron": cron}
    edited = await rowen.sources.edit(
        name, rename=rename if rename != name else None, options=options, reach=reach(request), **when
    )
    return goto("sources", edited.name, tab="settings")


@takes("sources.remove")
async def remove(rowen: Rowen, request: Request) -> View | Goto:
    """Delete a source with all its items, after a page that asks for confirmation."""
    name = request.path_params["name"]
    if request.method == "POST":
        await rowen.sources.remove(name)
        return goto("sources")
    source = await rowen.sources.get(name, counted=False)
    context = {"source": source, "items": await rowen.items.count(source.id)}
    return View("remove.html", f"Remove {name}", context, commands=(command("remove", name),))
