"""Who is told when something changes: webhooks, people, and what became of the calls.

Their secrets are named by where they are found on the server, so that only an administrator adds one.
"""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from rowen.errors import NotFoundError
from rowen.interfaces.rest.access import Service, takes
from rowen.interfaces.rest.answers import Limit, listed, made, told
from rowen.interfaces.rest.bodies import NoticeBody, RotateBody, WebhookBody
from rowen.interfaces.rest.examples import Responses, example, list_example
from rowen.interfaces.rest.shapes import list_shape, shape
from rowen.model.webhooks import Webhook
from rowen.operations import Rowen

__all__ = ["router"]

router = APIRouter(tags=["webhooks"])

Receiver = Annotated[str, Path(description="the name of a receiver", examples=["builds"])]
From = Annotated[int | None, Query(ge=0, le=2**62, description="send what followed this number once more")]
_WEBHOOK = shape("Webhook")


@router.get("/webhooks", response_model=list_shape("Webhook"), responses={200: list_example("Webhook")})
async def list_webhooks(request: Request, rowen: Service) -> Response:
    """All programs that are called, by name."""
    return listed(request, await rowen.webhooks.list())


@router.post(
    "/webhooks",
    status_code=201,
    response_model=_WEBHOOK,
    responses={201: example("Webhook")},
    dependencies=takes("webhooks.add"),
)
async def add_webhook(body: WebhookBody, rowen: Service) -> Response:
    """Call an address whenever something changes; messages are signed as Standard Webhooks has it."""
    added = await rowen.webhooks.add(**body.model_dump())
    return made(added, f"/api/v1/webhooks/{quote(added.name, safe='')}")


@router.get("/notices", response_model=list_shape("Webhook"), responses={200: list_example("Webhook")})
async def list_notices(request: Request, rowen: Service) -> Response:
    """All people that are told, by name."""
    return listed(request, await rowen.webhooks.list_notices())


@router.post(
    "/notices",
    status_code=201,
    response_model=_WEBHOOK,
    responses={201: example("Webhook")},
    dependencies=takes("webhooks.add_notice"),
)
async def add_notice(body: NoticeBody, rowen: Service) -> Response:
    """Tell people whenever something changes, by mail or chat."""
    added = await rowen.webhooks.add_notice(**body.model_dump())
    return made(added, f"/api/v1/webhooks/{quote(added.name, safe='')}")


@router.get("/webhooks/{name}", response_model=_WEBHOOK, responses={200: example("Webhook")})
async def get_webhook(request: Request, name: Receiver, rowen: Service) -> Response:
    """One receiver, a program or people."""
    return told(request, await _found(rowen, name))


@router.delete("/webhooks/{name}", status_code=204, dependencies=takes("webhooks.remove"))
async def remove_webhook(name: Receiver, rowen: Service) -> Response:
    """Call it no more, and forget what became of its calls."""
    await rowen.webhooks.remove(name)
    return Response(status_code=204)


@router.post(
    "/webhooks/{name}/pause",
    response_model=_WEBHOOK,
    responses={200: example("Webhook")},
    dependencies=takes("webhooks.pause"),
)
async def pause_webhook(request: Request, name: Receiver, rowen: Service) -> Response:
    """Call it no more until it is resumed; nothing is lost."""
    return told(request, await rowen.webhooks.pause(name))


@router.post(
    "/webhooks/{name}/resume",
    response_model=_WEBHOOK,
    responses={200: example("Webhook")},
    dependencies=takes("webhooks.resume"),
)
async def resume_webhook(request: Request, name: Receiver, rowen: Service, since: From = None) -> Response:
    """Call it again, also one that was disabled; or replay what followed a number."""
    return told(request, await rowen.webhooks.resume(name, since=since))


@router.post(
    "/webhooks/{name}/rotate",
    response_model=_WEBHOOK,
    responses={200: example("Webhook")},
    dependencies=takes("webhooks.rotate"),
)
async def rotate_webhook(request: Request, name: Receiver, body: RotateBody, rowen: Service) -> Response:
    """Sign with another secret."""
    return told(request, await rowen.webhooks.rotate(name, secret=body.secret, keep=body.keep))


_DELIVERED: Responses = {200: {"content": {"application/json": {"example": {"webhook": "builds", "delivered": 3}}}}}


@router.post("/webhooks/{name}/deliver", responses=_DELIVERED, dependencies=takes("webhooks.deliver"))
async def deliver_webhook(request: Request, name: Receiver, rowen: Service) -> Response:
    """Call a receiver now; the answer counts the changes that it acknowledged."""
    return told(request, {"webhook": name, "delivered": await rowen.webhooks.deliver(name)})


@router.get(
    "/webhooks/{name}/deliveries", response_model=list_shape("Delivery"), responses={200: list_example("Delivery")}
)
async def list_deliveries(request: Request, name: Receiver, rowen: Service, limit: Limit = 20) -> Response:
    """What became of the last calls, newest first."""
    return listed(request, await rowen.webhooks.deliveries(name, limit=limit))


async def _found(rowen: Rowen, name: str) -> Webhook:
    held = [*await rowen.webhooks.list(), *await rowen.webhooks.list_notices()]
    found = next((one for one in held if one.name == name), None)
    if found is None:
        raise NotFoundError(f"There is no receiver {name!r}.")
    return found
