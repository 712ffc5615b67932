"""Saved searches: words that somebody follows, and what newly has them."""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from rowen.interfaces.rest.access import Service, takes
from rowen.interfaces.rest.answers import DEFAULT_LIMIT, Limit, listed, made
from rowen.interfaces.rest.bodies import SavedSearchBody
from rowen.interfaces.rest.examples import example, list_example
from rowen.interfaces.rest.shapes import list_shape, shape

__all__ = ["router"]

router = APIRouter(tags=["saved searches"])

Saved = Annotated[str, Path(description="the name of a saved search", examples=["dry hay"])]
AfterLine = Annotated[int, Query(ge=0, le=2**62, description="only what came after the line with this id")]


@router.get("/saved-searches", response_model=list_shape("SavedSearch"), responses={200: list_example("SavedSearch")})
async def list_saved_searches(request: Request, rowen: Service) -> Response:
    """All saved searches, by name."""
    return listed(request, await rowen.searches.list())


@router.post(
    "/saved-searches",
    status_code=201,
    response_model=shape("SavedSearch"),
    responses={201: example("SavedSearch")},
    dependencies=takes("searches.save"),
)
async def save_search(body: SavedSearchBody, rowen: Service) -> Response:
    """Follow a search: what matches now is no news, what newly does, or no longer does, is."""
    saved = await rowen.searches.save(body.name, body.query, sources=body.sources)
    return made(saved, f"/api/v1/saved-searches/{quote(saved.name, safe='')}/news")


@router.delete("/saved-searches/{name}", status_code=204, dependencies=takes("searches.remove"))
async def forget_search(name: Saved, rowen: Service) -> Response:
    """Follow a search no longer."""
    await rowen.searches.remove(name)
    return Response(status_code=204)


@router.get(
    "/saved-searches/{name}/news", response_model=list_shape("SavedNews"), responses={200: list_example("SavedNews")}
)
async def list_search_news(
    request: Request, name: Saved, rowen: Service, after: AfterLine = 0, limit: Limit = DEFAULT_LIMIT
) -> Response:
    """What newly matches, and what no longer does, oldest first."""
    return listed(request, await rowen.searches.news(name, after=after, limit=limit))
