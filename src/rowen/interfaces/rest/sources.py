"""Sources: what there is a copy of, and what may be done to it."""

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Body, Path, Query, Request
from starlette.responses import Response

from rowen.errors import NotFoundError
from rowen.interfaces.rest.access import Asking, Service, takes
from rowen.interfaces.rest.answers import DEFAULT_LIMIT, After, Limit, begun, listed, made, page, told
from rowen.interfaces.rest.bodies import SourceBody, SourceChangeBody, SyncBody, UrlsBody
from rowen.interfaces.rest.examples import Responses, example, list_example, page_example
from rowen.interfaces.rest.narrowing import Narrowed
from rowen.interfaces.rest.problems import ELSEWHERE
from rowen.interfaces.rest.shapes import list_shape, page_shape, shape
from rowen.operations.discovery import Discovery, Unconfirmed
from rowen.operations.same_portal import SameAs

__all__ = ["Name", "router"]

router = APIRouter(tags=["sources"])

Name = Annotated[str, Path(description="the name of a source", examples=["guide"])]
_SOURCE = shape("Source")
_HELD = page_shape("HeldDeletion")


@router.get("/sources", response_model=page_shape("Source"), responses={200: page_example("Source")})
async def list_sources(request: Request, rowen: Service, limit: Limit = DEFAULT_LIMIT, after: After = None) -> Response:
    """All sources, by name."""
    return page(request, await rowen.sources.list(limit=limit, after=after))


@router.post(
    "/sources",
    status_code=201,
    response_model=_SOURCE,
    responses={201: example("Source"), **ELSEWHERE},
    dependencies=takes("sources.add"),
)
async def add_source(body: SourceBody, rowen: Service, asking: Asking) -> Response:
    """Keep a copy of something from now on; it is read by the first sync, or by a worker if it has a schedule."""
    found: list[Discovery | Unconfirmed | SameAs] = []
    chosen: dict[str, Any] = {"name": body.name, "kind": body.kind, "options": body.options, "found": found.append}
    source = await rowen.sources.add(body.address, **chosen, reach=asking.reach, **body.when)
    return made(source, _address(source.name))


@router.get("/sources/{name}", response_model=_SOURCE, responses={200: example("Source")})
async def get_source(request: Request, name: Name, rowen: Service) -> Response:
    """One source."""
    return told(request, await rowen.sources.get(name))


@router.patch(
    "/sources/{name}",
    response_model=_SOURCE,
    responses={200: example("Source"), **ELSEWHERE},
    dependencies=takes("sources.edit"),
)
async def change_source(
    request: Request, name: Name, body: SourceChangeBody, rowen: Service, asking: Asking
) -> Response:
    """Change a source's name, options or schedule."""
    edited = await rowen.sources.edit(name, rename=body.name, options=body.options, reach=asking.reach, **body.when)
    return told(request, edited)


@router.delete(
    "/sources/{name}",
    dependencies=takes("sources.remove"),
    responses={200: {"content": {"application/json": {"example": {"source": "guide", "removed": 118}}}}},
)
async def remove_source(request: Request, name: Name, rowen: Service) -> Response:
    """Forget a source with all its items."""
    return told(request, {"source": name, "removed": await rowen.sources.remove(name)})


@router.post(
    "/sources/{name}/sync",
    status_code=202,
    response_model=shape("Job"),
    responses={202: example("Job")},
    dependencies=takes("queue.enqueue"),
)
async def sync_source(name: Name, rowen: Service, body: Annotated[SyncBody, Body()] = SyncBody()) -> Response:  # noqa: B008 (never changed)
    """Have a source synced now. The answer is its job; that tells the number of the run as soon as there is one."""
    job = await rowen.queue.enqueue(name, full=body.full, accept_deletions=body.accept_deletions)
    return begun(job, f"/api/v1/jobs/{job.id}")


@router.post(
    "/sources/{name}/pause",
    response_model=_SOURCE,
    responses={200: example("Source")},
    dependencies=takes("sources.pause"),
)
async def pause_source(request: Request, name: Name, rowen: Service) -> Response:
    """Leave a source out until it is resumed."""
    await rowen.sources.pause(name)
    return told(request, await rowen.sources.get(name))


@router.post(
    "/sources/{name}/resume",
    response_model=_SOURCE,
    responses={200: example("Source")},
    dependencies=takes("sources.resume"),
)
async def resume_source(request: Request, name: Name, rowen: Service) -> Response:
    """Take a paused source in again."""
    await rowen.sources.resume(name)
    return told(request, await rowen.sources.get(name))


@router.get("/sources/{name}/items", response_model=page_shape("ItemLine"), responses={200: page_example("ItemLine")})
async def list_items(
    request: Request,
    name: Name,
    rowen: Service,
    narrowed: Narrowed,
    limit: Limit = DEFAULT_LIMIT,
    after: After = None,
) -> Response:
    """The items of a source, by URL; those of a very large one in an order of their own."""
    return page(request, await rowen.items.browse(name, limit=limit, after=after, **narrowed))


@router.get(
    "/sources/{name}/announced",
    response_model=list_shape("AnnouncedDocument"),
    responses={200: list_example("AnnouncedDocument")},
)
async def list_announced(
    request: Request,
    name: Name,
    rowen: Service,
    outcome: Annotated[str | None, Query(description="only such: `waiting`, `stored`, `failed`, …")] = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Response:
    """The documents that a feed announced, with their jobs and outcomes, the latest first."""
    return listed(request, await rowen.sources.announcements(name, outcome=outcome, limit=limit))


@router.get("/following", response_model=list_shape("Following"), responses={200: list_example("Following")})
async def list_following(request: Request, rowen: Service) -> Response:
    """How all feeds and event streams are followed, by name."""
    return listed(request, await rowen.sources.list_following())


@router.get("/sources/{name}/following", response_model=shape("Following"), responses={200: example("Following")})
async def follow_up_source(request: Request, name: Name, rowen: Service) -> Response:
    """How a feed or an event stream is followed."""
    found = await rowen.sources.following(name)
    if found is None:
        raise NotFoundError(f"Source {name!r} is neither a feed nor an event stream.")
    return told(request, found)


Library = Annotated[str, Query(max_length=200, description="the name of a source or a package", examples=["flask"])]
Spec = Annotated[str | None, Query(max_length=200, description="`2.x`, `^2.1`, `>=1.0,<2`; default: the highest")]


@router.get("/versions", response_model=shape("FoundVersion"), responses={200: example("FoundVersion")})
async def find_version(request: Request, library: Library, rowen: Service, version: Spec = None) -> Response:
    """Which source holds the version of a library that is meant, and which versions there are."""
    return told(request, await rowen.sources.find_version(library, version))


@router.get("/held", response_model=_HELD, responses={200: page_example("HeldDeletion")}, tags=["held deletions"])
async def list_held(request: Request, rowen: Service, limit: Limit = DEFAULT_LIMIT, after: After = None) -> Response:
    """Deletions that were held back, of all sources."""
    return page(request, await rowen.deletions.list(limit=limit, after=after))


@router.get(
    "/sources/{name}/held", response_model=_HELD, responses={200: page_example("HeldDeletion")}, tags=["held deletions"]
)
async def list_held_of_source(
    request: Request, name: Name, rowen: Service, limit: Limit = DEFAULT_LIMIT, after: After = None
) -> Response:
    """Deletions of one source that were held back."""
    return page(request, await rowen.deletions.list(name, limit=limit, after=after))


_DECIDED: Responses = {
    200: {"content": {"application/json": {"example": {"source": "guide", "accepted": 1, "kept": 0}}}}
}


@router.post(
    "/sources/{name}/held/accept", dependencies=takes("deletions.accept"), responses=_DECIDED, tags=["held deletions"]
)
async def accept_held(request: Request, name: Name, body: UrlsBody, rowen: Service) -> Response:
    """Delete items whose deletion was held back; all of them or none."""
    return told(request, {"source": name, "accepted": await rowen.deletions.accept(name, body.urls), "kept": 0})


@router.post(
    "/sources/{name}/held/keep", dependencies=takes("deletions.keep"), responses=_DECIDED, tags=["held deletions"]
)
async def keep_held(request: Request, name: Name, body: UrlsBody, rowen: Service) -> Response:
    """Keep items that their source no longer shows; all of them or none."""
    return told(request, {"source": name, "accepted": 0, "kept": await rowen.deletions.keep(name, body.urls)})


def _address(name: str) -> str:
    return f"/api/v1/sources/{quote(name, safe='')}"
