"""The application of the REST interface: all routes, error handling, and the OpenAPI document."""

import asyncio
from functools import partial

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import HTMLResponse, Response

from rowen.interfaces.rest import (
    access,
    changes,
    exports,
    extraction,
    feeds,
    items,
    probes,
    push,
    queue,
    rdf,
    runs,
    schemas,
    search,
    searches,
    sources,
    status,
    webhooks,
)
from rowen.interfaces.rest.answers import JSON, encoded, validated
from rowen.interfaces.rest.document import docs_page, document
from rowen.interfaces.rest.problems import install
from rowen.operations import Rowen

PREFIX = "/api/v1"
# Routes are matched in order, so the most frequent ones come first.
_RESOURCES = (
    *(search, items, sources, changes, runs, queue, schemas, extraction, webhooks, searches, exports),
    *(rdf, status, push, access),
)

pages = APIRouter(include_in_schema=False)


def api_of(rowen: Rowen) -> FastAPI:
    """Create the application; the server stores the caller as `request.state.principal`."""
    app = FastAPI(title="Rowen", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.rowen, app.state.closing = rowen, asyncio.Event()
    app.include_router(probes.router)
    for resource in _RESOURCES:
        app.include_router(resource.router, prefix=PREFIX)
    for more in (sources.declarations, extraction.carried, rdf.dumps):
        app.include_router(more, prefix=PREFIX)
    for others in (feeds.router, changes.lines, push.hooks, pages):
        app.include_router(others)
    install(app)
    app.openapi = partial(document, app)  # type: ignore[method-assign]
    return app


@pages.get("/api/openapi.json")
async def get_document(request: Request) -> Response:
    """Return the OpenAPI document."""
    return validated(request, await asyncio.to_thread(_encoded_document, request.app), JSON)


@pages.get("/api/docs")
async def get_docs(request: Request) -> Response:
    """Return the OpenAPI document as a page."""
    described = await asyncio.to_thread(request.app.openapi)
    return HTMLResponse(docs_page(described, base=request.scope.get("root_path", "")))


def _encoded_document(app: FastAPI) -> bytes:
    """Return the document as JSON; the first call takes a third of a second."""
    return encoded(app.openapi())
