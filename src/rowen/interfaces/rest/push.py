"""Push: what others tell us, signed; and asking them to."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Request
from starlette.responses import Response

from rowen.errors import ConfigurationError
from rowen.interfaces.rest.access import Service, takes
from rowen.interfaces.rest.answers import listed, made, told
from rowen.interfaces.rest.bodies import PokeBody, SubscribeBody
from rowen.interfaces.rest.examples import Responses, example, list_example
from rowen.interfaces.rest.problems import ELSEWHERE, failing
from rowen.interfaces.rest.shapes import list_shape, shape
from rowen.interfaces.rest.sources import Name
from rowen.model.push import PushVerdict
from rowen.operations.facts import fact

__all__ = ["hooks", "router"]

router = APIRouter(tags=["push"])
# Who calls these has no token: each message is signed.
hooks = APIRouter(prefix="/push", tags=["hooks"])

Secret = Annotated[str, Path(description="the last part of a callback address, which nobody can guess", max_length=200)]
_WORD: dict[str, Any] = {"content": {"text/plain": {"example": "taken"}}}
_HOOK: Responses = {
    **dict.fromkeys((200, 202, 400, 404, 410, 413, 429), _WORD),
    401: {**_WORD, "description": "not signed by who may"},
}


@router.post(
    "/poke",
    status_code=202,
    response_model=list_shape("Poked"),
    responses={202: list_example("Poked")},
    dependencies=takes("push.poke"),
)
async def poke(body: PokeBody, rowen: Service) -> Response:
    """Have sources, or some of their items, looked at before all that is due."""
    poked = await rowen.push.poke(*body.targets)
    return made({"items": [fact(one) for one in poked]}, f"/api/v1/jobs/{poked[0].job}", status=202)


@router.get(
    "/sources/{name}/push",
    response_model=list_shape("PushAccess"),
    responses={200: list_example("PushAccess"), **failing(ConfigurationError)},
    dependencies=takes("push.access"),
)
async def get_push_access(request: Request, name: Name, rowen: Service) -> Response:
    """Where senders of a source call, and what they sign with."""
    answer = listed(request, await rowen.push.access(name))
    answer.headers["Cache-Control"] = "no-store"
    return answer


@router.get("/subscriptions", response_model=list_shape("Subscription"), responses={200: list_example("Subscription")})
async def list_subscriptions(request: Request, rowen: Service) -> Response:
    """All subscriptions to hubs."""
    return listed(request, await rowen.push.list_subscriptions())


@router.put(
    "/sources/{name}/subscription",
    response_model=shape("Subscription"),
    responses={200: example("Subscription"), **ELSEWHERE},
    dependencies=takes("push.subscribe"),
)
async def subscribe(
    request: Request,
    name: Name,
    rowen: Service,
    body: Annotated[SubscribeBody, Body()] = SubscribeBody(),  # noqa: B008 (never changed)
) -> Response:
    """Have a hub tell us of changes of a source."""
    return told(request, await rowen.push.subscribe(name, topic=body.topic))


@router.delete(
    "/sources/{name}/subscription", status_code=204, responses={**ELSEWHERE}, dependencies=takes("push.unsubscribe")
)
async def unsubscribe(name: Name, rowen: Service) -> Response:
    """Have a hub tell us no more."""
    await rowen.push.unsubscribe(name)
    return Response(status_code=204)


@hooks.post("/github", response_class=Response, responses=_HOOK)
async def receive_github(request: Request, rowen: Service) -> Response:
    """A webhook of GitHub, signed by its secret."""
    return _verdict(await rowen.push.receive_github(dict(request.headers), await request.body()))


@hooks.post("/call/{name}", response_class=Response, responses=_HOOK)
async def receive_call(request: Request, name: Name, rowen: Service) -> Response:
    """A call that some URLs of a source changed, signed as Standard Webhooks has it: `{"urls": […]}`."""
    return _verdict(await rowen.push.receive_call(name, dict(request.headers), await request.body()))


@hooks.get("/websub/{secret}", response_class=Response, responses={200: _WORD, 404: _WORD})
async def verify_websub(request: Request, secret: Secret, rowen: Service) -> Response:
    """A hub asks whether we meant our subscription."""
    return _verdict(await rowen.push.verify_websub(secret, dict(request.query_params)))


@hooks.post("/websub/{secret}", response_class=Response, responses=_HOOK)
async def receive_websub(request: Request, secret: Secret, rowen: Service) -> Response:
    """What a hub tells us, signed by the secret of the subscription."""
    return _verdict(await rowen.push.receive_websub(secret, dict(request.headers), await request.body()))


def _verdict(verdict: PushVerdict) -> Response:
    headers = {"Cache-Control": "no-store"}
    if verdict.retry_in_s:
        headers["Retry-After"] = str(round(verdict.retry_in_s))
    # A challenge is somebody else's text: nothing may take it for a page.
    return Response(verdict.body, verdict.status, headers, "text/plain")
