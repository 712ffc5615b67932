"""Jobs: what waits in the queue, and who works on it."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from rowen.interfaces.rest.access import Service, takes
from rowen.interfaces.rest.answers import DEFAULT_LIMIT, After, Limit, listed, page, told
from rowen.interfaces.rest.examples import example, list_example, page_example
from rowen.interfaces.rest.runs import Of
from rowen.interfaces.rest.shapes import list_shape, page_shape, shape

__all__ = ["router"]

router = APIRouter(tags=["jobs"])

JobNumber = Annotated[int, Path(ge=1, le=2**63 - 1, description="the number of a job", examples=[311])]
State = Annotated[
    Literal["waiting", "running", "done", "failed", "cancelled"] | None, Query(description="only in this state")
]
_JOB = shape("Job")
_DEPTH = shape("QueueDepth")


@router.get("/jobs", response_model=page_shape("Job"), responses={200: page_example("Job")})
async def list_jobs(
    request: Request,
    rowen: Service,
    source: Of = None,
    state: State = None,
    limit: Limit = DEFAULT_LIMIT,
    after: After = None,
) -> Response:
    """Jobs, newest first."""
    return page(request, await rowen.queue.list(source, state=state, limit=limit, after=after))


@router.get("/jobs/{number}", response_model=_JOB, responses={200: example("Job")})
async def get_job(request: Request, number: JobNumber, rowen: Service) -> Response:
    """One job; `run` is the number of the run that was made for it."""
    job = await rowen.queue.get(number)
    headers = {} if job.run is None else {"Link": f'</api/v1/runs/{job.run}>; rel="related"'}
    return told(request, job, headers=headers)


@router.post(
    "/jobs/{number}/cancel", response_model=_JOB, responses={200: example("Job")}, dependencies=takes("queue.cancel")
)
async def cancel_job(request: Request, number: JobNumber, rowen: Service) -> Response:
    """Take a job out of the queue; a running one ends soon, at a checkpoint."""
    return told(request, await rowen.queue.cancel(number))


@router.post(
    "/jobs/{number}/retry", response_model=_JOB, responses={200: example("Job")}, dependencies=takes("queue.retry")
)
async def retry_job(request: Request, number: JobNumber, rowen: Service) -> Response:
    """Begin a job again that failed or was cancelled."""
    return told(request, await rowen.queue.retry(number))


@router.get("/queue", response_model=_DEPTH, responses={200: example("QueueDepth")})
async def get_queue(request: Request, rowen: Service) -> Response:
    """How much there is to do."""
    return told(request, await rowen.queue.depth())


@router.post(
    "/queue/pause", response_model=_DEPTH, responses={200: example("QueueDepth")}, dependencies=takes("queue.pause")
)
async def pause_queue(request: Request, rowen: Service) -> Response:
    """Begin no job until the queue is resumed; what runs is finished."""
    await rowen.queue.pause()
    return told(request, await rowen.queue.depth())


@router.post(
    "/queue/resume", response_model=_DEPTH, responses={200: example("QueueDepth")}, dependencies=takes("queue.resume")
)
async def resume_queue(request: Request, rowen: Service) -> Response:
    """Go on after a pause."""
    await rowen.queue.resume()
    return told(request, await rowen.queue.depth())


@router.get("/workers", response_model=list_shape("LiveWorker"), responses={200: list_example("LiveWorker")})
async def list_workers(request: Request, rowen: Service) -> Response:
    """Who works."""
    return listed(request, await rowen.queue.list_workers())
