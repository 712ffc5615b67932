"""Push: signed calls that announce changes, and subscriptions to hubs."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from msgspec import Meta
from starlette.responses import Response

from rowen.errors import ConfigurationError
from rowen.interfaces.rest.answers import listed, made
from rowen.interfaces.rest.derived import RouteBody, RouteCall, RouteGroup, Service, empty, fact_of, list_of
from rowen.interfaces.rest.problems import ELSEWHERE, failing
from rowen.interfaces.rest.shapes import Responses, list_example
from rowen.model.push import PushVerdict
from rowen.operations.facts import fact

router = RouteGroup(tags=["push"])
# Callers of these routes have no token; each message is signed instead.
hooks = APIRouter(prefix="/push", tags=["hooks"])

Name = Annotated[str, Path(description="Name of the source.", examples=["guide"])]
Secret = Annotated[
    str, Path(description="The last part of a callback address, which nobody can guess.", max_length=200)
]
_WORD: dict[str, Any] = {"content": {"text/plain": {"example": "taken"}}}
_HOOK: Responses = {
    **dict.fromkeys((200, 202, 400, 404, 410, 413, 429), _WORD),
    401: {**_WORD, "description": "The signature is missing or wrong."},
}


_Targets = Annotated[Sequence[str], Meta(min_length=1, max_length=1000, description="URLs, or names of sources.")]


@router.derive(
    "POST /poke",
    "push.poke",
    answer=list_of("Poked")._replace(status=202, responses={202: list_example("Poked")}),
    body=RouteBody("PokeBody", {"targets": ["https://docs.example.org/guide/haymaking"]}),
    only=(),
    adds={"targets": (_Targets, ...)},
)
async def poke(call: RouteCall) -> Response:
    """Have sources, or some of their items, checked before everything that is due."""
    poked = await call.rowen.push.poke(*call.added["targets"])
    return made({"items": [fact(one) for one in poked]}, f"/api/v1/jobs/{poked[0].job}", status=202)


@router.derive(
    "GET /sources/{name}/push", "push.access", answer=list_of("PushAccess"), errors=failing(ConfigurationError)
)
async def get_push_access(call: RouteCall) -> Response:
    """Return where senders of a source call, and the keys that they sign with."""
    answer = listed(call.request, await call.rowen.push.access(**call.arguments))
    answer.headers["Cache-Control"] = "no-store"
    return answer


router.offer("list_subscriptions", "GET /subscriptions", "push.list_subscriptions", list_of("Subscription"))
router.offer(
    "subscribe",
    "PUT /sources/{name}/subscription",
    "push.subscribe",
    fact_of("Subscription"),
    body=RouteBody("SubscribeBody"),
    errors=ELSEWHERE,
)
router.offer("unsubscribe", "DELETE /sources/{name}/subscription", "push.unsubscribe", empty(), errors=ELSEWHERE)


@hooks.post("/github", response_class=Response, responses=_HOOK)
async def receive_github(request: Request, rowen: Service) -> Response:
    """Receive a webhook of GitHub, signed with its secret."""
    return _verdict(await rowen.push.receive_github(dict(request.headers), await request.body()))


@hooks.post("/call/{name}", response_class=Response, responses=_HOOK)
async def receive_call(request: Request, name: Name, rowen: Service) -> Response:
    """Receive the changed URLs of a source, signed by Standard Webhooks: `{"urls": […]}`."""
    return _verdict(await rowen.push.receive_call(name, dict(request.headers), await request.body()))


@hooks.get("/websub/{secret}", response_class=Response, responses={200: _WORD, 404: _WORD})
async def verify_websub(request: Request, secret: Secret, rowen: Service) -> Response:
    """Confirm a subscription to a hub that verifies it."""
    return _verdict(await rowen.push.verify_websub(secret, dict(request.query_params)))


@hooks.post("/websub/{secret}", response_class=Response, responses=_HOOK)
async def receive_websub(request: Request, secret: Secret, rowen: Service) -> Response:
    """Receive a message of a hub, signed with the secret of the subscription."""
    return _verdict(await rowen.push.receive_websub(secret, dict(request.headers), await request.body()))


def _verdict(verdict: PushVerdict) -> Response:
    headers = {"Cache-Control": "no-store"}
    if verdict.retry_in_s:
        headers["Retry-After"] = str(round(verdict.retry_in_s))
    # A challenge is foreign text, so browsers must not display it as a page.
    return Response(verdict.body, verdict.status, headers, "text/plain")
