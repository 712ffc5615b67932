"""What others follow or harvest: feeds, event streams, catalogs, at the addresses that they name themselves."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response, StreamingResponse

from rowen.interfaces.rest.access import Service
from rowen.interfaces.rest.answers import published
from rowen.interfaces.rest.examples import Responses
from rowen.model.changes import ChangeKind
from rowen.operations import Rowen

__all__ = ["router"]

router = APIRouter(tags=["feeds"])

Form = Annotated[Literal["atom", "json"], Path(description="Atom, or JSON Feed")]
Node = Annotated[str, Path(description="a page of the stream: `blocks/0`, `pages/17`", examples=["blocks/0"])]
Name = Annotated[str, Path(description="the name of a source", examples=["guide"])]
Place = Annotated[str | None, Query(max_length=200, description="the page after this place; named by the one before")]


class FeedFilter(BaseModel):
    """Which changes a feed tells of."""

    query: str | None = Field(default=None, max_length=1000, description="only changes of items that have these words")
    kinds: tuple[ChangeKind, ...] = Field(default=(), alias="kind", description="only changes of these kinds")
    field: str | None = Field(
        default=None, max_length=200, description="only changes in which this field of facts differs"
    )
    before: int | None = Field(default=None, ge=1, le=2**62, description="only what came before this number")


Chosen = Annotated[FeedFilter, Query()]

_FEED: Responses = {
    200: {
        "content": {
            "application/atom+xml": {
                "example": '<feed xmlns="http://www.w3.org/2005/Atom"><title>Changes</title></feed>'
            },
            "application/feed+json": {"example": {"version": "https://jsonfeed.org/version/1.1", "items": []}},
        }
    }
}
_STREAM: Responses = {200: {"content": {"text/turtle": {"example": "<> a <https://w3id.org/ldes#EventStream> ."}}}}
_DCAT: Responses = {200: {"content": {"text/turtle": {"example": "<> a <http://www.w3.org/ns/dcat#Catalog> ."}}}}
_DATA_JSON: Responses = {200: {"content": {"application/json": {"example": {"dataset": []}}}}}


@router.get("/feeds/{form}", response_class=Response, responses=_FEED)
async def feed(request: Request, form: Form, rowen: Service, chosen: Chosen) -> Response:
    """The newest changes as a feed: all, of some kinds, of a field of facts, or of items that have some words."""
    return published(request, await rowen.feeds.feed(form, **chosen.model_dump()))


@router.get("/sources/{name}/feeds/{form}", response_class=Response, responses=_FEED)
async def feed_of_source(request: Request, name: Name, form: Form, rowen: Service, chosen: Chosen) -> Response:
    """The newest changes of one source as a feed."""
    return published(request, await rowen.feeds.feed(form, source=name, **chosen.model_dump()))


@router.get("/ldes", response_class=Response, responses=_STREAM)
async def event_stream(request: Request, rowen: Service) -> Response:
    """The change log as a Linked Data Event Stream: its first page."""
    return published(request, await rowen.feeds.event_stream())


@router.get("/ldes/{node:path}", response_class=Response, responses=_STREAM)
async def event_stream_page(request: Request, node: Node, rowen: Service) -> Response:
    """A page of the event stream."""
    return published(request, await rowen.feeds.event_stream(node))


@router.get("/sources/{name}/ldes", response_class=Response, responses=_STREAM)
async def event_stream_of_source(request: Request, name: Name, rowen: Service) -> Response:
    """The changes of one source as an event stream: its first page."""
    return published(request, await rowen.feeds.event_stream(source=name))


@router.get("/sources/{name}/ldes/{node:path}", response_class=Response, responses=_STREAM)
async def event_stream_page_of_source(request: Request, name: Name, node: Node, rowen: Service) -> Response:
    """A page of the event stream of one source."""
    return published(request, await rowen.feeds.event_stream(node, source=name))


@router.get("/catalog/dcat", response_class=Response, responses=_DCAT)
async def dcat(request: Request, rowen: Service, after: Place = None) -> Response:
    """All datasets as one DCAT catalog, page by page."""
    return published(request, await rowen.feeds.catalog(after=after))


@router.get("/sources/{name}/catalog/dcat", response_class=Response, responses=_DCAT)
async def dcat_of_source(request: Request, name: Name, rowen: Service, after: Place = None) -> Response:
    """The datasets of one source as a DCAT catalog."""
    return published(request, await rowen.feeds.catalog(source=name, after=after))


@router.get("/catalog/data.json", response_class=Response, responses=_DATA_JSON)
async def data_json(rowen: Service) -> Response:
    """All datasets as a data.json."""
    return _streamed(rowen, None)


@router.get("/sources/{name}/catalog/data.json", response_class=Response, responses=_DATA_JSON)
async def data_json_of_source(name: Name, rowen: Service) -> Response:
    """The datasets of one source as a data.json."""
    await rowen.sources.get(name)
    return _streamed(rowen, name)


def _streamed(rowen: Rowen, source: str | None) -> Response:
    return StreamingResponse(rowen.feeds.data_json(source=source), media_type="application/json")
