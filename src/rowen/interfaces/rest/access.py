"""Tokens, the caller, and the audit log."""

from typing import Any

from rowen.interfaces.rest.derived import RouteBody, RouteCall, RouteGroup, created, empty, list_of, page_of, plain

router = RouteGroup(tags=["access"])

_BODY = RouteBody("TokenBody", {"name": "dashboard", "scope": "read"})
_MADE = created("NewToken", lambda _: "/api/v1/tokens")


@router.derive("GET /me", answer=plain({"name": "dashboard", "scope": "read"}))
async def get_me(call: RouteCall) -> dict[str, Any]:
    """Return the caller's name and scope."""
    return {"name": call.caller.name, "scope": call.caller.scope}


router.offer("list_tokens", "GET /tokens", "access.list_tokens", list_of("AccessToken"))
router.offer("add_token", "POST /tokens", "access.add_token", _MADE, body=_BODY)
router.offer("revoke_token", "DELETE /tokens/{name}", "access.revoke_token", empty())
router.offer("list_audit", "GET /audit", "access.audit_log", page_of("AuditLine"))
