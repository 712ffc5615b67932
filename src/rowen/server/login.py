"""Logging in with a browser: a token becomes a session, whose cookie no script and no other site gets."""

from datetime import UTC, datetime
from html import escape
from urllib.parse import parse_qs, quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from rowen.model.access import NewSession
from rowen.operations import Rowen
from rowen.operations.rates import Buckets
from rowen.server.admission import SESSION, allowed_next
from rowen.server.requests import cookie_name, place_of

__all__ = ["login_routes"]

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
<p>Who runs this server makes one: <code>rowen token add NAME --scope read</code></p></main></body></html>"""

_WRONG = '<p class="wrong" role="alert">This token is unknown, or has expired.</p>'
_STRANGER = '<p class="wrong" role="alert">The login was not begun here, or you have no role that may ask.</p>'
_PEOPLE = '<p><a href="{link}">Log in with your account</a></p>'
_ONWARD = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={address}"><title>Rowen</title>'
)
_PENDING = "rowen_login"
# Long enough to look for a second factor.
_PENDING_S = 600
# Ten tries a minute are a person who looks for the right one.
_TRIES_PER_MINUTE = 10


def login_routes(rowen: Rowen) -> list[BaseRoute]:
    """The page, and what its buttons do."""
    tries = Buckets(per_minute=_TRIES_PER_MINUTE)

    async def show(request: Request) -> Response:
        return _form(request, allowed_next(request.query_params.get("next", "/")), rowen=rowen)

    async def log_in(request: Request) -> Response:
        tries.take(place_of(request.scope))
        given = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=10)
        wanted = allowed_next(given.get("next", ["/"])[0])
        session = await rowen.open_session(given.get("token", [""])[0].strip())
        if session is None:
            return _form(request, wanted, trouble=_WRONG, rowen=rowen)
        answer = RedirectResponse(request.scope.get("root_path", "") + wanted, 303)
        _set_cookie(answer, request, session.secret, _left_s(session))
        return answer

    async def log_out(request: Request) -> Response:
        if secret := request.cookies.get(cookie_name(request.scope, SESSION)):
            await rowen.close_session(secret)
        answer = RedirectResponse(request.scope.get("root_path", "") + "/login", 303)
        _set_cookie(answer, request, "", 0)
        return answer

    async def leave_for_provider(request: Request) -> Response:
        wanted = allowed_next(request.query_params.get("next", "/"))
        address, kept = await rowen.begin_login(_back_to(request, rowen))
        answer = RedirectResponse(address, 303)
        _keep(answer, request, f"{kept}.{wanted}")
        return answer

    async def come_back(request: Request) -> Response:
        pending = cookie_name(request.scope, _PENDING)
        state, nonce, verifier, wanted = [*request.cookies.get(pending, "").split(".", 3), "", "", "", ""][:4]
        told = request.query_params
        session = await rowen.finish_login(
            code=told.get("code", ""),
            state=told.get("state", ""),
            kept=f"{state}.{nonce}.{verifier}",
            back_to=_back_to(request, rowen),
        )
        if session is None:
            return _form(request, "/", trouble=_STRANGER, rowen=rowen)
        # A strict cookie is not sent with what another site began, so that a page of ours has to lead on.
        address = escape(request.scope.get("root_path", "") + allowed_next(wanted))
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
    """Where the provider sends a browser back to: what is registered there, so the public address if one is set."""
    base = rowen.settings.public_url or f"{request.url.scheme}://{request.url.netloc}"
    return f"{base.rstrip('/')}/login/callback"


def _keep(answer: Response, request: Request, value: str) -> None:
    """What proves that this browser began the login; lax, since another site leads back to us."""
    name, is_safe = cookie_name(request.scope, _PENDING), request.url.scheme == "https"
    answer.set_cookie(name, value, max_age=_PENDING_S, path="/", secure=is_safe, httponly=True, samesite="lax")


def _left_s(session: NewSession) -> int:
    return max(0, int((session.expires_at - datetime.now(UTC)).total_seconds()))


def _set_cookie(answer: Response, request: Request, secret: str, left_s: int) -> None:
    """Over TLS the name begins with `__Host-`: browsers take it only with Secure, Path=/ and no domain."""
    is_safe = request.url.scheme == "https"
    name = cookie_name(request.scope, SESSION)
    answer.set_cookie(name, secret, max_age=left_s, path="/", secure=is_safe, httponly=True, samesite="strict")


def _form(request: Request, wanted: str, *, rowen: Rowen, trouble: str = "") -> Response:
    base = request.scope.get("root_path", "")
    link = f"{base}/login/oidc?next={quote(wanted)}"
    people = _PEOPLE.format(link=escape(link)) if rowen.settings.oidc_issuer else ""
    page = _PAGE.format(next=escape(wanted), base=escape(base), trouble=trouble, people=people)
    return HTMLResponse(page, 401 if trouble else 200, {"Cache-Control": "no-store"})
