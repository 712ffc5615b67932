"""Saved searches: words that somebody follows, what newly matches them, and what no longer does."""

from itertools import groupby

from starlette.requests import Request

from rowen.errors import Hint, NotFoundError, action
from rowen.interfaces.web.forms import read_form
from rowen.interfaces.web.view import Goto, View, command, goto, takes, text
from rowen.model.search import SavedSearch
from rowen.operations import Rowen

__all__ = ["forget", "listing", "save", "search_news"]

_ROWS = 50


async def listing(rowen: Rowen, request: Request) -> View:
    """All saved searches, by name."""
    found = await rowen.searches.list()
    commands = ("rowen saved", command("saved", "add", "NAME", "some words"))
    return View("saved.html", "Saved searches", {"searches": found}, {"searches": found}, commands)


async def search_news(rowen: Rowen, request: Request) -> View:
    """One saved search: what newly matches it and what no longer does, newest first."""
    found = await rowen.searches.newest_news(
        (await _numbered(rowen, request)).name, limit=_ROWS, after=text(request, "after")
    )
    # Asked again, since looking for news counted what matches now.
    held = await _numbered(rowen, request)
    days = [(day, list(those)) for day, those in groupby(found, key=lambda one: one.at.date())]
    context = {"search": held, "days": days, "next": found.next}
    facts = {"search": held, "news": found, "next": found.next}
    return View("saved_search.html", held.name, context, facts, (command("saved", "news", held.name),))


async def _numbered(rowen: Rowen, request: Request) -> SavedSearch:
    """The one that an address means: by its number, since a name may hold anything."""
    number = int(request.path_params["number"])
    for search in await rowen.searches.list():
        if search.id == number:
            return search
    raise NotFoundError(f"There is no saved search {number}.", hint=Hint(action("saved"), " lists all."))


@takes("searches.save")
async def save(rowen: Rowen, request: Request) -> Goto:
    """Follow a search from now on."""
    form = await read_form(request)
    made = await rowen.searches.save(form.need("name"), form.need("query"), sources=form.many("source"))
    return goto("saved", made.id)


@takes("searches.remove")
async def forget(rowen: Rowen, request: Request) -> Goto:
    """Follow a search no longer."""
    await rowen.searches.remove((await _numbered(rowen, request)).name)
    return goto("saved")
