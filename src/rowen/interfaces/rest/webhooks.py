"""Webhooks and notices: their receivers, and the deliveries to them.

Their secrets are named by where they are stored on the server, so that only an administrator adds one.
"""

from typing import Annotated
from urllib.parse import quote

from msgspec import Meta

from rowen.errors import NotFoundError
from rowen.interfaces.rest.derived import RouteBody, RouteCall, RouteGroup, created, empty, fact_of, list_of, plain
from rowen.model.webhooks import Webhook

router = RouteGroup(tags=["webhooks"])

_Name = Annotated[str, Meta(description="Name of the webhook or notice.")]
_ADDED = created("Webhook", lambda added: f"/api/v1/webhooks/{quote(added.name, safe='')}")
_WEBHOOK = {"name": "builds", "url": "https://ci.example.org/hook", "secret": "env:HOOK_SECRET"}
_DELIVERED = {"webhook": "builds", "delivered": 3}

router.offer("list_webhooks", "GET /webhooks", "webhooks.list", list_of("Webhook"))
router.offer("add_webhook", "POST /webhooks", "webhooks.add", _ADDED, body=RouteBody("WebhookBody", _WEBHOOK))
router.offer("list_notices", "GET /notices", "webhooks.list_notices", list_of("Webhook"))
router.offer("add_notice", "POST /notices", "webhooks.add_notice", _ADDED, body=RouteBody("NoticeBody"))


@router.derive("GET /webhooks/{name}", "webhooks.list", answer=fact_of("Webhook"), adds={"name": (_Name, ...)})
async def get_webhook(call: RouteCall) -> Webhook:
    """Return one webhook or notice."""
    name = call.added["name"]
    receivers = [*await call.rowen.webhooks.list(), *await call.rowen.webhooks.list_notices()]
    receiver = next((receiver for receiver in receivers if receiver.name == name), None)
    if receiver is None:
        raise NotFoundError(f"There is no receiver {name!r}.")
    return receiver


router.offer("remove_webhook", "DELETE /webhooks/{name}", "webhooks.remove", empty())
router.offer("pause_webhook", "POST /webhooks/{name}/pause", "webhooks.pause", fact_of("Webhook"))
router.offer("resume_webhook", "POST /webhooks/{name}/resume", "webhooks.resume", fact_of("Webhook"))
router.offer(
    "rotate_webhook",
    "POST /webhooks/{name}/rotate",
    "webhooks.rotate",
    fact_of("Webhook"),
    body=RouteBody("RotateBody"),
)


@router.derive("POST /webhooks/{name}/deliver", "webhooks.deliver", answer=plain(_DELIVERED))
async def deliver_webhook(call: RouteCall) -> dict[str, object]:
    """Call a receiver now, and return the number of changes that it acknowledged."""
    name = call.arguments["name"]
    return {"webhook": name, "delivered": await call.rowen.webhooks.deliver(name)}


router.offer("list_deliveries", "GET /webhooks/{name}/deliveries", "webhooks.deliveries", list_of("Delivery"))
