"""RDF statements of pages: counts, delta files for consumers, and SPARQL endpoints that are kept up to date.

Delta files are listed and downloaded as consumers of the mu-semtech stack request them.
"""

from urllib.parse import quote

from starlette.responses import FileResponse, Response

from rowen.errors import NotFoundError
from rowen.interfaces.rest.answers import TemporaryFolder, encoded, published, validated
from rowen.interfaces.rest.derived import (
    CostlyRoute,
    RouteBody,
    RouteCall,
    RouteGroup,
    created,
    custom,
    empty,
    fact_of,
    list_of,
)
from rowen.interfaces.rest.problems import ELSEWHERE
from rowen.interfaces.rest.shapes import Responses
from rowen.model.rdf import StatementFile, StatementReport
from rowen.operations.parameters import Endpoint

router = RouteGroup(tags=["statements"])
dumps = RouteGroup(tags=["statements"], route_class=CostlyRoute)

JSON_API = "application/vnd.api+json"
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
_STORE = "https://store.example.org/sparql"
_ENDPOINT = RouteBody(
    "EndpointBody",
    {
        "endpoint": _STORE,
        "graph": "http://example.org/graphs/public",
        "headers": {"Authorization": "Bearer env:STORE_KEY"},
    },
)

router.offer("count_statements", "GET /sources/{name}/statements", "rdf.summary", fact_of("StatementSummary"))


@router.derive("GET /sources/{name}/delta-files", "rdf.list_files", answer=custom(_FILES), without=("limit",))
async def list_delta_files(call: RouteCall) -> Response:
    """List the files of changed RDF statements, oldest first, which is the order in which to apply them.

    At most a thousand are listed; request the next ones with the time of the last one.
    """
    files = await call.rowen.rdf.list_files(**call.arguments)
    return validated(call.request, encoded({"data": [_resource(file) for file in files]}), JSON_API)


@router.derive("GET /sources/{name}/delta-files/{number}/download", "rdf.get_file", answer=custom(_DELTA))
async def download_delta_file(call: RouteCall) -> Response:
    """Return one delta file; it never changes."""
    return published(call.request, await call.rowen.rdf.get_file(**call.arguments))


@dumps.derive("GET /sources/{name}/statements/dump", "rdf.dump", answer=custom(_QUADS))
async def dump_statements(call: RouteCall) -> Response:
    """Return all RDF statements of a source as N-Quads; delta files after `X-Last-Change` continue from there."""
    with TemporaryFolder("statements") as folder:
        report = await call.rowen.rdf.dump(to=folder.path / "statements.nq", **call.arguments)
        headers = {"X-Last-Change": str(report.last_change), "Cache-Control": "no-store"}
        return folder.sent_as(FileResponse(report.to, media_type=N_QUADS, headers=headers))


router.offer("list_all_endpoints", "GET /endpoints", "rdf.list_endpoints", list_of("StatementTarget"), only=())


@router.derive(
    "POST /sources/{name}/endpoints/push",
    "rdf.push",
    answer=list_of("StatementReport"),
    body=RouteBody("EndpointPushBody", {"endpoint": _STORE, "all": True}),
    without=("endpoint", "headers"),
    adds={"endpoint": (Endpoint | None, None)},
    errors=ELSEWHERE,
)
async def push_statements(call: RouteCall) -> list[StatementReport]:
    """Bring SPARQL endpoints up to date now, from where each was left; or send everything again.

    Only the endpoints that are kept: a new address, and its headers, are an administrator's to name.
    """
    name, endpoint, graph = call.arguments["name"], call.added["endpoint"], call.arguments.get("graph")
    targets = [target for target in await call.rowen.rdf.list_endpoints(name) if target.state != "once"]
    if endpoint is not None:
        targets = [target for target in targets if (target.endpoint, target.graph) == (endpoint, graph)]
        if not targets:
            raise NotFoundError(f"Source {name!r} keeps no such endpoint, or of another graph. Nothing was sent.")
    again = call.arguments.get("again", False)
    return [await call.rowen.rdf.push(name, target.endpoint, graph=target.graph, again=again) for target in targets]


router.offer("list_endpoints", "GET /sources/{name}/endpoints", "rdf.list_endpoints", list_of("StatementTarget"))


router.offer(
    "keep_endpoint",
    "POST /sources/{name}/endpoints",
    "rdf.add_endpoint",
    created("StatementTarget", lambda one: f"/api/v1/sources/{quote(one.source, safe='')}/endpoints"),
    body=_ENDPOINT,
)
router.offer("forget_endpoint", "DELETE /sources/{name}/endpoints", "rdf.remove_endpoint", empty())


def _resource(file: StatementFile) -> dict[str, object]:
    """Return a file in the form of JSON:API; times have milliseconds, since consumers store them so."""
    created = f"{file.created_at:%Y-%m-%dT%H:%M:%S}.{file.created_at.microsecond // 1000:03}Z"
    return {
        "type": "files",
        "id": str(file.number),
        "attributes": {"name": file.name, "created": created},
    }
