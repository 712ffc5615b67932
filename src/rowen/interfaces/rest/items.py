"""Items: as JSON or Markdown, their history, what changed in them, what is like them."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from rowen.interfaces.rest.access import Asking, Service
from rowen.interfaces.rest.answers import Limit, told, validated
from rowen.interfaces.rest.examples import EXAMPLES, example, list_example
from rowen.interfaces.rest.shapes import list_shape, shape
from rowen.model.access import Principal
from rowen.model.items import Entry
from rowen.operations import Rowen
from rowen.operations.facts import fact
from rowen.operations.redaction import redacted, redacted_at
from rowen.operations.registry import CONTACTS

__all__ = ["Link", "WhichSource", "router"]

router = APIRouter(tags=["items"])

MARKDOWN = "text/markdown; charset=utf-8"
Link = Annotated[str, Query(alias="url", min_length=1, max_length=4000, description="the address of an item")]
WhichSource = Annotated[str | None, Query(description="its source, where several hold it")]
Number = Annotated[int | None, Query(ge=0, le=2**31 - 1, description="the number of a revision")]

_ENTRY = example("Entry")
_ENTRY["content"]["text/markdown"] = {"example": "# Haymaking\n\nCut it dry."}


@router.get("/items", response_model=shape("Entry"), responses={200: _ENTRY})
async def get_item(request: Request, url: Link, rowen: Service, asking: Asking, source: WhichSource = None) -> Response:
    """One item, as JSON or, if `Accept` prefers it, its text as Markdown.

    It is also found by its link with an anchor. Who may only read gets no contact details out of its record.
    """
    entry = await rowen.get(url, source=source)
    if prefers_markdown(request.headers.get("accept")):
        return validated(request, entry.text.encode("utf-8", "replace"), MARKDOWN)
    return told(request, item_facts(entry, asking, rowen))


def item_facts(entry: Entry, asking: Principal, rowen: Rowen) -> dict[str, Any]:
    """An item as somebody may see it."""
    facts = fact(entry)
    if not asking.scope.allows(CONTACTS):
        facts["record"] = redacted(facts["record"], rowen.settings.redacted_keys)
    return facts


def prefers_markdown(accept: str | None) -> bool:
    """Whether a client would rather have Markdown than JSON."""
    weights = {"text/markdown": 0.0, "application/json": 0.0, "*/*": 0.0}
    for part in (accept or "*/*").split(","):
        name, *parameters = (one.strip().lower() for one in part.split(";"))
        quality = next((one.removeprefix("q=") for one in parameters if one.startswith("q=")), "1")
        if name in weights and quality.replace(".", "", 1).isdigit():
            weights[name] = max(weights[name], float(quality))
    return weights["text/markdown"] > max(weights["application/json"], weights["*/*"])


@router.get("/items/detail", response_model=shape("ItemDetail"), responses={200: example("ItemDetail")})
async def get_detail(request: Request, url: Link, rowen: Service, source: WhichSource = None) -> Response:
    """What is kept beside an item's text: what its origin knows it by, and the passages that it was cut into."""
    return told(request, await rowen.items.detail(url, source=source))


@router.get("/items/history", response_model=list_shape("Revision"), responses={200: list_example("Revision")})
async def list_revisions(request: Request, url: Link, rowen: Service, source: WhichSource = None) -> Response:
    """All texts that an item had, oldest first."""
    return told(request, {"items": [fact(one) for one in await rowen.items.history(url, source=source)]})


_DIFF = example("ItemDiff")
_DIFF["content"]["text/plain"] = {"example": "--- revision 2\n+++ revision 3\n@@ -3 +3 @@\n-Cut it wet.\n+Cut it dry."}
_DIFF["content"]["text/html"] = {"example": "<pre>-Cut it <del>wet</del>.\n+Cut it <ins>dry</ins>.</pre>"}


@router.get("/items/diff", response_model=shape("ItemDiff"), responses={200: _DIFF})
async def compare_revisions(
    request: Request,
    url: Link,
    rowen: Service,
    source: WhichSource = None,
    older: Number = None,
    newer: Number = None,
    form: Annotated[Literal["json", "unified", "html"], Query(description="how it is told")] = "json",
) -> Response:
    """What changed between two texts of an item, by default the last two: by line and word, or as a unified diff."""
    asked: dict[str, Any] = {"source": source, "older": older, "newer": newer}
    if form == "json":
        return told(request, await rowen.items.compare(url, **asked))
    text = await rowen.items.diff(url, **asked, form=form)
    return validated(request, text.encode("utf-8", "replace"), "text/html" if form == "html" else "text/plain")


@router.get("/items/field-diff", response_model=shape("FieldDiff"), responses={200: example("FieldDiff")})
async def compare_fields(
    request: Request,
    url: Link,
    rowen: Service,
    asking: Asking,
    source: WhichSource = None,
    schema: Annotated[str | None, Query(description="of its facts under this schema instead of its record")] = None,
) -> Response:
    """What last changed in an item's record, or in its facts, field by field."""
    facts = fact(await rowen.items.compare_fields(url, source=source, schema=schema))
    if not asking.scope.allows(CONTACTS):
        facts["fields"] = [_hidden(one, rowen.settings.redacted_keys) for one in facts["fields"]]
    return told(request, facts)


def _hidden(change: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """A change without contact details: those below a field, and all of it where a part of its path names some."""

    def shown(part: str, value: Any) -> Any:
        return redacted_at(change["path"], value, keys) if part in ("before", "after") else value

    return {part: shown(part, value) for part, value in change.items()}


_RELATED = {"similar": [EXAMPLES["Hit"]], "twins": [{"url": "https://a.example.org/1", "title": "Hay", "source": "a"}]}


@router.get("/items/related", responses={200: {"content": {"application/json": {"example": _RELATED}}}})
async def list_related(
    request: Request, url: Link, rowen: Service, source: WhichSource = None, limit: Limit = 10
) -> Response:
    """What is like an item by meaning and words, and the same dataset in other sources."""
    similar = await rowen.items.similar(url, source=source, limit=limit)
    group = await rowen.items.duplicates(url, source=source)
    twins = [
        {"url": one.url, "title": one.title, "source": one.source, "original": place == 0}
        for place, one in enumerate((group.original, *group.copies) if group else ())
    ]
    return told(request, {"similar": [fact(hit) for hit in similar], "twins": twins})
