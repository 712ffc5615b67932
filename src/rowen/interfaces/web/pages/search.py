"""Search: what answers, with the words marked, and ways to narrow it."""

from collections import Counter
from typing import Any

from starlette.requests import Request

from rowen.errors import NotFoundError, UsageError
from rowen.interfaces.web.view import View, command, text
from rowen.model.passages import marked, pattern, snippet
from rowen.model.search import Answer, Hit, Query
from rowen.operations import Rowen

__all__ = ["search"]

# Two screens: more are rarely looked at, and each costs a kilobyte.
_HITS = 20
_SNIPPET_LINES, _SNIPPET_WIDTH = 3, 110
# Characters of a query that are shown in a title.
_TITLE_CHARS = 60
# Beside an empty field; the page of saved searches has all.
_SAVED = 10
_FACETS = ("source", "kind", "record_kind", "language")
# Each filter has a link that names all others: 100 of them take 10 ms to be drawn, 3,000 took 5 s.
_MOST_FILTERS = 100


async def search(rowen: Rowen, request: Request) -> View:
    """What answers a question."""
    words = text(request, "q") or ""
    chosen = _chosen(request)
    answer, problem = Answer(), None
    try:
        answer = await rowen.search(
            words,
            limit=_HITS,
            after=text(request, "after"),
            sources=chosen["source"] or None,
            kinds=chosen["kind"],
            languages=chosen["language"],
            record_kinds=chosen["record_kind"],
            tags=chosen["tag"],
        )
    except (NotFoundError, UsageError) as found:
        problem = found
    wanted = pattern(Query.parse(words).replacing(answer.corrections))
    context: dict[str, Any] = {
        "words": words,
        "answer": answer,
        "hits": [(hit, _lines(hit, wanted)) for hit in answer],
        "marks": lambda line: marked(line, wanted),
        "facets": _facets(answer, chosen),
        "chosen": chosen,
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
    return View("search.html", title, context, facts, (command("search", words or "words"),))


def _chosen(request: Request) -> dict[str, list[str]]:
    """Return the values of each filter, each value once."""
    chosen = {
        name: list(dict.fromkeys(one for one in request.query_params.getlist(name) if one))
        for name in (*_FACETS, "tag")
    }
    if sum(map(len, chosen.values())) > _MOST_FILTERS:
        raise UsageError(f"A search on this page takes at most {_MOST_FILTERS} filters. Nothing was searched.")
    return chosen


def _lines(hit: Hit, wanted: Any) -> list[list[tuple[str, bool]]]:
    shown = snippet(hit.text, wanted, lines=_SNIPPET_LINES, width=_SNIPPET_WIDTH)
    return [marked(line, wanted) for line in shown]


def _facets(answer: Answer, chosen: dict[str, list[str]]) -> list[tuple[str, list[tuple[str, int]]]]:
    """What the hits can be narrowed by, counted among them; what all have tells nothing, and is left out."""
    found = []
    for name in _FACETS:
        counts = Counter(str(getattr(hit, name)) for hit in answer if getattr(hit, name))
        if len(counts) > 1 and not chosen[name]:
            found.append((name, counts.most_common()))
    return found
