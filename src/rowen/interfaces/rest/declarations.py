"""Declaring all sources at once, as `rowen apply` does with a file; and looking at an address before it is one."""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.responses import Response

from rowen.errors import UsageError
from rowen.interfaces.rest.access import Asking, Service, takes
from rowen.interfaces.rest.answers import listed, told
from rowen.interfaces.rest.bodies import DeclarationBody, PreviewBody
from rowen.interfaces.rest.examples import example, list_example
from rowen.interfaces.rest.problems import ELSEWHERE
from rowen.interfaces.rest.shapes import list_shape, shape

__all__ = ["router"]

router = APIRouter(tags=["sources"])

TOML = "application/toml"
_FILE = '[[source]]\nname = "guide"\nkind = "web"\nurl = "https://docs.example.org/guide/"\nevery = "6h"\n'
# Which of the two it is, is told by `Content-Type`, which the framework does not choose by.
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": DeclarationBody.model_json_schema()},
            TOML: {"schema": {"type": "string"}, "example": _FILE},
        },
    }
}


@router.post(
    "/apply",
    response_model=list_shape("AppliedSource"),
    responses={200: list_example("AppliedSource"), **ELSEWHERE},
    openapi_extra=_BODY,
    dependencies=takes("sources.declare"),
)
async def apply_declaration(
    request: Request,
    rowen: Service,
    asking: Asking,
    dry_run: Annotated[bool, Query(description="tell what would change, and write nothing")] = False,
    prune: Annotated[bool, Query(description="remove the sources that are not named, with all their items")] = False,
) -> Response:
    """Make the sources be what is declared, all or nothing: as JSON, or as the TOML of a file for `rowen apply`."""
    declaration = _declaration(request.headers.get("content-type", ""), await request.body())
    applied = await rowen.sources.declare(declaration, dry_run=dry_run, prune=prune, reach=asking.reach)
    return listed(request, applied)


def _declaration(content_type: str, body: bytes) -> str | dict[str, Any]:
    """The text of a file, or what one holds."""
    try:
        text = body.decode("utf-8")
        if content_type.partition(";")[0].strip().lower() == TOML:
            return text
        return DeclarationBody.model_validate(json.loads(text)).model_dump(exclude_defaults=True)
    except ValidationError as problem:
        wrong = [{**one, "loc": ("body", *one["loc"])} for one in problem.errors(include_url=False)]
        raise RequestValidationError(wrong) from None
    except (ValueError, RecursionError):
        raise UsageError(
            "The declaration is neither JSON nor said to be TOML. Nothing was done.",
            hint=f"Send a file with Content-Type: {TOML}.",
        ) from None


@router.post(
    "/preview",
    response_model=shape("Preview"),
    responses={200: example("Preview"), **ELSEWHERE},
    dependencies=takes("sources.preview"),
)
async def preview_source(request: Request, body: PreviewBody, rowen: Service, asking: Asking) -> Response:
    """What is at an address: the kind that would read it, and its first items. Nothing is kept."""
    chosen: dict[str, Any] = {"kind": body.kind, "options": body.options, "limit": body.limit}
    return told(request, await rowen.sources.preview(body.address, **chosen, reach=asking.reach))
