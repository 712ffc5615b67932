"""Extracted facts, the schemas that sources carry, and extractions from pages and sources."""

from typing import Any

from starlette.responses import Response

from rowen.errors import BudgetExceededError, ExtractionError, FetchTimeoutError, ProviderError
from rowen.interfaces.rest.answers import listed
from rowen.interfaces.rest.derived import RouteBody, RouteCall, RouteGroup, created, empty, fact_of, list_of, page_of
from rowen.interfaces.rest.problems import failing
from rowen.interfaces.rest.shapes import EXAMPLES, list_example, list_shape, shape
from rowen.model.queue import Job
from rowen.operations.parameters import DryRun

router = RouteGroup(tags=["extractions"])
carried = RouteGroup(tags=["schemas"])

router.offer("list_extractions", "GET /extractions", "extraction.list", page_of("Extraction"))
router.offer("list_versions", "GET /extractions/history", "extraction.history", list_of("Extraction"))

_DRY = {"url": "https://shop.example.org/rake", "schema": "product@1", "tokens": 2100, "usd": 0.001, "dry_run": True}
_FACTS = {
    "facts": {"value": EXAMPLES["Extracted"]},
    "dry_run": {"value": _DRY},
}
_EXTRACTED = fact_of("Extracted")._replace(
    responses={200: {"content": {"application/json": {"examples": _FACTS}}}}, model=shape("Extracted") | dict[str, Any]
)


@router.derive(
    "POST /extractions",
    "extraction.extract",
    "extraction.estimate",
    answer=_EXTRACTED,
    body=RouteBody("ExtractBody", {"url": "https://shop.example.org/rake", "schema": "product@1"}),
    names={"address": "url"},
    adds={"dry_run": (DryRun, False)},
    errors=failing(ProviderError, BudgetExceededError, ExtractionError, FetchTimeoutError),
)
async def extract_page(call: RouteCall) -> Any:
    """Extract facts from one page, now. A cached answer costs nothing; a dry run returns the expected cost."""
    if not call.added["dry_run"]:
        return await call.rowen.extract(**call.arguments)
    how = {name: value for name, value in call.arguments.items() if name not in ("budget_usd", "budget_tokens")}
    tokens, usd = await call.rowen.extraction.estimate(**how)
    schema = how["schema"] if isinstance(how["schema"], str) else None
    return {"url": how["address"], "schema": schema, "tokens": tokens, "usd": usd, "dry_run": True}


carried.offer("list_carried_schemas", "GET /carried-schemas", "extraction.list_attached", list_of("SourceSchema"))
carried.offer(
    "carry_schema",
    "PUT /sources/{name}/schemas/{ref}",
    "extraction.attach",
    fact_of("SourceSchema"),
    body=RouteBody("CarryBody"),
)
carried.offer("drop_schema", "DELETE /sources/{name}/schemas/{ref}", "extraction.detach", empty())

_JOB = created("Job", lambda job: f"/api/v1/jobs/{job.id}", status=202)


@carried.derive(
    "POST /sources/{name}/extract",
    "extraction.extract_source",
    "queue.enqueue_extraction",
    answer=_JOB,
    body=RouteBody("ExtractSourceBody", {"schema": "product@1", "all": True, "budget_usd": 2.0}),
    errors={200: {"model": list_shape("ExtractionReport"), **list_example("ExtractionReport")}},
)
async def extract_source(call: RouteCall) -> Job | Response:
    """Have the changes of a source extracted, or all its items again, under all schemas that it carries or one of them.

    The answer is the job; that of a dry run, with status 200, lists the expected cost under each schema.
    """
    # The job stores its parameters, without those that equal the default.
    order = {name: value for name, value in call.arguments.items() if value is not None and value is not False}
    if order.pop("dry_run", False):
        return listed(call.request, await call.rowen.extraction.extract_source(**order, dry_run=True))
    return await call.rowen.queue.enqueue_extraction(**order)
