"""The front page: what is fresh, what needs somebody, what was saved; and for a newcomer, the first step."""

from starlette.requests import Request

from rowen.interfaces.web.live import glance_at_runs, newest_runs
from rowen.interfaces.web.view import View
from rowen.operations import Rowen
from rowen.operations.summary import remarks_on_health, remarks_on_switched_off

__all__ = ["help_page", "overview"]

# What fits the first screen beside the numbers.
_SHOWN = 7


async def overview(rowen: Rowen, request: Request) -> View:
    """How everything is."""
    state = await rowen.status.get()
    if not state.sources:
        return View("welcome.html", "Welcome", facts={"state": state}, commands=("rowen add ADDRESS", "rowen demo"))
    savings = await rowen.status.savings()
    changes = await rowen.changes.newest(limit=_SHOWN)
    needing = await rowen.sources.list_status(needing=True, limit=_SHOWN)
    runs = await newest_runs(rowen)
    health = await rowen.status.health()
    # What is said of a source stands beside it already.
    named = {source.name for source in needing}
    remarks = [one for one in remarks_on_health(health) if one.partition(":")[0] not in named]
    context = {
        "savings": savings,
        "changes": changes,
        "needing": needing,
        "runs": runs,
        "seen": glance_at_runs(runs).mark,
        "health": health,
        "remarks": [*remarks_on_switched_off(state.switched_off), *remarks][:_SHOWN],
    }
    facts = {"state": state, "savings": savings, "changes": changes, "needing": needing, "runs": runs}
    facts["health"] = health
    return View("overview.html", "Overview", context, facts, ("rowen status", "rowen changes --since 1d"))


async def help_page(rowen: Rowen, request: Request) -> View:
    """The keys, and where things are."""
    return View("help.html", "Help")
