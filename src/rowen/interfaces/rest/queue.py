"""Jobs, the queue as a whole, and its workers."""

from starlette.responses import Response

from rowen.interfaces.rest.answers import told
from rowen.interfaces.rest.derived import RouteCall, RouteGroup, fact_of, list_of, page_of
from rowen.model.queue import QueueDepth

router = RouteGroup(tags=["jobs"])

router.offer("list_jobs", "GET /jobs", "queue.list", page_of("Job"))


@router.derive("GET /jobs/{number}", "queue.get", answer=fact_of("Job"))
async def get_job(call: RouteCall) -> Response:
    """Return one job; `run` is the number of the run that was created for it."""
    job = await call.rowen.queue.get(**call.arguments)
    headers = {} if job.run is None else {"Link": f'</api/v1/runs/{job.run}>; rel="related"'}
    return told(call.request, job, headers=headers)


router.offer("cancel_job", "POST /jobs/{number}/cancel", "queue.cancel", fact_of("Job"))
router.offer("retry_job", "POST /jobs/{number}/retry", "queue.retry", fact_of("Job"))
router.offer("get_queue", "GET /queue", "queue.depth", fact_of("QueueDepth"))


@router.derive("POST /queue/pause", "queue.pause", answer=fact_of("QueueDepth"))
async def pause_queue(call: RouteCall) -> QueueDepth:
    """Begin no job until the queue is resumed; running jobs are finished."""
    await call.rowen.queue.pause()
    return await call.rowen.queue.depth()


@router.derive("POST /queue/resume", "queue.resume", answer=fact_of("QueueDepth"))
async def resume_queue(call: RouteCall) -> QueueDepth:
    """Resume the queue after a pause."""
    await call.rowen.queue.resume()
    return await call.rowen.queue.depth()


router.offer("list_workers", "GET /workers", "queue.list_workers", list_of("LiveWorker"))
