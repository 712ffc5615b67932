"""The HTTP server itself, on an address that may be asked by whom it reaches."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator

import uvicorn

from rowen.concurrency import end
from rowen.errors import ConfigurationError, RefusedError, StoreUnavailableError
from rowen.hints import Hint, action
from rowen.operations import Rowen
from rowen.server.app import assemble
from rowen.server.connections import ACCEPTED_AT_ONCE, OpenConnections, raise_file_limit
from rowen.server.requests import is_loopback
from rowen.store.database import Patience

__all__ = ["HttpServer", "serve"]

# Answers under way take less; what follows something has been told to end.
_GRACE_S = 10
_BACKLOG = 2048


class HttpServer(uvicorn.Server):
    """uvicorn, without its own way with signals: who started it has one."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin; what is not accepted yet waits in the system, which has more room than what is accepted at once."""
        await super().startup(sockets)
        for listening in sockets or []:
            listening.listen(_BACKLOG)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


async def serve(
    rowen: Rowen,
    *,
    works: bool = True,
    started: Callable[[str, Callable[[], None]], None] = lambda *_: None,
    patience: Patience | None = None,
) -> None:
    """Answer until told to stop. `started` hears the address, and gets what stops it.

    With `patience` an outage of the database at the start is waited out.
    """
    settings = rowen.settings
    near = is_loopback(settings.host)
    if not near:
        await _refuse_open(rowen, patience)
    interfaces = assemble(rowen, trusts_loopback=near, works=works)
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

    listening = _listen(settings.host, settings.port)
    with listening:
        started(_address(settings.host, listening.getsockname()[1]), stop)
        watch = asyncio.create_task(connections.watch())
        try:
            await server.serve(sockets=[listening])
        finally:
            await end([watch])


async def _refuse_open(rowen: Rowen, patience: Patience | None) -> None:
    """Refuse to answer strangers where nothing says who may ask."""
    if rowen.settings.oidc_issuer or rowen.settings.public_read or await _has_tokens(rowen, patience):
        return
    raise RefusedError(
        f"{rowen.settings.host} can be reached from outside, and nobody has a token. Nothing was started.",
        hint=Hint(action("token add", "NAME"), " makes one; without --host only this machine can ask."),
    )


async def _has_tokens(rowen: Rowen, patience: Patience | None) -> bool:
    while True:
        try:
            return bool(await rowen.tokens())
        except StoreUnavailableError as problem:
            if patience is None:
                raise
            outage = problem
        await patience.rest(outage)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as problem:
        raise ConfigurationError(
            f"{_address(host, port)} cannot be listened on: {problem.strerror}.",
            hint="Another program may have the port; --port takes another one.",
        ) from None
    # Inherited by each connection. An answer goes out in two pieces, head and body; the second would otherwise wait for
    # the client to confirm the first, which takes 40 ms. asyncio sees to that only where a socket names its protocol.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _address(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
