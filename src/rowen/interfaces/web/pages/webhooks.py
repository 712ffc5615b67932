"""Webhooks and notifications: list all, and show one with its deliveries."""

from starlette.requests import Request

from rowen.interfaces.web.forms import read_form
from rowen.interfaces.web.view import Goto, View, command, goto, takes
from rowen.operations import Rowen

_DELIVERIES = 50


async def webhooks(rowen: Rowen, request: Request) -> View:
    """Show all webhooks and notifications."""
    facts = {"webhooks": await rowen.webhooks.list(), "notices": await rowen.webhooks.list_notices()}
    return View("webhooks.html", "Webhooks", facts, facts, ("rowen webhooks", "rowen webhooks add NAME URL"))


async def webhook(rowen: Rowen, request: Request) -> View:
    """Show a webhook or notification with its last deliveries."""
    name = request.path_params["name"]
    deliveries = await rowen.webhooks.deliveries(name, limit=_DELIVERIES)
    every = (*await rowen.webhooks.list(), *await rowen.webhooks.list_notices())
    facts = {"webhook": next(webhook for webhook in every if webhook.name == name), "deliveries": deliveries}
    context = {**facts, "last": await rowen.changes.last_number()}
    return View("webhook.html", name, context, facts, (command("webhooks", "log", name),))


@takes("webhooks.add")
async def add(rowen: Rowen, request: Request) -> Goto:
    """Add a webhook."""
    form = await read_form(request)
    values = form.values("webhooks.add", "name", "url", "secret", "sources", "kinds", "query", "since")
    return goto("webhooks", (await rowen.webhooks.add(**values)).name)


@takes("webhooks.pause", "webhooks.resume")
async def set_state(rowen: Rowen, request: Request) -> Goto:
    """Pause or resume a webhook."""
    name, form = request.path_params["name"], await read_form(request)
    if form.need("state") == "paused":
        await rowen.webhooks.pause(name)
    else:
        await rowen.webhooks.resume(name)
    return goto("webhooks", name)


@takes("webhooks.resume")
async def replay(rowen: Rowen, request: Request) -> Goto:
    """Send the changes after a number again."""
    name, form = request.path_params["name"], await read_form(request)
    form.need("since")
    await rowen.webhooks.resume(name, **form.values("webhooks.resume", "since"))
    return goto("webhooks", name)


@takes("webhooks.remove")
async def remove(rowen: Rowen, request: Request) -> Goto:
    """Remove a webhook."""
    await rowen.webhooks.remove(request.path_params["name"])
    return goto("webhooks")
