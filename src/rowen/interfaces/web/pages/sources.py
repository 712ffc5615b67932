"""Sources: all of them, and one with its items, changes, runs and settings."""

from starlette.requests import Request

from rowen.errors import NotFoundError
from rowen.interfaces.web.forms import read_form
from rowen.interfaces.web.view import Goto, View, command, goto, reach, takes, text
from rowen.model.sources import Source
from rowen.operations import Rowen
from rowen.operations.summary import remarks_on_source

__all__ = ["edit_source", "listing", "pause", "remove", "resume", "source", "sync"]

# With thirty bars each, so many rows make a page of 50 kB.
_ROWS = 20
_ITEMS = 40
FOLLOWED = ("announced", "feed", "ldes")
"""Kinds that are followed for what is new, and tell how that goes."""
TABS = ("items", "changes", "runs", "settings")


async def listing(rowen: Rowen, request: Request) -> View:
    """All sources, by name."""
    named = text(request, "q")
    found = await rowen.sources.list_status(named=named, limit=_ROWS, after=text(request, "after"))
    runs = await rowen.runs.latest_by_source([one.name for one in found])
    context = {"sources": found, "runs": runs, "named": named, "next": found.next}
    facts = {"sources": found, "next": found.next}
    return View("sources.html", "Sources", context, facts, ("rowen sources", "rowen status"))


async def source(rowen: Rowen, request: Request) -> View:
    """One source: how it is doing, and one of its tabs."""
    held = await _named(rowen, request.path_params["name"])
    tab = text(request, "tab") if text(request, "tab") in TABS else "items"
    standing = await rowen.sources.status(held.name)
    runs = (await rowen.runs.latest_by_source([held.name]))[held.name]
    context = {
        "source": held,
        "standing": standing,
        "runs": runs,
        "remarks": list(remarks_on_source(standing)),
        "tab": tab,
        "following": await rowen.sources.following(held.name) if held.kind in FOLLOWED else None,
        "schemas": await rowen.extraction.list_attached(held.name),
    }
    shown = await _tab(rowen, request, held, str(tab))
    facts = {"source": held, "standing": standing, **shown}
    commands = (command("show", held.name), command("sync", held.name), command("runs", held.name))
    return View("source.html", held.name, {**context, **shown}, facts, commands)


async def _named(rowen: Rowen, name: str) -> Source:
    try:
        return await rowen.sources.get(name, counted=False)
    except NotFoundError as nothing:
        # The address of the page of a source `data.json` looks like that of the twin of a source `data`.
        try:
            return await rowen.sources.get(f"{name}.json", counted=False)
        except NotFoundError:
            raise nothing from None


async def _tab(rowen: Rowen, request: Request, held: Source, tab: str) -> dict[str, object]:
    after = text(request, "after")
    match tab:
        case "items":
            items = await rowen.items.browse(held.name, limit=_ITEMS, after=after)
            return {"items": items, "next": items.next}
        case "changes":
            changes = await rowen.changes.newest(source=held.name, limit=_ITEMS, after=after)
            return {"changes": changes, "next": changes.next}
        case "runs":
            runs = await rowen.runs.list(held.name, limit=_ITEMS, after=after)
            return {"all_runs": runs, "next": runs.next}
    return {"next": None}


@takes("queue.enqueue")
async def sync(rowen: Rowen, request: Request) -> Goto:
    """Have a source synced by a worker, now."""
    form = await read_form(request)
    full, accepted = form.text("full") is not None, form.text("accept_deletions") is not None
    job = await rowen.queue.enqueue(request.path_params["name"], full=full, accept_deletions=accepted)
    return goto("jobs", job.id)


@takes("sources.pause")
async def pause(rowen: Rowen, request: Request) -> Goto:
    """Leave a source out until it is resumed."""
    await rowen.sources.pause(request.path_params["name"])
    return goto("sources", request.path_params["name"])


@takes("sources.resume")
async def resume(rowen: Rowen, request: Request) -> Goto:
    """Take a source in again."""
    await rowen.sources.resume(request.path_params["name"])
    return goto("sources", request.path_params["name"])


@takes("sources.edit")
async def edit_source(rowen: Rowen, request: Request) -> Goto:
    """Change name, schedule or options of a source."""
    form, name = await read_form(request), request.path_params["name"]
    held = await rowen.sources.get(name, counted=False)
    given = form.options("options")
    options = {**dict.fromkeys(held.options), **given}
    rename = form.text("name")
    when = {"every": form.text("every") or ("none" if held.schedule else None)}
    if cron := form.text("cron"):
        when = {"cron": cron}
    rename = rename if rename != name else None
    edited = await rowen.sources.edit(name, rename=rename, options=options, reach=reach(request), **when)
    return goto("sources", edited.name, tab="settings")


@takes("sources.remove")
async def remove(rowen: Rowen, request: Request) -> View | Goto:
    """Forget a source with all its items: asked for on a page of its own, and done when it is confirmed."""
    name = request.path_params["name"]
    if request.method == "POST":
        await rowen.sources.remove(name)
        return goto("sources")
    held = await rowen.sources.get(name, counted=False)
    items = await rowen.items.count(held.id)
    context = {"source": held, "items": items}
    return View("remove.html", f"Remove {name}", context, commands=(command("remove", name),))
