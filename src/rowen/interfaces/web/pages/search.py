"""Search: results with marked words, and the filters of all interfaces; saved searches with their news."""

from collections import Counter
from functools import cache
from itertools import groupby
from typing import Any

from starlette.requests import Request

from rowen.errors import Hint, NotFoundError, UsageError, action
from rowen.interfaces.web.forms import field_of, read_form, values_of
from rowen.interfaces.web.view import Goto, View, command, goto, takes, text
from rowen.model.passages import marked, pattern, snippet
from rowen.model.search import Answer, Hit, Query, SavedSearch
from rowen.operations import Rowen
from rowen.operations.registry import signature_of

# Two screens: more hits are rarely read, and each takes a kilobyte.
_HITS = 20
_NEWS = 50
_SNIPPET_LINES, _SNIPPET_WIDTH = 3, 110
# Characters of the query in the title of the page.
_TITLE_CHARS = 60
# Shown below an empty search field; the page of saved searches has all of them.
_SAVED = 10
_FACETS = ("source", "kind", "record_kind", "language")
# Each filter has a link that contains all others: 100 filters take 10 ms to render, 3,000 took 5 s.
_MOST_FILTERS = 100


@cache
def _filters() -> dict[str, str]:
    """Return the parameters that filter a search, by the names of form fields."""
    names = [parameter.name for parameter in signature_of("items.search").sent]
    others = {"words", "limit", "budget", "meaning", "after"}
    return {field_of("items.search", name).name: name for name in names if name not in others}


async def search(rowen: Rowen, request: Request) -> View:
    """Show the results of a search."""
    words = text(request, "q") or ""
    chosen = {
        name: list(dict.fromkeys(value for value in request.query_params.getlist(name) if value.strip()))
        for name in _filters()
    }
    if sum(map(len, chosen.values())) > _MOST_FILTERS:
        raise UsageError(f"A search on this page takes at most {_MOST_FILTERS} filters. Nothing was searched.")
    answer, problem = Answer(), None
    try:
        filters = values_of("items.search", chosen, tuple(_filters().values()))
        answer = await rowen.search(words, limit=_HITS, after=text(request, "after"), **filters)
    except (NotFoundError, UsageError) as error:
        problem = error
    wanted = pattern(Query.parse(words).replacing(answer.corrections))
    context: dict[str, Any] = {
        "words": words,
        "answer": answer,
        "hits": [(hit, _lines(hit, wanted)) for hit in answer],
        "marks": lambda line: marked(line, wanted),
        "facets": _facets(answer, chosen),
        "chosen": chosen,
        "with_filter": lambda name, value: {**chosen, name: [*chosen[name], value]},
        "without_filter": lambda name, value: {**chosen, name: [other for other in chosen[name] if other != value]},
        # Facets offer the values of all other parameters.
        "fields": [name for flag, name in _filters().items() if flag not in _FACETS],
        "repeated": [flag for flag, name in _filters().items() if field_of("items.search", name).is_repeated],
        "problem": problem,
        "next": answer.next,
        "saved": [] if words else (await rowen.searches.list())[:_SAVED],
    }
    facts = {
        "hits": list(answer),
        "corrections": dict(answer.corrections),
        "notes": list(answer.notes),
        "explanation": dict(answer.explanation),
        "problem": problem,
        "next": answer.next,
    }
    title = f"{words[:_TITLE_CHARS]} – search" if words else "Search"
    options = (part for name, values in chosen.items() for value in values for part in (_flag(name), value))
    return View("search.html", title, context, facts, (command("search", words or "words", *options),))


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _lines(hit: Hit, wanted: Any) -> list[list[tuple[str, bool]]]:
    lines = snippet(hit.text, wanted, lines=_SNIPPET_LINES, width=_SNIPPET_WIDTH)
    return [marked(line, wanted) for line in lines]


def _facets(answer: Answer, chosen: dict[str, list[str]]) -> list[tuple[str, list[tuple[str, int]]]]:
    """Return the values of each facet that has several values and is not chosen yet, with the number of hits."""
    facets = []
    for name in _FACETS:
        counts = Counter(str(getattr(hit, name)) for hit in answer if getattr(hit, name))
        if len(counts) > 1 and not chosen[name]:
            facets.append((name, counts.most_common()))
    return facets


async def listing(rowen: Rowen, request: Request) -> View:
    """Show all saved searches by name."""
    searches = await rowen.searches.list()
    commands = ("rowen saved", command("saved", "add", "NAME", "some words"))
    return View("saved.html", "Saved searches", {"searches": searches}, {"searches": searches}, commands)


async def search_news(rowen: Rowen, request: Request) -> View:
    """Show the news of one saved search, newest first."""
    name = (await _numbered(rowen, request)).name
    news = await rowen.searches.newest_news(name, limit=_NEWS, after=text(request, "after"))
    # Read after the news, since reading the news counts the current matches.
    saved = await _numbered(rowen, request)
    days = [(day, list(lines)) for day, lines in groupby(news, key=lambda line: line.at.date())]
    context = {"search": saved, "days": days, "next": news.next}
    facts = {"search": saved, "news": news, "next": news.next}
    return View("saved_search.html", saved.name, context, facts, (command("saved", "news", saved.name),))


async def _numbered(rowen: Rowen, request: Request) -> SavedSearch:
    """Return the saved search with the number in the address; names are not used, since they may contain anything."""
    number = int(request.path_params["number"])
    for saved in await rowen.searches.list():
        if saved.id == number:
            return saved
    raise NotFoundError(f"There is no saved search {number}.", hint=Hint(action("saved"), " lists all."))


@takes("searches.save")
async def save(rowen: Rowen, request: Request) -> Goto:
    """Save a search."""
    form = await read_form(request)
    saved = await rowen.searches.save(**form.values("searches.save", "name", "query", "sources"))
    return goto("saved", saved.id)


@takes("searches.remove")
async def forget(rowen: Rowen, request: Request) -> Goto:
    """Remove a saved search."""
    await rowen.searches.remove((await _numbered(rowen, request)).name)
    return goto("saved")
