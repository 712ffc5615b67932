"""Feeds, event streams and catalogs, at the addresses that they name themselves."""

from starlette.responses import Response, StreamingResponse

from rowen.interfaces.rest.answers import published
from rowen.interfaces.rest.derived import RouteCall, RouteGroup, custom
from rowen.interfaces.rest.shapes import Responses

router = RouteGroup(tags=["feeds"])

_OF_SOURCE = {"source": "name"}
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


@router.derive("GET /feeds/{form}", "feeds.feed", answer=custom(_FEED), without=("source", "limit"))
async def feed(call: RouteCall) -> Response:
    """Return the newest changes as a feed: all, some kinds, a field of facts, or items with some words."""
    return published(call.request, await call.rowen.feeds.feed(**call.arguments))


@router.derive(
    "GET /sources/{name}/feeds/{form}", "feeds.feed", answer=custom(_FEED), without=("limit",), names=_OF_SOURCE
)
async def feed_of_source(call: RouteCall) -> Response:
    """Return the newest changes of one source as a feed."""
    return published(call.request, await call.rowen.feeds.feed(**call.arguments))


@router.derive("GET /ldes", "feeds.event_stream", answer=custom(_STREAM), only=())
async def event_stream(call: RouteCall) -> Response:
    """Return the change log as a Linked Data Event Stream: its first page."""
    return published(call.request, await call.rowen.feeds.event_stream(**call.arguments))


@router.derive("GET /ldes/{node:path}", "feeds.event_stream", answer=custom(_STREAM), only=("node",))
async def event_stream_page(call: RouteCall) -> Response:
    """Return a page of the event stream."""
    return published(call.request, await call.rowen.feeds.event_stream(**call.arguments))


@router.derive("GET /sources/{name}/ldes", "feeds.event_stream", answer=custom(_STREAM), only=("source",))
async def event_stream_of_source(call: RouteCall) -> Response:
    """Return the changes of one source as an event stream: its first page."""
    return published(call.request, await call.rowen.feeds.event_stream(**call.arguments))


@router.derive("GET /sources/{name}/ldes/{node:path}", "feeds.event_stream", answer=custom(_STREAM), names=_OF_SOURCE)
async def event_stream_page_of_source(call: RouteCall) -> Response:
    """Return a page of the event stream of one source."""
    return published(call.request, await call.rowen.feeds.event_stream(**call.arguments))


@router.derive("GET /catalog/dcat", "feeds.catalog", answer=custom(_DCAT), only=("after",))
async def dcat(call: RouteCall) -> Response:
    """Return all datasets as one DCAT catalog, page by page."""
    return published(call.request, await call.rowen.feeds.catalog(**call.arguments))


@router.derive("GET /sources/{name}/catalog/dcat", "feeds.catalog", answer=custom(_DCAT), names=_OF_SOURCE)
async def dcat_of_source(call: RouteCall) -> Response:
    """Return the datasets of one source as a DCAT catalog."""
    return published(call.request, await call.rowen.feeds.catalog(**call.arguments))


@router.derive("GET /catalog/data.json", "feeds.data_json", answer=custom(_DATA_JSON), only=())
async def data_json(call: RouteCall) -> Response:
    """Return all datasets as a data.json."""
    return StreamingResponse(call.rowen.feeds.data_json(), media_type="application/json")


@router.derive("GET /sources/{name}/catalog/data.json", "feeds.data_json", answer=custom(_DATA_JSON), names=_OF_SOURCE)
async def data_json_of_source(call: RouteCall) -> Response:
    """Return the datasets of one source as a data.json."""
    await call.rowen.sources.get(call.arguments["source"])
    return StreamingResponse(call.rowen.feeds.data_json(**call.arguments), media_type="application/json")
