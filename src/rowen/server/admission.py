"""Authenticate and authorize HTTP requests by host, origin, token, session and scope; show the login pages."""

import base64
import binascii
import logging
from datetime import UTC, datetime
from html import escape
from urllib.parse import parse_qs, quote, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Asked

from rowen.errors import Hint, RefusedError, RowenError, UnauthenticatedError, UsageError, action
from rowen.interfaces.rest.derived import Requirement
from rowen.interfaces.rest.document import OPEN
from rowen.interfaces.rest.problems import response_of
from rowen.model.access import NewSession, Principal, Scope
from rowen.operations import Rowen
from rowen.operations.limits import Buckets
from rowen.server.layers import wants_page
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

log = logging.getLogger(__name__)

LOCAL = Principal("local", Scope.ADMIN)
"""A user of this machine, if the server listens on the loopback interface only."""
PUBLIC = Principal("public", Scope.READ)

SESSION = "rowen_session"
"""The name of the session cookie, without its prefix."""
_PROBES = ("/healthz", "/readyz")
_OWN = ("/login", "/login/oidc", "/login/callback", "/logout")
# Headers that a proxy adds; if the settings name no proxy, they come from an unknown one.
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
# Each tool checks the scope that it needs.
_MCP = "/mcp"
# The theme is stored in the browser only.
_HARMLESS = ("/theme",)
# A person mistypes a token twice; thirty wrong ones in a minute are guesses.
_WRONG_PER_MINUTE = 30


class Admission:
    """The layer that identifies the caller or refuses the request."""

    def __init__(self, app: ASGIApp, rowen: Rowen, *, trusts_loopback: bool) -> None:
        self._app = app
        self._rowen = rowen
        self._trusts_loopback = trusts_loopback
        settings = rowen.settings
        self._names = {settings.host.lower(), *(name.lower() for name in settings.hosts)}
        self._own = {origin_host(settings.public_url)} if settings.public_url else set()
        self._names |= {host for host, _ in self._own}
        self._cors = frozenset(settings.cors_origins)
        # Created now, so that a wrong identity provider fails at the start of the server.
        self._identify = rowen.access.identify
        self._rates = Buckets(per_minute=settings.requests_per_minute)
        self._wrong = Buckets(per_minute=_WRONG_PER_MINUTE)

    async def __call__(self, scope: Asked, receive: Receive, send: Send) -> None:
        """Pass a request on with its principal, or refuse it."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        state = scope.setdefault("state", {})
        try:
            state["principal"] = await self._admit(scope)
        except UnauthenticatedError as problem:
            if scope["method"] != "GET" or not wants_page(scope):
                return await response_of(problem)(scope, receive, send)
            target = quote(path_of(scope), safe="/")
            login = RedirectResponse(f"{scope.get('root_path', '')}/login?next={target}", 303)
            return await login(scope, receive, send)
        except RowenError as problem:
            return await response_of(problem)(scope, receive, send)
        return await self._app(scope, receive, send)

    async def _admit(self, scope: Asked) -> Principal | None:
        path, method = path_of(scope), scope["method"]
        if path in _PROBES:
            return None
        # A foreign site may point its own name to this machine (DNS rebinding).
        host = host_of(scope)
        if not host:
            raise UsageError("The request does not say which host it is for.")
        if host not in self._names and not is_loopback(host) and not is_address(host):
            raise RefusedError(
                f"{host!r} is not a name of this server. Nothing was done.",
                hint="The operator sets its names by ROWEN_PUBLIC_URL or ROWEN_HOSTS.",
            )
        if "\x00" in path or b"%00" in scope["query_string"]:
            raise UsageError("The address contains a NUL character, which is not allowed. Nothing was done.")
        if method not in SAFE:
            self._check_origin(scope)
        if path.startswith(OPEN) or path in _OWN:
            self._rates.take(place_of(scope))
            return None
        if method == "OPTIONS" and headers_of(scope).get("origin") in self._cors:
            return PUBLIC
        # Set before the request may be refused, so that the log names the caller.
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

    def _check_origin(self, scope: Asked) -> None:
        """Refuse writes from pages of other sites, by the headers Sec-Fetch-Site and Origin."""
        headers = headers_of(scope)
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin in self._cors and headers.get("authorization"):
            return
        if site is not None:
            is_ours = site in ("same-origin", "none")
        else:
            own = origin_host(f"{scope.get('scheme', 'http')}://{headers.get('host', '')}")
            is_ours = origin is None or origin_host(origin) in {*self._own, own}
        if not is_ours:
            raise RefusedError(
                "The request comes from a page of another site. Nothing was done.",
                hint="ROWEN_CORS_ORIGINS lists the origins whose pages may call this server, with a token.",
            )

    def _is_from_other_site(self, scope: Asked) -> bool:
        """Return whether the request follows a link on another site; refuse other requests from other sites."""
        headers = headers_of(scope)
        if headers.get("sec-fetch-site", "none") in ("same-origin", "none"):
            return False
        if headers.get("origin") in self._cors and (headers.get("authorization") or self._rowen.settings.public_read):
            return False
        if (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == ("navigate", "document"):
            return True
        raise RefusedError(
            "A page of another site tries to embed or fetch this. Nothing was done.",
            hint="Links to it work. ROWEN_CORS_ORIGINS lists the origins whose pages may send requests, with a token.",
        )

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
        # Over TLS the plain name is ignored: a sibling host can set it.
        target = cookie_name(scope, SESSION)
        for name, value in cookies_of(scope):
            if name == target and (session := await self._rowen.access.identify_session(value)):
                return session
        # A request comes from this machine if no proxy passed it on and the host name is local; a Unix socket has no
        # client address.
        client, headers = client_of(scope), headers_of(scope)
        is_near = (not client or is_loopback(client)) and is_loopback(host_of(scope))
        if self._trusts_loopback and is_near and not any(name in headers for name in _FORWARDED):
            return LOCAL
        if self._rowen.settings.public_read:
            return PUBLIC
        raise UnauthenticatedError("A token is required. Nothing was done.", hint=_HINT)


_HINT = Hint("Send it as `Authorization: Bearer …`. The operator creates one: ", action("token add", "NAME"), ".")


def caller_of(scope: Asked) -> str:
    """Return the name under which a caller's requests are counted: a token, a person or an anonymous address."""
    principal: Principal | None = scope["state"].get("principal")
    return place_of(scope) if principal in (None, PUBLIC) else f"@{principal.name}"


def _secret(scope: Asked) -> str | None:
    """Return the token of a request, which may be sent as a password, for feed readers that support nothing else.

    Return None if there is none.
    """
    kind, _, value = headers_of(scope).get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    # A browser sends a stored password by itself, also with requests of foreign pages.
    if kind.lower() == "basic" and scope["method"] in SAFE:
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            return ""
    return None


def allowed_next(path: str) -> str:
    """Return `path` if it is a path of this server, otherwise "/"; the login redirects there."""
    try:
        parts = urlsplit(path)
    except ValueError:
        return "/"
    plain = path.startswith("/") and not path.startswith(("//", "/\\")) and not parts.scheme and not parts.netloc
    return path if plain and path.isprintable() and "\\" not in path else "/"


_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>Log in to Rowen</title>
<link rel="icon" href="data:,">
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 26rem; margin: 15vh auto 0; padding: 1.5rem; }}
label, input, button {{ display: block; width: 100%; box-sizing: border-box; font: inherit; }}
input, button {{ padding: .6rem .8rem; margin: .4rem 0 1rem; }}
.wrong {{ border-left: 4px solid #c0392b; padding-left: .8rem; }}
</style></head><body><main><h1>Rowen</h1>{trouble}
<form method="post" action="{base}/login"><input type="hidden" name="next" value="{next}">
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button>Log in</button></form>{people}
<p>The operator of this server creates one: <code>rowen token add NAME --scope read</code></p></main></body></html>"""

_WRONG = '<p class="wrong" role="alert">This token is unknown or has expired.</p>'
_STRANGER = '<p class="wrong" role="alert">The login was not started here, or you have no role with access.</p>'
_PEOPLE = '<p><a href="{link}">Log in with your account</a></p>'
_ONWARD = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={address}"><title>Rowen</title>'
)
_PENDING = "rowen_login"
# Long enough to find a second factor.
_PENDING_S = 600
# Ten tries a minute are enough for a person.
_TRIES_PER_MINUTE = 10


def login_routes(rowen: Rowen) -> list[BaseRoute]:
    """Return the routes of the login page."""
    tries = Buckets(per_minute=_TRIES_PER_MINUTE)

    async def show(request: Request) -> Response:
        return _form(request, allowed_next(request.query_params.get("next", "/")), rowen=rowen)

    async def log_in(request: Request) -> Response:
        tries.take(place_of(request.scope))
        form = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=10)
        target = allowed_next(form.get("next", ["/"])[0])
        session = await rowen.access.open_session(form.get("token", [""])[0].strip())
        if session is None:
            return _form(request, target, trouble=_WRONG, rowen=rowen)
        answer = RedirectResponse(request.scope.get("root_path", "") + target, 303)
        _set_cookie(answer, request, session.secret, _left_s(session))
        return answer

    async def log_out(request: Request) -> Response:
        if secret := request.cookies.get(cookie_name(request.scope, SESSION)):
            await rowen.access.close_session(secret)
        answer = RedirectResponse(request.scope.get("root_path", "") + "/login", 303)
        _set_cookie(answer, request, "", 0)
        return answer

    async def leave_for_provider(request: Request) -> Response:
        target = allowed_next(request.query_params.get("next", "/"))
        address, pending = await rowen.access.begin_login(_back_to(request, rowen))
        answer = RedirectResponse(address, 303)
        # The cookie proves that this browser started the login; lax, since another site redirects back.
        name, is_safe = cookie_name(request.scope, _PENDING), request.url.scheme == "https"
        value = f"{pending}.{target}"
        answer.set_cookie(name, value, max_age=_PENDING_S, path="/", secure=is_safe, httponly=True, samesite="lax")
        return answer

    async def come_back(request: Request) -> Response:
        pending = cookie_name(request.scope, _PENDING)
        state, nonce, verifier, target = [*request.cookies.get(pending, "").split(".", 3), "", "", "", ""][:4]
        query = request.query_params
        session = await rowen.access.finish_login(
            code=query.get("code", ""),
            state=query.get("state", ""),
            kept=f"{state}.{nonce}.{verifier}",
            back_to=_back_to(request, rowen),
        )
        if session is None:
            return _form(request, "/", trouble=_STRANGER, rowen=rowen)
        # A strict cookie is not sent with a redirect from another site, so a page of this server redirects once more.
        address = escape(request.scope.get("root_path", "") + allowed_next(target))
        answer = HTMLResponse(_ONWARD.format(address=address), headers={"Cache-Control": "no-store"})
        _set_cookie(answer, request, session.secret, _left_s(session))
        answer.delete_cookie(pending, path="/", secure=request.url.scheme == "https", httponly=True, samesite="lax")
        return answer

    return [
        Route("/login", show, methods=["GET"]),
        Route("/login/oidc", leave_for_provider, methods=["GET"]),
        Route("/login/callback", come_back, methods=["GET"]),
        Route("/login", log_in, methods=["POST"]),
        Route("/logout", log_out, methods=["POST"]),
    ]


def _back_to(request: Request, rowen: Rowen) -> str:
    """Return the registered redirect URI, under the public address if one is set."""
    base = rowen.settings.public_url or f"{request.url.scheme}://{request.url.netloc}"
    return f"{base.rstrip('/')}/login/callback"


def _left_s(session: NewSession) -> int:
    return max(0, int((session.expires_at - datetime.now(UTC)).total_seconds()))


def _set_cookie(answer: Response, request: Request, secret: str, left_s: int) -> None:
    """Set the session cookie; over TLS, its `__Host-` prefix requires Secure, Path=/ and no domain."""
    is_safe = request.url.scheme == "https"
    name = cookie_name(request.scope, SESSION)
    answer.set_cookie(name, secret, max_age=left_s, path="/", secure=is_safe, httponly=True, samesite="strict")


def _form(request: Request, target: str, *, rowen: Rowen, trouble: str = "") -> Response:
    base = request.scope.get("root_path", "")
    link = f"{base}/login/oidc?next={quote(target)}"
    people = _PEOPLE.format(link=escape(link)) if rowen.settings.oidc_issuer else ""
    page = _PAGE.format(next=escape(target), base=escape(base), trouble=trouble, people=people)
    return HTMLResponse(page, 401 if trouble else 200, {"Cache-Control": "no-store"})
