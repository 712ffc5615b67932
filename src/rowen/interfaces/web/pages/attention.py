"""What waits for a decision: deletions that were held back, and items that could not be read."""

from starlette.requests import Request

from rowen.errors import UsageError
from rowen.interfaces.web.forms import read_form
from rowen.interfaces.web.view import Goto, View, command, goto, takes, text
from rowen.operations import Rowen

__all__ = ["decide", "held", "quarantine"]

_ROWS = 50


async def held(rowen: Rowen, request: Request) -> View:
    """Deletions that were held back, to be accepted or not."""
    source = text(request, "source")
    found = await rowen.deletions.list(source, limit=_ROWS, after=text(request, "after"))
    state = await rowen.status.get()
    context = {
        "held": found,
        "source": source,
        "next": found.next,
        "kept_days": rowen.settings.withdrawn_kept_days,
        "waiting": state.held,
    }
    commands = (command("held", source or "NAME"), command("sync", source or "NAME", "--accept-deletions"))
    return View("held.html", "Held deletions", context, {"held": found, "next": found.next}, commands)


@takes("deletions.accept", "deletions.keep")
async def decide(rowen: Rowen, request: Request) -> Goto:
    """Delete, or keep, the items that were chosen."""
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
            raise UsageError(f"{other!r} is no decision: accept or keep. Nothing was changed.")
    return goto("held", source=source)


async def quarantine(rowen: Rowen, request: Request) -> View:
    """Items that could not be read, with the reasons."""
    source = text(request, "source")
    found = await rowen.items.quarantine(source, limit=_ROWS, after=text(request, "after"))
    context = {"cases": found, "source": source, "next": found.next}
    facts = {"quarantine": found, "next": found.next}
    return View(
        "quarantine.html", "Quarantine", context, facts, (command("quarantine", *([source] if source else [])),)
    )
