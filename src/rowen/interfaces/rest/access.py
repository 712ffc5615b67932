"""Who may call a route: a dependency that is read off again for the OpenAPI document."""

from typing import Annotated

from fastapi import Depends, Request
from fastapi.params import Depends as DependsParameter

from rowen.errors import Hint, RefusedError, action
from rowen.model.access import Principal, Scope
from rowen.operations import Rowen
from rowen.operations.registry import scope_of

__all__ = ["Asking", "Requirement", "Service", "takes"]


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


def takes(*operations: str) -> list[DependsParameter]:
    """Declare the operations that a route calls, if they take more than the scope read: `dependencies=takes("add")`."""
    return [Depends(Requirement(scope_of(operations)))]


# Dependencies are async although they await nothing: others are called in a thread, which takes a millisecond.
async def _service(request: Request) -> Rowen:
    rowen: Rowen = request.app.state.rowen
    return rowen


async def _asking(request: Request) -> Principal:
    principal: Principal = request.state.principal
    return principal


Service = Annotated[Rowen, Depends(_service)]
Asking = Annotated[Principal, Depends(_asking)]
