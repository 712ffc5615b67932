"""Tokens, who is asking, and the log of what was written."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from rowen.interfaces.rest.access import Asking, Service, takes
from rowen.interfaces.rest.answers import DEFAULT_LIMIT, After, Limit, listed, made, page, told
from rowen.interfaces.rest.bodies import TokenBody
from rowen.interfaces.rest.examples import Responses, example, list_example, page_example
from rowen.interfaces.rest.shapes import list_shape, page_shape, shape

__all__ = ["router"]

router = APIRouter(tags=["access"])

TokenName = Annotated[str, Path(description="the name of a token", examples=["dashboard"])]
_ME: Responses = {200: {"content": {"application/json": {"example": {"name": "dashboard", "scope": "read"}}}}}


@router.get("/me", responses=_ME)
async def get_me(request: Request, asking: Asking) -> Response:
    """Who is asking, and what they may do."""
    return told(request, {"name": asking.name, "scope": asking.scope})


@router.get(
    "/tokens",
    response_model=list_shape("AccessToken"),
    responses={200: list_example("AccessToken")},
    dependencies=takes("access.list_tokens"),
)
async def list_tokens(request: Request, rowen: Service) -> Response:
    """All tokens, never themselves."""
    return listed(request, await rowen.access.list_tokens())


@router.post(
    "/tokens",
    status_code=201,
    response_model=shape("NewToken"),
    responses={201: example("NewToken")},
    dependencies=takes("access.add_token"),
)
async def add_token(body: TokenBody, rowen: Service) -> Response:
    """Make a token; its secret is told this once, and stored nowhere."""
    new = await rowen.access.add_token(body.name, scope=body.scope, days=body.days)
    return made(new, "/api/v1/tokens")


@router.delete("/tokens/{name}", status_code=204, dependencies=takes("access.revoke_token"))
async def revoke_token(name: TokenName, rowen: Service) -> Response:
    """Take a token back, with all sessions that were made from it."""
    await rowen.access.revoke_token(name)
    return Response(status_code=204)


@router.get(
    "/audit",
    response_model=page_shape("AuditLine"),
    responses={200: page_example("AuditLine")},
    dependencies=takes("access.audit_log"),
)
async def list_audit(
    request: Request,
    rowen: Service,
    principal: Annotated[str | None, Query(description="only what this one did")] = None,
    limit: Limit = DEFAULT_LIMIT,
    after: After = None,
) -> Response:
    """What was written through the server, newest first."""
    return page(request, await rowen.access.audit_log(principal=principal, limit=limit, after=after))
