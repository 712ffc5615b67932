"""Access tokens: list, create and revoke them; and the last writes through the server."""

from starlette.requests import Request

from rowen.errors import Hint, NotFoundError, action
from rowen.interfaces.web.forms import read_form
from rowen.interfaces.web.view import Goto, View, command, goto, takes
from rowen.model.access import AccessToken, Scope
from rowen.operations import Rowen

# Enough to see whether a token is still used, and what it is used for.
_WRITES = 20
_SCOPES = (
    (Scope.READ, "read: sees everything"),
    (Scope.WRITE, "write: adds, edits, syncs and removes sources, decides about deletions"),
    (Scope.ADMIN, "admin: also names folders and secrets, adds webhooks, and creates tokens"),
)
_DAYS = ((7, "in a week"), (30, "in a month"), (90, "in three months"), (365, "in a year"), (0, "never"))


@takes("access.list_tokens", "access.audit_log")
async def tokens(rowen: Rowen, request: Request) -> View:
    """Show all tokens without their secrets."""
    listed, writes = await rowen.access.list_tokens(), await rowen.access.audit_log(limit=_WRITES)
    facts = {"tokens": listed, "writes": writes}
    context = {**facts, "scopes": _SCOPES, "days": _DAYS}
    return View("tokens.html", "Tokens", context, facts, ("rowen token list", "rowen token add NAME --scope read"))


@takes("access.add_token")
async def add(rowen: Rowen, request: Request) -> View:
    """Create a token, and show its secret only in this response; the secret is never stored."""
    form = await read_form(request)
    names = ("name", "scope") if form.need("days") == "0" else ("name", "scope", "days")
    new = await rowen.access.add_token(**{"days": None, **form.values("access.add_token", *names)})
    same = command("token", "add", new.token.name, "--scope", str(new.token.scope))
    return View("new_token.html", f"Token {new.token.name}", {"new": new}, commands=(same,), status=201)


@takes("access.revoke_token", "access.list_tokens")
async def revoke(rowen: Rowen, request: Request) -> View | Goto:
    """Revoke a token, after a page that asks for confirmation."""
    name = request.path_params["name"]
    if request.method == "POST":
        await rowen.access.revoke_token(name)
        return goto("tokens")
    token = await _named(rowen, name)
    return View("revoke.html", f"Revoke {name}", {"token": token}, commands=(command("token", "revoke", name),))


async def _named(rowen: Rowen, name: str) -> AccessToken:
    for token in await rowen.access.list_tokens():
        if token.name == name:
            return token
    raise NotFoundError(f"There is no token {name!r}.", hint=Hint(action("token list"), " lists all."))
