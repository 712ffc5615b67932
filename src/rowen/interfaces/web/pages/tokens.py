"""Tokens: who may ask from elsewhere, making one, taking one back; and what was written through the server."""

from starlette.requests import Request

from rowen.errors import Hint, NotFoundError, UsageError, action
from rowen.interfaces.web.forms import read_form
from rowen.interfaces.web.view import Goto, View, command, goto, number, takes
from rowen.model.access import AccessToken, Scope
from rowen.operations import Rowen

__all__ = ["add", "revoke", "tokens"]

# What somebody looks through to see whether a token is still used, and for what.
_WRITES = 20
_SCOPES = (
    (Scope.READ, "read: sees everything"),
    (Scope.WRITE, "write: adds, edits, syncs and removes sources, decides about deletions"),
    (Scope.ADMIN, "admin: also names folders and secrets, adds receivers, and makes tokens"),
)
_HOLDS = ((7, "for a week"), (30, "for a month"), (90, "for three months"), (365, "for a year"), (0, "until revoked"))


@takes("access.list_tokens", "access.audit_log")
async def tokens(rowen: Rowen, request: Request) -> View:
    """All tokens, never themselves."""
    found, writes = await rowen.access.list_tokens(), await rowen.access.audit_log(limit=_WRITES)
    context = {"tokens": found, "writes": writes, "scopes": _SCOPES, "holds": _HOLDS}
    facts = {"tokens": found, "writes": writes}
    return View("tokens.html", "Tokens", context, facts, ("rowen token list", "rowen token add NAME --scope read"))


@takes("access.add_token")
async def add(rowen: Rowen, request: Request) -> View:
    """Make a token. Its secret is shown in this one answer, which nobody keeps and no address leads to again."""
    form = await read_form(request)
    days = number(form.need("days"))
    if days is None:
        raise UsageError("For how many days the token holds is no number. Nothing was made.")
    new = await rowen.access.add_token(form.need("name"), scope=form.need("scope"), days=days or None)
    shown = command("token", "add", new.token.name, "--scope", str(new.token.scope))
    return View("new_token.html", f"Token {new.token.name}", {"new": new}, commands=(shown,), status=201)


@takes("access.revoke_token", "access.list_tokens")
async def revoke(rowen: Rowen, request: Request) -> View | Goto:
    """Take a token back: asked for on a page of its own, and done when it is confirmed."""
    name = request.path_params["name"]
    if request.method == "POST":
        await rowen.access.revoke_token(name)
        return goto("tokens")
    held = await _named(rowen, name)
    return View("revoke.html", f"Revoke {name}", {"token": held}, commands=(command("token", "revoke", name),))


async def _named(rowen: Rowen, name: str) -> AccessToken:
    for list_token in await rowen.access.list_tokens():
        if list_token.name == name:
            return list_token
    raise NotFoundError(f"There is no token {name!r}.", hint=Hint(action("token list"), " lists all."))
