"""Assemble all HTTP interfaces into one application, and run the server and the worker beside it."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from urllib.parse import urlsplit

import uvicorn
from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from rowen.concurrency import end
from rowen.errors import ConfigurationError, Hint, RefusedError, StoreError, StoreUnavailableError, action
from rowen.interfaces import mcp, web
from rowen.interfaces.mcp.http import McpApp
from rowen.interfaces.rest.app import api_of
from rowen.operations import Rowen
from rowen.server.admission import Admission, login_routes
from rowen.server.connections import ACCEPTED_AT_ONCE, OpenConnections, raise_file_limit
from rowen.server.layers import BasePath, BodyLimit, Heads, ProblemPages, Repeats
from rowen.server.logs import Journal
from rowen.server.requests import is_loopback
from rowen.server.streams import Streams
from rowen.store.database import Patience

log = logging.getLogger(__name__)

# A worker that uses too much memory without a job ends. Here it is restarted after a while in the same process.
_WORKER_REST_S = 60.0
# Expired sessions are small, so once an hour is enough.
_TIDY_S = 3600.0


class Interfaces:
    """The application: `asgi` answers requests, `close` ends streams before the server waits for their clients."""

    def __init__(self, asgi: ASGIApp, inner: FastAPI, mcp_app: McpApp | None) -> None:
        self.asgi = asgi
        self.inner = inner
        self._mcp_app = mcp_app

    def close(self) -> None:
        """End streams, since the server waits for their clients when it stops."""
        self.inner.state.closing.set()
        if self._mcp_app is not None:
            self._mcp_app.end_streams()


def assemble(rowen: Rowen, *, trusts_loopback: bool, works: bool = False) -> Interfaces:
    """Return the application with all routes, behind the layers that every request passes.

    With `trusts_loopback`, requests from this machine need no token. With `works`, a worker runs beside the server.
    """
    settings = rowen.settings
    inner = api_of(rowen)
    # Its package is optional.
    mcp_app = None if find_spec("mcp") is None else mcp.http_app(rowen, allow_writes=settings.mcp_writes)

    async def llms_txt(request: Request) -> PlainTextResponse:
        base = settings.public_url or str(request.base_url)
        page = await mcp.llms_txt(rowen, base=base, assistants=mcp_app is not None)
        return PlainTextResponse(page, media_type="text/markdown")

    # GET would open a stream without messages, since requests are independent.
    routes = [] if mcp_app is None else [Route("/mcp", mcp_app, methods=["POST"])]
    routes.insert(0, Route("/llms.txt", llms_txt, methods=["GET"]))
    inner.router.routes.extend([*login_routes(rowen), *routes, *web.routes(rowen)])
    inner.router.lifespan_context = lambda _: _beside(rowen, mcp_app, works=works)
    layers: ASGIApp = Repeats(Streams(Heads(inner), rowen), rowen)
    layers = BodyLimit(layers, most_bytes=settings.request_limit_bytes)
    layers = ProblemPages(Admission(layers, rowen, trusts_loopback=trusts_loopback and not settings.proxies))
    if settings.cors_origins:
        # Pages of these origins may read answers, with a token, never with a cookie.
        layers = CORSMiddleware(
            layers,
            allow_origins=list(settings.cors_origins),
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "If-None-Match", "Last-Event-ID"],
            expose_headers=["ETag", "Link", "Location", "Retry-After", "X-Request-Id"],
        )
    layers = Journal(layers, rowen)
    if base := urlsplit(settings.public_url or "").path.rstrip("/"):
        layers = BasePath(layers, base)
    if settings.proxies:
        layers = ProxyHeadersMiddleware(layers, trusted_hosts=[str(network) for network in settings.proxies])  # type: ignore[arg-type, assignment]
    return Interfaces(layers, inner, mcp_app)


@asynccontextmanager
async def _beside(rowen: Rowen, mcp_app: McpApp | None, *, works: bool) -> AsyncIterator[None]:
    """Run the background tasks of the server."""

    async def count() -> None:
        """Compute the counts of the start page in advance."""
        with suppress(StoreError):
            await rowen.status.get()

    async def delete_expired() -> None:
        while True:
            with suppress(StoreError):
                await rowen.access.delete_expired()
            await asyncio.sleep(_TIDY_S)

    async def work() -> None:
        while not closing.is_set() and await rowen.queue.work():
            log.warning("the worker of this server uses too much memory; it is restarted after a pause")
            with suppress(TimeoutError):
                await asyncio.wait_for(closing.wait(), _WORKER_REST_S)

    closing = asyncio.Event()
    tasks = [asyncio.create_task(delete_expired()), asyncio.create_task(count())]
    worker = asyncio.create_task(work()) if works else None
    if worker is not None:
        worker.add_done_callback(_report)
    try:
        yield
    finally:
        if mcp_app is not None:
            await mcp_app.close()
        for task in tasks:
            task.cancel()
        closing.set()
        rowen.stop()
        await asyncio.gather(*tasks, *([worker] if worker else []), return_exceptions=True)


def _report(worker: "asyncio.Task[None]") -> None:
    if not worker.cancelled() and (problem := worker.exception()) is not None:
        log.error(
            "the worker of this server ended with a bug; restart the server to start another one", exc_info=problem
        )


# Pending answers take less time; streams have been ended before.
_GRACE_S = 10
_BACKLOG = 2048


class HttpServer(uvicorn.Server):
    """uvicorn without its signal handlers, since the caller has its own."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the server; let the system queue more connections than uvicorn accepts at once."""
        await super().startup(sockets)
        for listening in sockets or []:
            listening.listen(_BACKLOG)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do not handle signals."""
        yield


async def serve(
    rowen: Rowen,
    *,
    works: bool = True,
    started: Callable[[str, Callable[[], None]], None] = lambda *_: None,
    patience: Patience | None = None,
) -> None:
    """Serve until stopped; call `started` with the address and a function that stops the server.

    With `patience`, wait for the end of an outage of the database at the start.
    """
    settings = rowen.settings
    is_local = is_loopback(settings.host)
    has_access_control = is_local or settings.oidc_issuer or settings.public_read
    while not has_access_control:
        try:
            tokens = await rowen.access.list_tokens()
        except StoreUnavailableError as problem:
            if patience is None:
                raise
            outage = problem
        else:
            if tokens:
                break
            raise RefusedError(
                f"{settings.host} can be reached from outside, but there is no token. Nothing was started.",
                hint=Hint(action("token add", "NAME"), " creates one; without --host only this machine has access."),
            )
        await patience.rest(outage)
    interfaces = assemble(rowen, trusts_loopback=is_local, works=works)
    connections = OpenConnections(settings, files=raise_file_limit())
    config = uvicorn.Config(
        interfaces.asgi,
        http=connections.protocol,  # type: ignore[arg-type]
        ws="none",
        backlog=ACCEPTED_AT_ONCE,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        timeout_graceful_shutdown=_GRACE_S,
    )
    server = HttpServer(config)

    def stop() -> None:
        interfaces.close()
        server.should_exit = True

    with _listen(settings.host, settings.port) as listening:
        started(_address(settings.host, listening.getsockname()[1]), stop)
        watch = asyncio.create_task(connections.watch())
        try:
            await server.serve(sockets=[listening])
        finally:
            await end([watch])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as problem:
        raise ConfigurationError(
            f"Cannot listen on {_address(host, port)}: {problem.strerror}.",
            hint="Another program may use the port; --port sets another one.",
        ) from None
    # Inherited by each connection. An answer has two packets, head and body; the second would otherwise wait 40 ms for
    # the acknowledgement of the first. asyncio sets this only for sockets that name their protocol.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _address(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
