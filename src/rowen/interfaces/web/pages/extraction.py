"""Extractions: facts as a table with the history of each field, and the schemas in use."""

from typing import Any

from starlette.requests import Request

from rowen.errors import RowenError
from rowen.interfaces.web.forms import read_form
from rowen.interfaces.web.view import Goto, View, command, goto, takes, text
from rowen.model.extraction import Extraction
from rowen.operations import Rowen

_ROWS = 25
# The columns that fit a wide screen; the page of an item has all fields.
_COLUMNS = 6


async def extractions(rowen: Rowen, request: Request) -> View:
    """Show the current facts under a schema."""
    attached = await rowen.extraction.list_attached()
    names = list(dict.fromkeys(schema.schema.partition("@")[0] for schema in attached))
    schema = text(request, "schema") or (names[0] if names else None)
    source, where = text(request, "source"), text(request, "where")
    facts: list[Extraction] = []
    problem = following = None
    if schema is not None:
        try:
            page = await rowen.extraction.list(
                schema,
                sources=[source] if source else [],
                where=[where] if where else [],
                limit=_ROWS,
                after=text(request, "after"),
            )
            facts, following = list(page), page.next
        except RowenError as error:
            problem = error
    fields = (name for extraction in facts if isinstance(extraction.data, dict) for name in extraction.data)
    columns = list(dict.fromkeys(fields))[:_COLUMNS]
    urls = [extraction.url for extraction in facts]
    histories = await rowen.extraction.histories(urls, schema) if schema and facts else {}
    context: dict[str, Any] = {
        "carried": attached,
        "schemas": await rowen.schemas.list(),
        "sources": [status.name for status in await rowen.sources.list_status(limit=200)],
        "names": names,
        "schema": schema,
        "source": source,
        "where": where,
        "columns": columns,
        "rows": [(extraction, _cells(extraction, columns, histories.get(extraction.url, []))) for extraction in facts],
        "problem": problem,
        "next": following,
    }
    commands = (command("extract", "--source", source or "NAME", "--schema", schema or "product"), "rowen schema list")
    answer = {"extractions": facts, "carried": attached, "next": following}
    return View("extractions.html", "Extractions", context, answer, commands)


def _cells(facts: Extraction, columns: list[str], history: list[Extraction]) -> list[tuple[Any, list[Any]]]:
    """Return the value of each column, with the earlier values."""
    data = facts.data if isinstance(facts.data, dict) else {}
    past = [version.data for version in history if isinstance(version.data, dict) and version.source == facts.source]
    return [(data.get(name), [earlier.get(name) for earlier in past]) for name in columns]


@takes("extraction.attach", "queue.enqueue")
async def carry(rowen: Rowen, request: Request) -> Goto:
    """Attach a schema to a source, and sync it."""
    form = await read_form(request)
    rules, condition = form.pairs("rules"), form.text("condition")
    attached = await rowen.extraction.attach(
        form.need("source"),
        form.need("schema"),
        rules=rules or None,
        conditions=[condition] if condition else None,
    )
    return goto("jobs", (await rowen.queue.enqueue(attached.source)).id)


@takes("extraction.detach")
async def drop(rowen: Rowen, request: Request) -> Goto:
    """Detach a schema from a source."""
    form = await read_form(request)
    await rowen.extraction.detach(**form.values("extraction.detach", "source", "schema"))
    return goto("extractions")
