"""What it costs, how everything is doing, which feeds are followed; and how somebody likes the page to look."""

from collections import defaultdict
from datetime import timedelta

from starlette.requests import Request

from rowen.interfaces.web.view import View, number, text
from rowen.operations import Rowen
from rowen.operations.summary import remarks_on_health, remarks_on_model

__all__ = ["costs", "following", "health"]

_DAYS = 30
# A year of costs is the longest that anybody asks for.
_MOST_DAYS = 366
# A row takes 700 bytes, and a page has at most 60 kB.
_FEEDS = 60


async def costs(rowen: Rowen, request: Request) -> View:
    """What paid calls cost, and what was avoided."""
    days = min(number(text(request, "days")) or _DAYS, _MOST_DAYS)
    told = await rowen.status.costs(timedelta(days=days))
    savings = await rowen.status.savings(timedelta(days=days))
    by_source: dict[str, float] = defaultdict(float)
    for line in told.lines:
        by_source[line.source or "no source"] += line.usd or 0.0
    context = {"costs": told, "savings": savings, "days": days, "by_source": sorted(by_source.items())}
    return View("costs.html", "Costs", context, {"costs": told, "savings": savings}, (f"rowen costs --since {days}d",))


async def health(rowen: Rowen, request: Request) -> View:
    """How everything is doing, as numbers."""
    told, models, database = await rowen.status.health(), await rowen.embeddings.list(), await rowen.database.status()
    circuits = await rowen.circuits.list()
    context = {
        "health": told,
        "models": models,
        "database": database,
        "circuits": circuits,
        "remarks": [*remarks_on_health(told), *(one for model in models for one in remarks_on_model(model))],
    }
    facts = {"health": told, "models": models, "database": database, "circuits": circuits}
    return View("health.html", "Health", context, facts, ("rowen status", "rowen circuits", "rowen doctor"))


async def following(rowen: Rowen, request: Request) -> View:
    """Feeds and event streams, and how far each is followed."""
    held = {source.name: source for source in await rowen.sources.list()}
    found = [(held[told.source], told) for told in await rowen.sources.list_following(tuple(held.values()))]
    found.sort(key=lambda pair: (pair[1].state != "failing", pair[0].name))
    names, after = [source.name for source, _ in found], text(request, "after")
    start = names.index(after) + 1 if after in names else 0
    shown = found[start : start + _FEEDS]
    further = shown[-1][0].name if len(found) > start + _FEEDS else None
    context = {"feeds": shown, "subscriptions": await rowen.push.list_subscriptions(), "next": further}
    facts = {"feeds": [told for _, told in shown], "next": further}
    return View("following.html", "Feeds", context, facts, ("rowen show NAME", "rowen add ldes:URL --every auto"))
