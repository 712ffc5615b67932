"""Facts: reading them from one page, those in force, their history."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from rowen.errors import BudgetExceededError, ExtractionError, FetchTimeoutError, ProviderError
from rowen.interfaces.rest.access import Asking, Service, takes
from rowen.interfaces.rest.answers import DEFAULT_LIMIT, After, Limit, listed, page, told
from rowen.interfaces.rest.bodies import ExtractBody
from rowen.interfaces.rest.examples import example, list_example, page_example
from rowen.interfaces.rest.items import Link, WhichSource
from rowen.interfaces.rest.problems import failing
from rowen.interfaces.rest.shapes import list_shape, page_shape, shape

__all__ = ["router"]

router = APIRouter(tags=["extractions"])

SchemaName = Annotated[str, Query(alias="schema", description="the name of a schema", examples=["product"])]


@router.get("/extractions", response_model=page_shape("Extraction"), responses={200: page_example("Extraction")})
async def list_extractions(
    request: Request,
    rowen: Service,
    schema: Annotated[str | None, Query(description="only as this schema")] = None,
    source: Annotated[tuple[str, ...], Query(description="only of these sources")] = (),
    where: Annotated[tuple[str, ...], Query(description="only facts that satisfy this: `price<100`")] = (),
    limit: Limit = DEFAULT_LIMIT,
    after: After = None,
) -> Response:
    """The facts in force, by schema, source and address."""
    found = await rowen.extraction.list(schema, sources=source, where=where, limit=limit, after=after)
    return page(request, found)


@router.get(
    "/extractions/history", response_model=list_shape("Extraction"), responses={200: list_example("Extraction")}
)
async def list_versions(
    request: Request, url: Link, schema: SchemaName, rowen: Service, source: WhichSource = None
) -> Response:
    """All versions of an item's facts, oldest first, each with the fields that differ from the one before."""
    return listed(request, await rowen.extraction.history(url, schema, source=source))


_DRY = {"url": "https://shop.example.org/rake", "schema": "product@1", "tokens": 2100, "usd": 0.001, "dry_run": True}
_EXTRACTED = example("Extracted")
_EXTRACTED["content"]["application/json"] = {
    "examples": {
        "facts": {"value": _EXTRACTED["content"]["application/json"]["example"]},
        "dry_run": {"value": _DRY},
    }
}


@router.post(
    "/extractions",
    response_model=shape("Extracted") | dict[str, Any],
    responses={200: _EXTRACTED, **failing(ProviderError, BudgetExceededError, ExtractionError, FetchTimeoutError)},
    dependencies=takes("extraction.extract", "extraction.estimate"),
)
async def extract_page(request: Request, body: ExtractBody, rowen: Service, asking: Asking) -> Response:
    """Read facts from one page, now. What was answered before costs nothing; a dry run tells what it would cost."""
    how = body.model_dump(exclude={"url", "wanted", "dry_run", "budget_usd", "budget_tokens"}, exclude_unset=True)
    if body.dry_run:
        tokens, usd = await rowen.extraction.estimate(body.url, body.wanted, reach=asking.reach, **how)
        named = body.wanted if isinstance(body.wanted, str) else None
        return told(request, {"url": body.url, "schema": named, "tokens": tokens, "usd": usd, "dry_run": True})
    budget: dict[str, Any] = {"budget_usd": body.budget_usd, "budget_tokens": body.budget_tokens}
    return told(request, await rowen.extract(body.url, body.wanted, reach=asking.reach, **budget, **how))
