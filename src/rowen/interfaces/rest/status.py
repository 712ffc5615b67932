"""Health, statistics and costs of the whole index, the quarantine, circuits and embedding models."""

from typing import Any

from rowen.interfaces.rest.derived import RouteCall, RouteGroup, fact_of, list_of, page_of, plain
from rowen.interfaces.rest.shapes import EXAMPLES
from rowen.operations.facts import fact
from rowen.version import __version__

router = RouteGroup(tags=["care"])

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


@router.derive("GET /stats", answer=plain(_STATS))
async def get_stats(call: RouteCall) -> dict[str, Any]:
    """Return the most important numbers: sources, items, the queue, and what waits for a person."""
    rowen = call.rowen
    state, health = await rowen.status.get(), await rowen.status.health()
    return {
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


router.offer("list_overviews", "GET /overview", "sources.overview", list_of("Overview"))
router.offer("get_health", "GET /health", "status.health", fact_of("Health"))
router.offer("list_circuits", "GET /circuits", "circuits.list", list_of("CircuitStatus"))
router.offer("reset_circuit", "POST /circuits/{name}/reset", "circuits.reset", list_of("CircuitStatus"))
router.offer("get_costs", "GET /costs", "status.costs", fact_of("Costs"), defaults={"since": "30d"})
router.offer("get_savings", "GET /savings", "status.savings", fact_of("Savings"), defaults={"since": "7d"})
router.offer("list_quarantine", "GET /quarantine", "items.quarantine", page_of("Case"))
router.offer("list_models", "GET /embeddings", "embeddings.list", list_of("ModelStatus"))
