"""Items: as JSON or Markdown, their history, their changes, and similar items."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta
from starlette.responses import Response

from rowen.interfaces.rest.answers import told, validated
from rowen.interfaces.rest.derived import RouteCall, RouteGroup, fact_of, list_of, plain
from rowen.interfaces.rest.shapes import EXAMPLES, example
from rowen.operations.facts import fact, redacted, redacted_at
from rowen.operations.registry import CONTACTS

router = RouteGroup(tags=["items"])

MARKDOWN = "text/markdown; charset=utf-8"

_ENTRY = example("Entry")
_ENTRY["content"]["text/markdown"] = {"example": "# Haymaking\n\nCut it dry."}


@router.derive("GET /items", "items.get", answer=fact_of("Entry")._replace(responses={200: _ENTRY}))
async def get_item(call: RouteCall) -> Response:
    """Return one item, as JSON or, if `Accept` prefers it, its text as Markdown.

    It is also found by its link with an anchor. Callers who may only read get no contact details out of its record.
    """
    entry = await call.rowen.get(**call.arguments)
    if prefers_markdown(call.request.headers.get("accept")):
        return validated(call.request, entry.text.encode("utf-8", "replace"), MARKDOWN)
    facts = fact(entry)
    if not call.caller.scope.allows(CONTACTS):
        facts["record"] = redacted(facts["record"], call.rowen.settings.redacted_keys)
    return told(call.request, facts)


def prefers_markdown(accept: str | None) -> bool:
    """Return whether a client prefers Markdown to JSON."""
    weights = {"text/markdown": 0.0, "application/json": 0.0, "*/*": 0.0}
    for part in (accept or "*/*").split(","):
        name, *parameters = (one.strip().lower() for one in part.split(";"))
        quality = next((parameter.removeprefix("q=") for parameter in parameters if parameter.startswith("q=")), "1")
        if name in weights and quality.replace(".", "", 1).isdigit():
            weights[name] = max(weights[name], float(quality))
    return weights["text/markdown"] > max(weights["application/json"], weights["*/*"])


router.offer("get_detail", "GET /items/detail", "items.detail", fact_of("ItemDetail"))
router.offer("list_revisions", "GET /items/history", "items.history", list_of("Revision"))

_DIFF = example("ItemDiff")
_DIFF["content"]["text/plain"] = {"example": "--- revision 2\n+++ revision 3\n@@ -3 +3 @@\n-Cut it wet.\n+Cut it dry."}
_DIFF["content"]["text/html"] = {"example": "<pre>-Cut it <del>wet</del>.\n+Cut it <ins>dry</ins>.</pre>"}
_Form = Annotated[Literal["json", "unified", "html"], Meta(description="Format of the difference.")]


@router.derive(
    "GET /items/diff",
    "items.compare",
    answer=fact_of("ItemDiff")._replace(responses={200: _DIFF}),
    adds={"form": (_Form, "json")},
)
async def compare_revisions(call: RouteCall) -> Response:
    """Return what changed between two revisions of an item, by default the last two, by line and word or as a diff."""
    form = call.added["form"]
    if form == "json":
        return told(call.request, await call.rowen.items.compare(**call.arguments))
    text = await call.rowen.items.diff(**call.arguments, form=form)
    media_type = "text/html" if form == "html" else "text/plain"
    return validated(call.request, text.encode("utf-8", "replace"), media_type)


@router.derive("GET /items/field-diff", "items.compare_fields", answer=fact_of("FieldDiff"))
async def compare_fields(call: RouteCall) -> dict[str, Any]:
    """Return what last changed in an item's record, or in its extracted facts, field by field."""
    facts = fact(await call.rowen.items.compare_fields(**call.arguments))
    if not call.caller.scope.allows(CONTACTS):
        facts["fields"] = [_hidden(change, call.rowen.settings.redacted_keys) for change in facts["fields"]]
    return facts


def _hidden(change: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Return a change without contact details; if its path names a contact detail, hide its values completely."""
    return {
        part: redacted_at(change["path"], value, keys) if part in ("before", "after") else value
        for part, value in change.items()
    }


_RELATED = {"similar": [EXAMPLES["Hit"]], "twins": [{"url": "https://a.example.org/1", "title": "Hay", "source": "a"}]}


@router.derive("GET /items/related", "items.similar", answer=plain(_RELATED), only=("url", "source", "limit"))
async def list_related(call: RouteCall) -> dict[str, Any]:
    """Return the items that are similar by meaning and words, and the same dataset in other sources."""
    item = {name: value for name, value in call.arguments.items() if name != "limit"}
    similar = await call.rowen.items.similar(**call.arguments)
    group = await call.rowen.items.duplicates(**item)
    twins = [
        {"url": item.url, "title": item.title, "source": item.source, "original": place == 0}
        for place, item in enumerate((group.original, *group.copies) if group else ())
    ]
    return {"similar": [fact(hit) for hit in similar], "twins": twins}
