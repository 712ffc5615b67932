"""Who may call a route: a dependency that is read off again for the OpenAPI document."""

from typing import Annotated

from fastapi import Depends, Request

from rowen.errors import RefusedError
from rowen.hints import Hint, action
from rowen.model.access import Principal, Scope
from rowen.service import Rowen

__all__ = ["ADMIN", "WRITE", "Asking", "Requirement", "Service"]


class Requirement:
    """Lets a request through if who is asking may do as much."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    async def __call__(self, request: Request) -> Principal:
        """Who is asking; raises `RefusedError` if that is not enough."""
        principal: Principal = request.state.principal
        self.check(principal)
        return principal

    def check(self, principal: Principal) -> None:
        """Raise unless somebody may do as much."""
        if not principal.scope.allows(self.scope):
            raise RefusedError(
                f"{principal.name!r} may {principal.scope}, and this takes {self.scope}. Nothing was done.",
                hint=Hint("Who runs this server can make such a token: ", action("token add", scope=str(self.scope))),
            )


# What a route needs beyond reading: `dependencies=WRITE`.
WRITE = [Depends(Requirement(Scope.WRITE))]
ADMIN = [Depends(Requirement(Scope.ADMIN))]


# Dependencies are async although they await nothing: others are called in a thread, which takes a millisecond.
async def _service(request: Request) -> Rowen:
    rowen: Rowen = request.app.state.rowen
    return rowen


async def _asking(request: Request) -> Principal:
    principal: Principal = request.state.principal
    return principal


Service = Annotated[Rowen, Depends(_service)]
Asking = Annotated[Principal, Depends(_asking)]
