"""Changes: the log as a timeline by day; each filter has an address with its own feeds."""

from itertools import groupby
from typing import get_args

from starlette.requests import Request

from rowen.errors import NotFoundError
from rowen.interfaces.web.view import View, command, text
from rowen.model.changes import ChangeKind
from rowen.operations import Rowen

_ROWS = 50


async def changes(rowen: Rowen, request: Request) -> View:
    """Show changes, newest first."""
    chosen = {name: text(request, name) for name in ("source", "query", "field")}
    wanted = set(request.query_params.getlist("kind"))
    kinds = [kind for kind in get_args(ChangeKind) if kind in wanted]
    page = await rowen.changes.newest(
        source=chosen["source"],
        query=chosen["query"],
        field=chosen["field"],
        kinds=kinds,
        limit=_ROWS,
        after=text(request, "after"),
    )
    days = [(day, list(lines)) for day, lines in groupby(page, key=lambda change: change.at.date())]
    context = {"days": days, "chosen": chosen, "kinds": kinds, "all_kinds": get_args(ChangeKind), "next": page.next}
    filters = ("--source", chosen["source"]) if chosen["source"] else ()
    commands = (command("changes", *filters, "--since", "1d"), "rowen feed atom")
    return View("changes.html", "Changes", context, {"changes": page, "next": page.next}, commands)


async def change(rowen: Rowen, request: Request) -> View:
    """Show one change; feeds link to this address."""
    number = int(request.path_params["number"])
    changes = await rowen.changes(since=number - 1, limit=1)
    if not changes or changes[0].number != number:
        raise NotFoundError(f"There is no change {number}.")
    facts = {"change": changes[0]}
    return View("change.html", f"Change {number}", facts, facts, ("rowen changes",))
