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
    found, people = await rowen.webhooks(), await rowen.notices()
    context = {"webhooks": found, "notices": people, "all_kinds": get_args(ChangeKind)}
    facts = {"webhooks": found, "notices": people}
    return View("webhooks.html", "Webhooks", context, facts, ("rowen webhooks", "rowen webhooks add NAME URL"))


async def webhook(rowen: Rowen, request: Request) -> View:
    """One receiver, and its last calls."""
    name = request.path_params["name"]
    deliveries = await rowen.deliveries(name, limit=_DELIVERIES)
    held = next(one for one in (*await rowen.webhooks(), *await rowen.notices()) if one.name == name)
    context = {"webhook": held, "deliveries": deliveries, "last": await rowen.last_change()}
    facts = {"webhook": held, "deliveries": deliveries}
    return View("webhook.html", name, context, facts, (command("webhooks", "log", name),))


@takes("add_webhook")
async def add(rowen: Rowen, request: Request) -> Goto:
    """Call an address from now on."""
    form = await read_form(request)
    kinds = [kind for kind in get_args(ChangeKind) if kind in form.many("kind")]
    sources = [form.need("source")] if form.text("source") else []
    made = await rowen.add_webhook(
        form.need("name"), form.need("url"), secret=form.need("secret"), kinds=kinds, sources=sources
    )
    return goto("webhooks", made.name)


@takes("pause_webhook", "resume_webhook")
async def set_state(rowen: Rowen, request: Request) -> Goto:
    """Pause a receiver, or call it again."""
    name, form = request.path_params["name"], await read_form(request)
    if form.need("state") == "paused":
        await rowen.pause_webhook(name)
    else:
        await rowen.resume_webhook(name)
    return goto("webhooks", name)


@takes("resume_webhook")
async def replay(rowen: Rowen, request: Request) -> Goto:
    """Send what followed a number once more."""
    name, form = request.path_params["name"], await read_form(request)
    await rowen.resume_webhook(name, since=number(form.need("since")) or 0)
    return goto("webhooks", name)


@takes("remove_webhook")
async def remove(rowen: Rowen, request: Request) -> Goto:
    """Call it no more."""
    await rowen.remove_webhook(request.path_params["name"])
    return goto("webhooks")
