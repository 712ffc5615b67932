"""Routes whose answers cost much: they are limited, and no page of another site can have them made."""

from fastapi.routing import APIRoute
from starlette.types import Receive, Scope, Send

from rowen.errors import RefusedError
from rowen.operations import Rowen

__all__ = ["CostlyRoute"]


class CostlyRoute(APIRoute):
    """A route whose answer is made and sent within the limits of exports."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse before anything is done."""
        state = scope["state"]
        if state.get("from_other_site"):
            raise RefusedError(
                "The request comes from a page of another site. Nothing was done.",
                hint="Open the address by itself, or ask for it with a program.",
            )
        rowen: Rowen = scope["app"].state.rowen
        with rowen.limits.export(state["caller"]):
            await super().handle(scope, receive, send)
