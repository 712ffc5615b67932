"""Webhooks: who is called when something changes, what became of the calls, and calling again."""

from typing import get_args

from starlette.requests import Request

from rowen.interfaces.web.forms import read_form
from rowen.interfaces.web.view import Goto, View, command, goto, number, takes
from rowen.model.changes import ChangeKind
from rowen.operations import Rowen

__all__ = ["add", "remove", "replay", "set_state", "webhook", "webhooks"]

_DELIVERIES = 50


async def webhooks(rowen: Rowen, request: Request) -> View:
    """All receivers."""
    found, people = await rowen.webhooks.list(), await rowen.webhooks.list_notices()
    context = {"webhooks": found, "notices": people, "all_kinds": get_args(ChangeKind)}
    facts = {"webhooks": found, "notices": people}
    return View("webhooks.html", "Webhooks", context, facts, ("rowen webhooks", "rowen webhooks add NAME URL"))


async def webhook(rowen: Rowen, request: Request) -> View:
    """One receiver, and its last calls."""
    name = request.path_params["name"]
    deliveries = await rowen.webhooks.deliveries(name, limit=_DELIVERIES)
    held = next(one for one in (*await rowen.webhooks.list(), *await rowen.webhooks.list_notices()) if one.name == name)
    context = {"webhook": held, "deliveries": deliveries, "last": await rowen.changes.last_number()}
    facts = {"webhook": held, "deliveries": deliveries}
    return View("webhook.html", name, context, facts, (command("webhooks", "log", name),))


@takes("webhooks.add")
async def add(rowen: Rowen, request: Request) -> Goto:
    """Call an address from now on."""
    form = await read_form(request)
    kinds = [kind for kind in get_args(ChangeKind) if kind in form.many("kind")]
    sources = [form.need("source")] if form.text("source") else []
    made = await rowen.webhooks.add(
        form.need("name"), form.need("url"), secret=form.need("secret"), kinds=kinds, sources=sources
    )
    return goto("webhooks", made.name)


@takes("webhooks.pause", "webhooks.resume")
async def set_state(rowen: Rowen, request: Request) -> Goto:
    """Pause a receiver, or call it again."""
    name, form = request.path_params["name"], await read_form(request)
    if form.need("state") == "paused":
        await rowen.webhooks.pause(name)
    else:
        await rowen.webhooks.resume(name)
    return goto("webhooks", name)


@takes("webhooks.resume")
async def replay(rowen: Rowen, request: Request) -> Goto:
    """Send what followed a number once more."""
    name, form = request.path_params["name"], await read_form(request)
    await rowen.webhooks.resume(name, since=number(form.need("since")) or 0)
    return goto("webhooks", name)


@takes("webhooks.remove")
async def remove(rowen: Rowen, request: Request) -> Goto:
    """Call it no more."""
    await rowen.webhooks.remove(request.path_params["name"])
    return goto("webhooks")
