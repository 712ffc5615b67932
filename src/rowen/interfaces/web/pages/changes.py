"""Changes: the log as a timeline by day, each filter an address with its feeds beside it."""

from itertools import groupby
from typing import get_args

from starlette.requests import Request

from rowen.errors import NotFoundError
from rowen.interfaces.web.view import View, command, text
from rowen.model.changes import ChangeKind
from rowen.operations import Rowen

__all__ = ["change", "changes"]

_ROWS = 50


async def changes(rowen: Rowen, request: Request) -> View:
    """What changed, newest first."""
    chosen = {name: text(request, name) for name in ("source", "query", "field")}
    asked = set(request.query_params.getlist("kind"))
    kinds = [kind for kind in get_args(ChangeKind) if kind in asked]
    found = await rowen.changes.newest(
        source=chosen["source"],
        query=chosen["query"],
        field=chosen["field"],
        kinds=kinds,
        limit=_ROWS,
        after=text(request, "after"),
    )
    days = [(day, list(those)) for day, those in groupby(found, key=lambda one: one.at.date())]
    context = {
        "days": days,
        "chosen": chosen,
        "kinds": kinds,
        "all_kinds": get_args(ChangeKind),
        "next": found.next,
    }
    narrowed = ("--source", chosen["source"]) if chosen["source"] else ()
    facts = {"changes": found, "next": found.next}
    return View(
        "changes.html", "Changes", context, facts, (command("changes", *narrowed, "--since", "1d"), "rowen feed atom")
    )


async def change(rowen: Rowen, request: Request) -> View:
    """One line of the log; the address that feeds give it."""
    number = int(request.path_params["number"])
    found = await rowen.changes(since=number - 1, limit=1)
    if not found or found[0].number != number:
        raise NotFoundError(f"There is no change {number}.")
    return View("change.html", f"Change {number}", {"change": found[0]}, {"change": found[0]}, ("rowen changes",))
