"""Who is asking, and whether they may: the name that we are called by, the origin, the token, the scope."""

import base64
import binascii
import logging
from urllib.parse import quote, urlsplit

from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Asked

from rowen.errors import RefusedError, RowenError, UnauthenticatedError, UsageError
from rowen.hints import Hint, action
from rowen.interfaces.rest.access import Requirement
from rowen.interfaces.rest.document import OPEN
from rowen.interfaces.rest.problems import response_of
from rowen.model.access import Principal, Scope
from rowen.operations import Rowen
from rowen.operations.rates import Buckets
from rowen.server.problem_pages import wants_page
from rowen.server.requests import (
    SAFE,
    client_of,
    cookie_name,
    cookies_of,
    headers_of,
    host_of,
    is_address,
    is_loopback,
    origin_host,
    path_of,
    place_of,
)

__all__ = ["LOCAL", "SESSION", "Admission", "caller_of"]

log = logging.getLogger(__name__)

LOCAL = Principal("local", Scope.ADMIN)
"""Who sits at this machine, where nobody else can reach us."""
PUBLIC = Principal("public", Scope.READ)

SESSION = "rowen_session"
"""The cookie of a session, by its plain name."""
_PROBES = ("/healthz", "/readyz")
_OWN = ("/login", "/login/oidc", "/login/callback", "/logout")
# What a proxy adds. Where none is named, one that we do not know of stands between us and the world.
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
# Reading through it is what most of its requests do: each tool asks for the scope that it needs.
_MCP = "/mcp"
# How the page looks to somebody is kept in their own browser.
_HARMLESS = ("/theme",)
# A person mistypes a token twice; whoever sends thirty wrong ones in a minute is guessing.
_WRONG_PER_MINUTE = 30


class Admission:
    """The layer that says who is asking, or refuses."""

    def __init__(self, app: ASGIApp, rowen: Rowen, *, trusts_loopback: bool) -> None:
        self._app = app
        self._rowen = rowen
        self._trusts_loopback = trusts_loopback
        settings = rowen.settings
        self._names = {settings.host.lower(), *(name.lower() for name in settings.hosts)}
        self._own = {origin_host(settings.public_url)} if settings.public_url else set()
        self._names |= {host for host, _ in self._own}
        self._cors = frozenset(settings.cors_origins)
        # Made now, so that a wrong identity provider shows when the server starts.
        self._identify = rowen.identify
        self._rates = Buckets(per_minute=settings.requests_per_minute)
        self._wrong = Buckets(per_minute=_WRONG_PER_MINUTE)

    async def __call__(self, scope: Asked, receive: Receive, send: Send) -> None:
        """Let a request through with its principal, or answer it."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        state = scope.setdefault("state", {})
        try:
            state["principal"] = await self._admit(scope)
        except UnauthenticatedError as problem:
            if scope["method"] != "GET" or not wants_page(scope):
                return await response_of(problem)(scope, receive, send)
            wanted = quote(path_of(scope), safe="/")
            login = RedirectResponse(f"{scope.get('root_path', '')}/login?next={wanted}", 303)
            return await login(scope, receive, send)
        except RowenError as problem:
            return await response_of(problem)(scope, receive, send)
        return await self._app(scope, receive, send)

    async def _admit(self, scope: Asked) -> Principal | None:
        path, method = path_of(scope), scope["method"]
        if path in _PROBES:
            return None
        self._check_host(scope)
        if "\x00" in path or b"%00" in scope["query_string"]:
            raise UsageError("The address has a NUL character, which no name or text can have. Nothing was done.")
        if method not in SAFE:
            self._check_origin(scope)
        if path.startswith(OPEN) or path in _OWN:
            self._rates.take(place_of(scope))
            return None
        if method == "OPTIONS" and headers_of(scope).get("origin") in self._cors:
            return PUBLIC
        # Known before it is refused: who tried to write is written down too.
        scope["state"]["principal"] = principal = await self._identified(scope)
        scope["state"]["caller"] = caller = caller_of(scope)
        if method in ("GET", "HEAD"):
            scope["state"]["from_other_site"] = self._is_from_other_site(scope)
        if principal != LOCAL or scope["state"].get("from_other_site"):
            self._rates.take(caller)
        if not path.startswith(_MCP):
            reads = method in SAFE or path in _HARMLESS
            Requirement(Scope.READ if reads else Scope.WRITE).check(principal)
        return principal

    def _check_host(self, scope: Asked) -> None:
        """Refuse a name that is not ours: a page of a stranger may have its own name lead to this machine."""
        host = host_of(scope)
        if not host:
            raise UsageError("The request does not say which host it is for.")
        if host not in self._names and not is_loopback(host) and not is_address(host):
            raise RefusedError(
                f"This server is not called {host!r}. Nothing was done.",
                hint="Who runs it names it in ROWEN_PUBLIC_URL or ROWEN_HOSTS.",
            )

    def _check_origin(self, scope: Asked) -> None:
        """Refuse a write that a page of another site sends: browsers say so themselves (Fetch Metadata, Origin)."""
        headers = headers_of(scope)
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin in self._cors and headers.get("authorization"):
            return
        if site is not None:
            is_ours = site in ("same-origin", "none")
        else:
            is_ours = origin is None or origin_host(origin) in self._origins(scope)
        if not is_ours:
            raise RefusedError(
                "The request comes from a page of another site. Nothing was done.",
                hint="ROWEN_CORS_ORIGINS lists the origins whose pages may call this server, with a token.",
            )

    def _is_from_other_site(self, scope: Asked) -> bool:
        """Whether a link of another site was followed; what a page of another site embeds or fetches is refused."""
        headers = headers_of(scope)
        if headers.get("sec-fetch-site", "none") in ("same-origin", "none"):
            return False
        if headers.get("origin") in self._cors and (headers.get("authorization") or self._rowen.settings.public_read):
            return False
        if (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == ("navigate", "document"):
            return True
        raise RefusedError(
            "A page of another site embeds or fetches this. Nothing was done.",
            hint="Links to it can be followed. ROWEN_CORS_ORIGINS lists the origins whose pages may ask, with a token.",
        )

    def _origins(self, scope: Asked) -> set[tuple[str, int | None]]:
        called = origin_host(f"{scope.get('scheme', 'http')}://{headers_of(scope).get('host', '')}")
        return self._own | {called}

    async def _identified(self, scope: Asked) -> Principal:
        secret = _secret(scope)
        if secret is not None:
            address = place_of(scope)
            self._wrong.check(address)
            principal = await self._identify(secret)
            if principal is None:
                self._wrong.count(address)
                raise UnauthenticatedError("The token is unknown, or has expired. Nothing was done.", hint=_HINT)
            return principal
        # Over TLS the plain name counts for nothing: a neighbouring host can set it.
        wanted = cookie_name(scope, SESSION)
        for name, value in cookies_of(scope):
            if name == wanted and (session := await self._rowen.of_session(value)):
                return session
        if self._trusts_loopback and _is_local(scope):
            return LOCAL
        if self._rowen.settings.public_read:
            return PUBLIC
        raise UnauthenticatedError("This takes a token. Nothing was done.", hint=_HINT)


_HINT = Hint("Send it as `Authorization: Bearer …`; who runs this server makes one: ", action("token add", "NAME"), ".")


def caller_of(scope: Asked) -> str:
    """Who is counted as one caller: a token or a person, or an address where nobody says who asks."""
    principal: Principal | None = scope["state"].get("principal")
    return place_of(scope) if principal in (None, PUBLIC) else f"@{principal.name}"


def _is_local(scope: Asked) -> bool:
    """Whether a request can only come from this machine: no proxy brought it, and it calls us by a local name."""
    headers = headers_of(scope)
    client = client_of(scope)
    # A socket in the file system has no address.
    near = not client or is_loopback(client)
    return near and is_loopback(host_of(scope)) and not any(name in headers for name in _FORWARDED)


def _secret(scope: Asked) -> str | None:
    """The token that a request carries; as a password too, for readers of feeds that know nothing else."""
    kind, _, value = headers_of(scope).get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    # A browser would send a password by itself, also with what a stranger's page asks for.
    if kind.lower() == "basic" and scope["method"] in SAFE:
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            return ""
    return None


def allowed_next(path: str) -> str:
    """Where to go after a login: a path of ours, and no address of anybody else's."""
    parts = urlsplit(path)
    plain = path.startswith("/") and not path.startswith(("//", "/\\")) and not parts.scheme and not parts.netloc
    return path if plain and path.isprintable() and "\\" not in path else "/"
