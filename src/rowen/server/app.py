"""All interfaces over HTTP in one application, and the worker beside them."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from rowen.errors import StoreError
from rowen.interfaces import web
from rowen.interfaces.rest.app import api_of
from rowen.operations import Rowen
from rowen.server.admission import Admission
from rowen.server.assistants import Assistants
from rowen.server.base_path import BasePath
from rowen.server.heads import Heads
from rowen.server.journal import Journal
from rowen.server.limits import BodyLimit
from rowen.server.login import login_routes
from rowen.server.problem_pages import ProblemPages
from rowen.server.repeats import Repeats
from rowen.server.streams import Streams

__all__ = ["Interfaces", "assemble"]

log = logging.getLogger(__name__)

# A worker that keeps too much memory without a job ends. Here the process goes on, and it begins again after a while.
_WORKER_REST_S = 60.0
# Sessions that are over take no room worth speaking of; once an hour is soon enough.
_TIDY_S = 3600.0


class Interfaces:
    """The application: `asgi` answers requests, `close` lets streams end before their readers do."""

    def __init__(self, asgi: ASGIApp, inner: FastAPI, assistants: Assistants) -> None:
        self.asgi = asgi
        self.inner = inner
        self._assistants = assistants

    def close(self) -> None:
        """Let what follows something end: a server waits for its readers."""
        self.inner.state.closing.set()
        self._assistants.end_streams()


def assemble(rowen: Rowen, *, trusts_loopback: bool, works: bool = False) -> Interfaces:
    """All routes, behind the layers that every request passes.

    With `trusts_loopback`, who asks from this machine needs no token. With `works`, a worker runs as long as it serves.
    """
    settings = rowen.settings
    inner = api_of(rowen)
    assistants = Assistants(rowen)
    inner.router.routes.extend([*login_routes(rowen), *assistants.routes(), *web.routes(rowen)])
    inner.router.lifespan_context = lambda _: _beside(rowen, assistants, works=works)
    layers: ASGIApp = Repeats(Streams(Heads(inner), rowen), rowen)
    layers = BodyLimit(layers, most_bytes=settings.request_limit_bytes)
    layers = ProblemPages(Admission(layers, rowen, trusts_loopback=trusts_loopback and not settings.proxies))
    if settings.cors_origins:
        layers = _with_cors(layers, settings.cors_origins)
    layers = Journal(layers, rowen)
    if base := urlsplit(settings.public_url or "").path.rstrip("/"):
        layers = BasePath(layers, base)
    if settings.proxies:
        layers = ProxyHeadersMiddleware(layers, trusted_hosts=[str(network) for network in settings.proxies])  # type: ignore[arg-type, assignment]
    return Interfaces(layers, inner, assistants)


def _with_cors(app: ASGIApp, origins: tuple[str, ...]) -> ASGIApp:
    """Let pages of some origins read answers; with a token, never with somebody's cookie."""
    return CORSMiddleware(
        app,
        allow_origins=list(origins),
        allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "If-None-Match", "Last-Event-ID"],
        expose_headers=["ETag", "Link", "Location", "Retry-After", "X-Request-Id"],
    )


@asynccontextmanager
async def _beside(rowen: Rowen, assistants: Assistants, *, works: bool) -> AsyncIterator[None]:
    """What runs as long as the server does."""
    tasks = [asyncio.create_task(_tidy(rowen)), asyncio.create_task(_count(rowen))]
    closing = asyncio.Event()
    worker = asyncio.create_task(_work(rowen, closing)) if works else None
    if worker is not None:
        worker.add_done_callback(_report)
    try:
        yield
    finally:
        await assistants.close()
        for task in tasks:
            task.cancel()
        closing.set()
        rowen.stop()
        await asyncio.gather(*tasks, *([worker] if worker else []), return_exceptions=True)


async def _work(rowen: Rowen, closing: asyncio.Event) -> None:
    while not closing.is_set() and await rowen.work():
        log.warning("the worker of this server keeps too much memory, and rests")
        with suppress(TimeoutError):
            await asyncio.wait_for(closing.wait(), _WORKER_REST_S)


def _report(worker: "asyncio.Task[None]") -> None:
    if not worker.cancelled() and (problem := worker.exception()) is not None:
        log.error("the worker of this server ended over a bug; restart the server to begin another", exc_info=problem)


async def _count(rowen: Rowen) -> None:
    """Count what there is before somebody waits for it."""
    with suppress(StoreError):
        await rowen.situation()


async def _tidy(rowen: Rowen) -> None:
    while True:
        with suppress(StoreError):
            await rowen.tidy_access()
        await asyncio.sleep(_TIDY_S)
