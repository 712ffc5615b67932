"""What those who look after processes ask: is it alive, can it answer, how is everything."""

import asyncio

from fastapi import APIRouter
from starlette.responses import Response

from rowen.errors import StoreUnavailableError
from rowen.interfaces.rest.access import Service
from rowen.interfaces.rest.encoding import encoded
from rowen.interfaces.rest.metrics import MEDIA_TYPE_METRICS, metrics

__all__ = ["router"]

router = APIRouter(tags=["probes"])

# Probes are asked every few seconds, and give up after one to five.
_READY_S = 2.0


@router.get("/healthz", responses={200: {"content": {"application/json": {"example": {"status": "alive"}}}}})
async def is_alive() -> Response:
    """Whether the process answers; it asks nothing else, so that a database that is down restarts nobody."""
    return Response(encoded({"status": "alive"}), media_type="application/json", headers={"Cache-Control": "no-store"})


@router.get("/readyz", responses={200: {"content": {"application/json": {"example": {"status": "ready"}}}}})
async def is_ready(rowen: Service) -> Response:
    """Whether the database answers."""
    try:
        async with asyncio.timeout(_READY_S):
            await rowen.changes.last_number()
    except TimeoutError:
        raise StoreUnavailableError("The database does not answer in time.") from None
    return Response(encoded({"status": "ready"}), media_type="application/json", headers={"Cache-Control": "no-store"})


@router.get(
    "/metrics", response_class=Response, responses={200: {"content": {"text/plain": {"example": "rowen_workers 1\n"}}}}
)
async def get_metrics(rowen: Service) -> Response:
    """Numbers for Prometheus."""
    text = metrics(
        await rowen.status.health(),
        await rowen.sources.overview(),
        last_change=await rowen.changes.last_number(),
        costs=await rowen.status.costs(),
        circuits=await rowen.circuits.list(),
    )
    return Response(text, media_type=MEDIA_TYPE_METRICS, headers={"Cache-Control": "no-store"})
