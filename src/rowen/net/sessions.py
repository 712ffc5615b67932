"""Connections: straight ones, guarded where the socket is made, and those that a proxy makes for us."""

import asyncio
import ssl
from types import SimpleNamespace
from typing import TYPE_CHECKING

from yarl import URL

from rowen.net.encoding import ACCEPT_ENCODING
from rowen.net.guard import AddressGuard
from rowen.net.target import Target
from rowen.net.tls import aiohttp
from rowen.settings import Settings
from rowen.version import __version__

if TYPE_CHECKING:
    from aiohttp.abc import AbstractResolver

__all__ = ["USER_AGENT", "Sessions"]

USER_AGENT = f"Rowen/{__version__}"

# Sites with long security policies send header lines beyond aiohttp's 8 kB.
_HEADER_BYTES = 1 << 16
# Longer than the longest pause between two pages of a polite walk, crawl delays aside; servers close idle connections
# after 5 to 75 s, and one that is closed under us costs one more try.
_KEEPALIVE_S = 30.0
# Names are looked up again after ten seconds anyway: more than the hosts of those are of no use.
_NAMES_KEPT = 1_000


def _departures() -> aiohttp.TraceConfig:
    """Tells each permit when its request has left, which may be long after it was given: a connection takes time.

    aiohttp tells it before it writes the head in this turn of the loop, or head and body in the next one. A process
    that is starved may lose its processor in between for longer than the gap, so the permit is told after both.
    """

    async def departing(_: aiohttp.ClientSession, context: SimpleNamespace, __: object) -> None:
        loop, permit = asyncio.get_running_loop(), context.trace_request_ctx
        loop.call_soon(loop.call_soon, permit.sent)

    traced = aiohttp.TraceConfig()
    traced.on_request_headers_sent.append(departing)
    return traced


class Sessions:
    """The connections of one client, kept alive between requests."""

    def __init__(
        self,
        settings: Settings,
        *,
        proxy: str | None = None,
        resolver: "AbstractResolver | None" = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._settings = settings
        self._guard = AddressGuard(settings.allow_addresses)
        self._tls: ssl.SSLContext | bool = tls or True
        self._direct = self._session(guarded=True, resolver=resolver)
        self._proxied = None
        if proxy is not None:
            # Whoever asks for one page may name it, so it is guarded as all else that is named so.
            self._proxied = self._session(guarded=True, proxy=URL(proxy))
        elif settings.proxy is not None:
            self._proxied = self._session(guarded=False, proxy=URL(settings.proxy.get_secret_value()))

    def of(self, target: Target) -> aiohttp.ClientSession:
        """The session for a target; raises `AddressRefusedError` for one that a proxy must not be sent to."""
        if self._proxied is None or self._bypassed(target.host):
            return self._direct
        self._guard.check_name(target.host)
        return self._proxied

    async def close(self) -> None:
        """Close every connection."""
        await self._direct.close()
        if self._proxied is not None:
            await self._proxied.close()

    def _session(
        self, *, guarded: bool, resolver: "AbstractResolver | None" = None, proxy: URL | None = None
    ) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=0,
            resolver=resolver,
            ssl=self._tls,
            dns_cache_max_size=_NAMES_KEPT,
            keepalive_timeout=_KEEPALIVE_S,
            socket_factory=self._guard.open_socket if guarded else None,
        )
        return aiohttp.ClientSession(
            connector=connector,
            proxy=proxy,
            headers={"User-Agent": self._settings.user_agent or USER_AGENT, "Accept-Encoding": ACCEPT_ENCODING},
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trace_configs=[_departures()],
            max_line_size=_HEADER_BYTES,
            max_field_size=_HEADER_BYTES,
        )

    def _bypassed(self, host: str) -> bool:
        name = host if host.startswith("[") else host.partition(":")[0]
        return any(
            rule == "*" or name == (domain := rule.lstrip("*.")) or name.endswith(f".{domain}")
            for rule in self._settings.no_proxy
        )
