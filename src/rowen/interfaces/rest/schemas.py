"""Schemas, and which sources carry them."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request
from starlette.responses import Response

from rowen.interfaces.rest.access import Service, takes
from rowen.interfaces.rest.answers import begun, listed, made, told
from rowen.interfaces.rest.bodies import CarryBody, ExtractSourceBody, SchemaBody
from rowen.interfaces.rest.examples import example, list_example
from rowen.interfaces.rest.shapes import list_shape, shape
from rowen.interfaces.rest.sources import Name

__all__ = ["router"]

router = APIRouter(tags=["schemas"])

Of = Annotated[str | None, Query(description="only of this source")]
Ref = Annotated[str, Path(description="`product`, `product@1`, `product@1.0.0`", examples=["product@1.0.0"])]
Older = Annotated[str, Query(description="the older version", examples=["product@1.0.0"])]
Newer = Annotated[str, Query(description="the newer version", examples=["product@1.1.0"])]


@router.get("/schemas", response_model=list_shape("Schema"), responses={200: list_example("Schema")})
async def list_schemas(
    request: Request, rowen: Service, name: Annotated[str | None, Query(description="only of this name")] = None
) -> Response:
    """All versions of all schemas, also those that come with the program."""
    return listed(request, await rowen.schemas.list(name))


@router.post(
    "/schemas",
    status_code=201,
    response_model=shape("Schema"),
    responses={201: example("Schema")},
    dependencies=takes("schemas.add"),
)
async def add_schema(body: SchemaBody, rowen: Service) -> Response:
    """Keep a schema under a name and a version; a version never changes."""
    schema = await rowen.schemas.add(body.ref, body.definition)
    return made(schema, f"/api/v1/schemas/{schema.ref}")


@router.get("/schemas/compare", response_model=shape("SchemaComparison"), responses={200: example("SchemaComparison")})
async def compare_schemas(request: Request, older: Older, newer: Newer, rowen: Service) -> Response:
    """What differs between two versions, and whether data of the older one satisfies the newer one."""
    return told(request, await rowen.schemas.compare(older, newer))


@router.get("/schemas/{ref}", response_model=shape("Schema"), responses={200: example("Schema")})
async def get_schema(request: Request, ref: Ref, rowen: Service) -> Response:
    """The schema that is meant: the highest version that fits."""
    return told(request, await rowen.schemas.get(ref))


@router.delete(
    "/schemas/{ref}",
    response_model=shape("SchemaUse"),
    responses={200: example("SchemaUse")},
    dependencies=takes("schemas.remove"),
)
async def remove_schema(
    request: Request,
    ref: Ref,
    rowen: Service,
    with_facts: Annotated[
        bool, Query(description="also what sources carry of it, and the facts that rest on it")
    ] = False,
) -> Response:
    """Forget one version of a schema; refused while it is in use, unless that is to go as well."""
    return told(request, await rowen.schemas.remove(ref, with_facts=with_facts))


@router.get(
    "/carried-schemas", response_model=list_shape("SourceSchema"), responses={200: list_example("SourceSchema")}
)
async def list_carried_schemas(request: Request, rowen: Service, source: Of = None) -> Response:
    """Which sources carry which schemas, and how far they are."""
    return listed(request, await rowen.extraction.list_attached(source))


@router.put(
    "/sources/{name}/schemas/{ref}",
    response_model=shape("SourceSchema"),
    responses={200: example("SourceSchema")},
    dependencies=takes("extraction.attach"),
)
async def carry_schema(
    request: Request,
    name: Name,
    ref: Ref,
    rowen: Service,
    body: Annotated[CarryBody, Body()] = CarryBody(),  # noqa: B008 (never changed)
) -> Response:
    """Let a source carry a schema: each item that is new or changes is extracted from now on."""
    return told(request, await rowen.extraction.attach(name, ref, **body.model_dump()))


@router.delete("/sources/{name}/schemas/{ref}", status_code=204, dependencies=takes("extraction.detach"))
async def drop_schema(name: Name, ref: Ref, rowen: Service) -> Response:
    """Let a source carry a schema no longer; what was extracted stays."""
    await rowen.extraction.detach(name, ref)
    return Response(status_code=204)


@router.post(
    "/sources/{name}/extract",
    status_code=202,
    response_model=shape("Job"),
    responses={200: {"model": list_shape("ExtractionReport"), **list_example("ExtractionReport")}, 202: example("Job")},
    dependencies=takes("queue.enqueue_extraction", "extraction.extract_source"),
)
async def extract_source(
    request: Request,
    name: Name,
    rowen: Service,
    body: Annotated[ExtractSourceBody, Body()] = ExtractSourceBody(),  # noqa: B008 (never changed)
) -> Response:
    """Have what changed in a source extracted, or all of it again, as all schemas that it carries or one of them.

    The answer is the job; of a dry run, with status 200, what it would take under each schema.
    """
    wanted: dict[str, Any] = {"schema": body.wanted, "everything": body.everything}
    how = body.model_dump(include={"force", "model", "limit", "budget_usd", "budget_tokens"}, exclude_defaults=True)
    if body.dry_run:
        return listed(request, await rowen.extraction.extract_source(name, dry_run=True, **wanted, **how))
    job = await rowen.queue.enqueue_extraction(name, **wanted, **how)
    return begun(job, f"/api/v1/jobs/{job.id}")
