"""Extractions: facts as a table, each field with its history; and which sources carry which schemas."""

from typing import Any

from starlette.requests import Request

from rowen.errors import RowenError
from rowen.interfaces.web.forms import read_form
from rowen.interfaces.web.view import Goto, View, command, goto, takes, text
from rowen.model.extraction import Extraction
from rowen.operations import Rowen

__all__ = ["carry", "drop", "extractions"]

_ROWS = 25
# Columns that a table of facts has at most on a wide screen; the item's page has all.
_COLUMNS = 6


async def extractions(rowen: Rowen, request: Request) -> View:
    """The facts in force under a schema."""
    carried = await rowen.extraction.list_attached()
    names = list(dict.fromkeys(one.schema.partition("@")[0] for one in carried))
    schema = text(request, "schema") or (names[0] if names else None)
    source, where = text(request, "source"), text(request, "where")
    found, problem = [], None
    after = None
    if schema is not None:
        try:
            page = await rowen.extraction.list(
                schema,
                sources=[source] if source else [],
                where=[where] if where else [],
                limit=_ROWS,
                after=text(request, "after"),
            )
            found, after = list(page), page.next
        except RowenError as wrong:
            problem = wrong
    columns = _columns(found)
    histories = await rowen.extraction.histories([one.url for one in found], schema) if schema and found else {}
    context: dict[str, Any] = {
        "carried": carried,
        "schemas": await rowen.schemas.list(),
        "sources": [one.name for one in await rowen.sources.list_status(limit=200)],
        "names": names,
        "schema": schema,
        "source": source,
        "where": where,
        "columns": columns,
        "rows": [(one, _cells(one, columns, histories.get(one.url, []))) for one in found],
        "problem": problem,
        "next": after,
    }
    facts = {"extractions": found, "carried": carried, "next": after}
    commands = (command("extract", "--source", source or "NAME", "--schema", schema or "product"), "rowen schema list")
    return View("extractions.html", "Extractions", context, facts, commands)


def _columns(found: list[Extraction]) -> list[str]:
    """The fields that the facts have, in their order; the first ones."""
    names = [name for one in found if isinstance(one.data, dict) for name in one.data]
    return list(dict.fromkeys(names))[:_COLUMNS]


def _cells(one: Extraction, columns: list[str], history: list[Extraction]) -> list[tuple[Any, list[Any]]]:
    """The values of the columns, each with what it was before."""
    data = one.data if isinstance(one.data, dict) else {}
    past = [version.data for version in history if isinstance(version.data, dict) and version.source == one.source]
    return [(data.get(name), [earlier.get(name) for earlier in past]) for name in columns]


@takes("extraction.attach", "queue.enqueue")
async def carry(rowen: Rowen, request: Request) -> Goto:
    """Let a source carry a schema from now on."""
    form = await read_form(request)
    rules, condition = form.pairs("rules"), form.text("condition")
    carried = await rowen.extraction.attach(
        form.need("source"),
        form.need("schema"),
        rules=rules or None,
        conditions=[condition] if condition else None,
    )
    job = await rowen.queue.enqueue(carried.source)
    return goto("jobs", job.id)


@takes("extraction.detach")
async def drop(rowen: Rowen, request: Request) -> Goto:
    """Let a source carry a schema no longer."""
    form = await read_form(request)
    await rowen.extraction.detach(form.need("source"), form.need("schema"))
    return goto("extractions")
