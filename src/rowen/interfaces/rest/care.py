"""How everything is doing: numbers, costs, what could not be read, models."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from rowen.interfaces.rest.access import Service, takes
from rowen.interfaces.rest.answers import DEFAULT_LIMIT, After, Limit, listed, page, told
from rowen.interfaces.rest.examples import EXAMPLES, example, list_example, page_example
from rowen.interfaces.rest.runs import Of
from rowen.interfaces.rest.shapes import list_shape, page_shape, shape
from rowen.interfaces.rest.times import moment_of
from rowen.operations.facts import fact
from rowen.version import __version__

__all__ = ["router"]

router = APIRouter(tags=["care"])

CircuitName = Annotated[str, Path(description="the host, with its port", examples=["portal.example.org"])]
_STATS: dict[str, Any] = {
    "version": __version__,
    "sources": 3,
    "items": 4210,
    "last_change": 4711,
    "by_kind": {"web": 2, "ckan": 1},
    "queue": EXAMPLES["QueueDepth"],
    "embeddings_pending": 0,
    "quarantined": 1,
    "deletions_held": 0,
}


@router.get("/stats", responses={200: {"content": {"application/json": {"example": _STATS}}}})
async def get_stats(request: Request, rowen: Service) -> Response:
    """What there is, in a few numbers."""
    state, health = await rowen.status.get(), await rowen.status.health()
    facts = {
        "version": __version__,
        "sources": state.sources,
        "items": state.items,
        "last_change": await rowen.changes.last_number(),
        "by_kind": await rowen.sources.count_by_kind(),
        "queue": fact(health.queue),
        "embeddings_pending": health.embeddings_pending,
        "quarantined": health.quarantined,
        "deletions_held": health.deletions_held,
    }
    return told(request, facts)


@router.get("/overview", response_model=list_shape("Overview"), responses={200: list_example("Overview")})
async def list_overviews(request: Request, rowen: Service) -> Response:
    """How all sources are doing: items, last run, trouble, share of stale items and of passages with vectors."""
    return listed(request, await rowen.sources.overview())


@router.get("/health", response_model=shape("Health"), responses={200: example("Health")})
async def get_health(request: Request, rowen: Service) -> Response:
    """How everything is doing: the queue, who works, what fails, what waits."""
    return told(request, await rowen.status.health())


@router.get("/circuits", response_model=list_shape("CircuitStatus"), responses={200: list_example("CircuitStatus")})
async def list_circuits(request: Request, rowen: Service) -> Response:
    """The circuits of embedder, language model and hosts, in all processes."""
    return listed(request, await rowen.circuits.list())


@router.post(
    "/circuits/{name}/reset",
    response_model=list_shape("CircuitStatus"),
    responses={200: list_example("CircuitStatus")},
    dependencies=takes("circuits.reset"),
)
async def reset_circuit(request: Request, name: CircuitName, rowen: Service) -> Response:
    """Close a circuit in every process, so that its service is called again; returns those that were not closed."""
    return listed(request, await rowen.circuits.reset(name))


@router.get("/costs", response_model=shape("Costs"), responses={200: example("Costs")})
async def get_costs(
    request: Request,
    rowen: Service,
    since: Annotated[str, Query(description="since a date, or in the last `2h`, `1d`, `4w`")] = "30d",
) -> Response:
    """What paid calls cost, by source, purpose and schema, with what was avoided beside."""
    moment = moment_of(since)
    return told(request, await rowen.status.costs(moment) if moment else await rowen.status.costs())


@router.get("/savings", response_model=shape("Savings"), responses={200: example("Savings")})
async def get_savings(
    request: Request,
    rowen: Service,
    since: Annotated[str, Query(description="since a date, or in the last `2h`, `1d`, `4w`")] = "7d",
) -> Response:
    """What runs found, rung by rung, what they spent, and what was not needed."""
    moment = moment_of(since)
    return told(request, await rowen.status.savings(moment) if moment else await rowen.status.savings())


@router.get("/quarantine", response_model=page_shape("Case"), responses={200: page_example("Case")})
async def list_quarantine(
    request: Request, rowen: Service, source: Of = None, limit: Limit = DEFAULT_LIMIT, after: After = None
) -> Response:
    """What could not be read, and why, newest trouble first."""
    return page(request, await rowen.items.quarantine(source, limit=limit, after=after))


@router.get("/embeddings", response_model=list_shape("ModelStatus"), responses={200: list_example("ModelStatus")})
async def list_models(request: Request, rowen: Service) -> Response:
    """The models that make vectors, and how far they are."""
    return listed(request, await rowen.embeddings.list())
