"""Pages on the whole: overview, health, costs, followed feeds, help."""

from collections import defaultdict
from datetime import timedelta

from starlette.requests import Request

from rowen.interfaces.web.live import glance_at_runs, newest_runs
from rowen.interfaces.web.view import View, number, text
from rowen.operations import Rowen
from rowen.operations.summary import remarks_on_health, remarks_on_model, remarks_on_switched_off

# The number of lines that fit the first screen beside the numbers.
_SHOWN = 7
_DAYS = 30
# The costs of a year; nobody needs a longer period.
_MOST_DAYS = 366
# A row takes 700 bytes, and a page has at most 60 kB.
_FEEDS = 60


async def overview(rowen: Rowen, request: Request) -> View:
    """Show the state of everything; if there are no sources, show how to add the first one."""
    state = await rowen.status.get()
    if not state.sources:
        return View("welcome.html", "Welcome", facts={"state": state}, commands=("rowen add ADDRESS", "rowen demo"))
    savings = await rowen.status.savings()
    changes = await rowen.changes.newest(limit=_SHOWN)
    needing = await rowen.sources.list_status(needing=True, limit=_SHOWN)
    runs = await newest_runs(rowen)
    health = await rowen.status.health()
    # Remarks on sources are shown beside the sources.
    named = {source.name for source in needing}
    remarks = [remark for remark in remarks_on_health(health) if remark.partition(":")[0] not in named]
    facts = {
        "state": state,
        "savings": savings,
        "changes": changes,
        "needing": needing,
        "runs": runs,
        "health": health,
    }
    context = {
        **facts,
        "seen": glance_at_runs(runs).mark,
        "remarks": [*remarks_on_switched_off(state.switched_off), *remarks][:_SHOWN],
    }
    return View("overview.html", "Overview", context, facts, ("rowen status", "rowen changes --since 1d"))


async def help_page(rowen: Rowen, request: Request) -> View:
    """Show the keyboard shortcuts, and where things are."""
    return View("help.html", "Help")


async def costs(rowen: Rowen, request: Request) -> View:
    """Show the cost of paid calls, and the cost avoided."""
    days = min(number(text(request, "days")) or _DAYS, _MOST_DAYS)
    report = await rowen.status.costs(timedelta(days=days))
    savings = await rowen.status.savings(timedelta(days=days))
    by_source: dict[str, float] = defaultdict(float)
    for line in report.lines:
        by_source[line.source or "no source"] += line.usd or 0.0
    context = {"costs": report, "savings": savings, "days": days, "by_source": sorted(by_source.items())}
    facts = {"costs": report, "savings": savings}
    return View("costs.html", "Costs", context, facts, (f"rowen costs --since {days}d",))


async def health(rowen: Rowen, request: Request) -> View:
    """Show queue, models, database and circuits."""
    report, models = await rowen.status.health(), await rowen.embeddings.list()
    database, circuits = await rowen.database.status(), await rowen.circuits.list()
    facts = {"health": report, "models": models, "database": database, "circuits": circuits}
    remarks = [*remarks_on_health(report), *(remark for model in models for remark in remarks_on_model(model))]
    commands = ("rowen status", "rowen circuits", "rowen doctor")
    return View("health.html", "Health", {**facts, "remarks": remarks}, facts, commands)


async def following(rowen: Rowen, request: Request) -> View:
    """Show feeds and event streams with their polls."""
    sources = {source.name: source for source in await rowen.sources.list()}
    states = await rowen.sources.list_following(tuple(sources.values()))
    feeds = [(sources[state.source], state) for state in states]
    feeds.sort(key=lambda pair: (pair[1].state != "failing", pair[0].name))
    names, after = [source.name for source, _ in feeds], text(request, "after")
    start = names.index(after) + 1 if after in names else 0
    page = feeds[start : start + _FEEDS]
    further = page[-1][0].name if len(feeds) > start + _FEEDS else None
    context = {"feeds": page, "subscriptions": await rowen.push.list_subscriptions(), "next": further}
    facts = {"feeds": [state for _, state in page], "next": further}
    return View("following.html", "Feeds", context, facts, ("rowen show NAME", "rowen add ldes:URL --every auto"))
