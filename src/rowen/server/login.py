"""Logging in with a browser: a token becomes a session, whose cookie no script and no other site gets."""

from datetime import UTC, datetime
from html import escape
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from rowen.server.admission import COOKIES, allowed_next
from rowen.server.limits import Buckets
from rowen.server.requests import client_of
from rowen.service import Rowen

__all__ = ["login_routes"]

_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>Log in to Rowen</title>
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
<button>Log in</button></form>
<p>Who runs this server makes one: <code>rowen token add NAME --scope read</code></p></main></body></html>"""

_WRONG = '<p class="wrong" role="alert">This token is unknown, or has expired.</p>'
# Ten tries a minute are a person who looks for the right one.
_TRIES_PER_MINUTE = 10


def login_routes(rowen: Rowen) -> list[BaseRoute]:
    """The page, and what its buttons do."""
    tries = Buckets(per_minute=_TRIES_PER_MINUTE)

    async def show(request: Request) -> Response:
        return _form(request, allowed_next(request.query_params.get("next", "/")))

    async def log_in(request: Request) -> Response:
        tries.take(client_of(request.scope))
        given = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=10)
        wanted = allowed_next(given.get("next", ["/"])[0])
        session = await rowen.open_session(given.get("token", [""])[0].strip())
        if session is None:
            return _form(request, wanted, trouble=_WRONG)
        answer = RedirectResponse(request.scope.get("root_path", "") + wanted, 303)
        left_s = max(0, int((session.expires_at - datetime.now(UTC)).total_seconds()))
        _set_cookie(answer, request, session.secret, left_s)
        return answer

    async def log_out(request: Request) -> Response:
        for name in COOKIES:
            if secret := request.cookies.get(name):
                await rowen.close_session(secret)
        answer = RedirectResponse(request.scope.get("root_path", "") + "/login", 303)
        _set_cookie(answer, request, "", 0)
        return answer

    return [
        Route("/login", show, methods=["GET"]),
        Route("/login", log_in, methods=["POST"]),
        Route("/logout", log_out, methods=["POST"]),
    ]


def _set_cookie(answer: Response, request: Request, secret: str, left_s: int) -> None:
    """Over TLS the name begins with `__Host-`: browsers take it only with Secure, Path=/ and no domain."""
    is_safe = request.url.scheme == "https"
    name = COOKIES[0] if is_safe else COOKIES[1]
    answer.set_cookie(name, secret, max_age=left_s, path="/", secure=is_safe, httponly=True, samesite="strict")


def _form(request: Request, wanted: str, *, trouble: str = "") -> Response:
    base = request.scope.get("root_path", "")
    page = _PAGE.format(next=escape(wanted), base=escape(base), trouble=trouble)
    return HTMLResponse(page, 401 if trouble else 200, {"Cache-Control": "no-store"})
