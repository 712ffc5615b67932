"""What pages state in RDFa: counts, delta files for those who follow, and SPARQL endpoints that are told.

Delta files are listed and downloaded as consumers of the mu-semtech stack ask for them.
"""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Body, Query, Request
from fastapi import Path as InPath
from starlette.responses import FileResponse, Response

from rowen.errors import NotFoundError
from rowen.interfaces.rest.access import Service, takes
from rowen.interfaces.rest.answers import listed, made, published, told, validated
from rowen.interfaces.rest.bodies import EndpointBody, EndpointPushBody
from rowen.interfaces.rest.costly import CostlyRoute
from rowen.interfaces.rest.encoding import encoded
from rowen.interfaces.rest.examples import Responses, example, list_example
from rowen.interfaces.rest.problems import ELSEWHERE
from rowen.interfaces.rest.shapes import list_shape, shape
from rowen.interfaces.rest.sources import Name
from rowen.interfaces.rest.temporary import TemporaryFolder
from rowen.interfaces.rest.times import moment_of
from rowen.model.rdf import StatementFile

__all__ = ["dumps", "router"]

router = APIRouter(tags=["statements"])
dumps = APIRouter(tags=["statements"], route_class=CostlyRoute)

JSON_API = "application/vnd.api+json"
Since = Annotated[
    str | None,
    Query(description="only files that were made after this moment", examples=["2026-03-14T09:26:53.000Z"]),
]
File = Annotated[int, InPath(ge=1, le=2**63 - 1, description="the `id` of a file", examples=[4711])]
Graph = Annotated[str | None, Query(max_length=4000, description="one graph for all; default: that of each page")]
Endpoint = Annotated[str, Query(max_length=4000, description="the address of the endpoint")]

N_QUADS = "application/n-quads"
_QUADS: Responses = {
    200: {
        "content": {
            N_QUADS: {"example": '<http://data.example/id/1> <http://data.example/title> "Cameras"@nl <page> .\n'}
        },
        "headers": {
            "X-Last-Change": {"description": "up to which line of the change log", "schema": {"type": "string"}}
        },
    }
}
_LISTED = {
    "data": [
        {
            "type": "files",
            "id": "4711",
            "attributes": {"name": "delta-000000004713.json", "created": "2026-03-14T09:26:53.589Z"},
        }
    ]
}
_FILES: Responses = {200: {"content": {JSON_API: {"example": _LISTED}}}}
_TERM = {"type": "uri", "value": "http://data.example/id/1"}
_QUAD = {"subject": _TERM, "predicate": _TERM, "object": {"type": "literal", "value": "Cameras"}, "graph": _TERM}
_DELTA: Responses = {200: {"content": {"application/json": {"example": [{"deletes": [], "inserts": [_QUAD]}]}}}}


@router.get(
    "/sources/{name}/statements",
    response_model=shape("StatementSummary"),
    responses={200: example("StatementSummary")},
)
async def count_statements(request: Request, name: Name, rowen: Service) -> Response:
    """What the pages of a source state: pages by type, statements, and what was repaired or left out, by reason."""
    return told(request, await rowen.rdf.summary(name))


@router.get("/sources/{name}/delta-files", response_class=Response, responses=_FILES)
async def list_delta_files(request: Request, name: Name, rowen: Service, since: Since = None) -> Response:
    """The files that tell how statements changed, the oldest first, which is the order to take them in.

    At most a thousand are listed: who has taken them asks again, with the time of the last one.
    """
    found = await rowen.rdf.list_files(name, since=moment_of(since))
    return validated(request, encoded({"data": [_resource(one) for one in found]}), JSON_API)


@router.get("/sources/{name}/delta-files/{number}/download", response_class=Response, responses=_DELTA)
async def download_delta_file(
    request: Request, name: Name, number: File, rowen: Service, graph: Graph = None
) -> Response:
    """One delta file; it never changes."""
    return published(request, await rowen.rdf.get_file(name, number, graph=graph))


@dumps.get("/sources/{name}/statements/dump", response_class=Response, responses=_QUADS)
async def dump_statements(name: Name, rowen: Service, graph: Graph = None) -> Response:
    """All that the pages of a source state now, as N-Quads; delta files after `X-Last-Change` lead on from there."""
    with TemporaryFolder("statements") as folder:
        report = await rowen.rdf.dump(name, folder.path / "statements.nq", graph=graph)
        headers = {"X-Last-Change": str(report.last_change), "Cache-Control": "no-store"}
        return folder.sent_as(FileResponse(report.to, media_type=N_QUADS, headers=headers))


@router.get(
    "/endpoints", response_model=list_shape("StatementTarget"), responses={200: list_example("StatementTarget")}
)
async def list_all_endpoints(request: Request, rowen: Service) -> Response:
    """SPARQL endpoints of all sources that are told what pages state."""
    return listed(request, await rowen.rdf.list_endpoints())


@router.post(
    "/sources/{name}/endpoints/push",
    response_model=list_shape("StatementReport"),
    responses={200: list_example("StatementReport"), **ELSEWHERE},
    dependencies=takes("rdf.push"),
)
async def push_statements(
    request: Request,
    name: Name,
    rowen: Service,
    body: Annotated[EndpointPushBody, Body()] = EndpointPushBody(),  # noqa: B008 (never changed)
) -> Response:
    """Bring SPARQL endpoints up to date now, from where each was left; or tell all again, after one lost something.

    Only those are told that are kept: a new address, and the headers that it takes, are an administrator's to name.
    """
    kept = [one for one in await rowen.rdf.list_endpoints(name) if one.state != "once"]
    if body.endpoint is not None:
        kept = [one for one in kept if (one.endpoint, one.graph) == (body.endpoint, body.graph)]
        if not kept:
            raise NotFoundError(f"Source {name!r} keeps no such endpoint, or of another graph. Nothing was sent.")
    told_of = [await rowen.rdf.push(name, one.endpoint, graph=one.graph, again=body.everything) for one in kept]
    return listed(request, told_of)


@router.get(
    "/sources/{name}/endpoints",
    response_model=list_shape("StatementTarget"),
    responses={200: list_example("StatementTarget")},
)
async def list_endpoints(request: Request, name: Name, rowen: Service) -> Response:
    """SPARQL endpoints that are told what pages state: up to which change, what waits, what failed."""
    return listed(request, await rowen.rdf.list_endpoints(name))


@router.post(
    "/sources/{name}/endpoints",
    status_code=201,
    response_model=shape("StatementTarget"),
    responses={201: example("StatementTarget")},
    dependencies=takes("rdf.add_endpoint"),
)
async def keep_endpoint(name: Name, body: EndpointBody, rowen: Service) -> Response:
    """Have workers keep a SPARQL endpoint up to date from now on, also one that failed for days."""
    kept = await rowen.rdf.add_endpoint(name, body.endpoint, graph=body.graph, headers=body.headers)
    return made(kept, f"/api/v1/sources/{quote(name, safe='')}/endpoints")


@router.delete("/sources/{name}/endpoints", status_code=204, dependencies=takes("rdf.remove_endpoint"))
async def forget_endpoint(name: Name, endpoint: Endpoint, rowen: Service, graph: Graph = None) -> Response:
    """Tell a SPARQL endpoint no more; what it holds stays there."""
    await rowen.rdf.remove_endpoint(name, endpoint, graph=graph)
    return Response(status_code=204)


def _resource(file: StatementFile) -> dict[str, object]:
    """A file as JSON:API has it; times have milliseconds, as consumers keep them."""
    created = f"{file.created_at:%Y-%m-%dT%H:%M:%S}.{file.created_at.microsecond // 1000:03}Z"
    return {
        "type": "files",
        "id": str(file.number),
        "attributes": {"name": file.name, "created": created},
    }
