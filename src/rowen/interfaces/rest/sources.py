"""Sources, what may be done to them, and declarations of many at once."""

import json
from typing import Any
from urllib.parse import quote

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rowen.errors import NotFoundError, UsageError
from rowen.interfaces.rest.answers import DEFAULT_LIMIT
from rowen.interfaces.rest.derived import RouteBody, RouteCall, RouteGroup, created, fact_of, list_of, page_of, plain
from rowen.interfaces.rest.problems import ELSEWHERE
from rowen.model.sources import AppliedSource, Following, Source
from rowen.model.text import check_storable

router = RouteGroup(tags=["sources"])
declarations = RouteGroup(tags=["sources"])

_GUIDE = "https://docs.example.org/guide/"
_SOURCE = RouteBody("SourceBody", {"address": _GUIDE, "every": "6h"})
_JOB = created("Job", lambda job: f"/api/v1/jobs/{job.id}", status=202)
_URLS = RouteBody("UrlsBody", {"urls": [f"{_GUIDE}old"]})

router.offer("list_sources", "GET /sources", "sources.list", page_of("Source"), without=("counted",))
router.offer(
    "add_source",
    "POST /sources",
    "sources.add",
    created("Source", lambda source: f"/api/v1/sources/{quote(source.name, safe='')}"),
    body=_SOURCE,
    errors=ELSEWHERE,
)
router.offer("get_source", "GET /sources/{name}", "sources.get", fact_of("Source"), without=("counted",))
router.offer(
    "change_source",
    "PATCH /sources/{name}",
    "sources.edit",
    fact_of("Source"),
    body=RouteBody("SourceChangeBody", {"every": "1d"}, is_required=True),
    names={"rename": "name"},
    errors=ELSEWHERE,
)


@router.derive("DELETE /sources/{name}", "sources.remove", answer=plain({"source": "guide", "removed": 118}))
async def remove_source(call: RouteCall) -> dict[str, Any]:
    """Remove a source with all its items."""
    name = call.arguments["name"]
    return {"source": name, "removed": await call.rowen.sources.remove(name)}


router.offer("sync_source", "POST /sources/{name}/sync", "queue.enqueue", _JOB, body=RouteBody("SyncBody"))


@router.derive("POST /sources/{name}/pause", "sources.pause", answer=fact_of("Source"))
async def pause_source(call: RouteCall) -> Source:
    """Leave a source out until it is resumed."""
    await call.rowen.sources.pause(**call.arguments)
    return await call.rowen.sources.get(**call.arguments)


@router.derive("POST /sources/{name}/resume", "sources.resume", answer=fact_of("Source"))
async def resume_source(call: RouteCall) -> Source:
    """Resume a paused source."""
    await call.rowen.sources.resume(**call.arguments)
    return await call.rowen.sources.get(**call.arguments)


router.offer("list_items", "GET /sources/{name}/items", "items.browse", page_of("ItemLine"))
router.offer(
    "list_announced",
    "GET /sources/{name}/announced",
    "sources.announcements",
    list_of("AnnouncedDocument"),
    defaults={"limit": DEFAULT_LIMIT},
)
router.offer("list_following", "GET /following", "sources.list_following", list_of("Following"), only=())


@router.derive("GET /sources/{name}/following", "sources.following", answer=fact_of("Following"))
async def follow_up_source(call: RouteCall) -> Following:
    """Return how a feed or an event stream is followed."""
    following = await call.rowen.sources.following(**call.arguments)
    if following is None:
        raise NotFoundError(f"Source {call.arguments['name']!r} is neither a feed nor an event stream.")
    return following


router.offer("find_version", "GET /versions", "sources.find_version", fact_of("FoundVersion"))

_HELD: dict[str, Any] = {"tags": ["held deletions"]}
_DECIDED = plain({"source": "guide", "accepted": 1, "kept": 0})

router.offer("list_held", "GET /held", "deletions.list", page_of("HeldDeletion"), without=("source",), **_HELD)
router.offer("list_held_of_source", "GET /sources/{name}/held", "deletions.list", page_of("HeldDeletion"), **_HELD)


@router.derive("POST /sources/{name}/held/accept", "deletions.accept", answer=_DECIDED, body=_URLS, **_HELD)
async def accept_held(call: RouteCall) -> dict[str, Any]:
    """Delete items whose deletion is pending; all of them or none."""
    accepted = await call.rowen.deletions.accept(**call.arguments)
    return {"source": call.arguments["source"], "accepted": accepted, "kept": 0}


@router.derive("POST /sources/{name}/held/keep", "deletions.keep", answer=_DECIDED, body=_URLS, **_HELD)
async def keep_held(call: RouteCall) -> dict[str, Any]:
    """Keep items that their source no longer shows; all of them or none."""
    kept = await call.rowen.deletions.keep(**call.arguments)
    return {"source": call.arguments["source"], "accepted": 0, "kept": kept}


class DeclarationBody(BaseModel):
    """Sources as they are to be: the content of a file for `rowen apply`."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"example": {"source": [{"name": "guide", "kind": "web", "url": _GUIDE, "every": "6h"}]}},
    )

    _storable = model_validator(mode="before")(check_storable)

    # The largest known list of portals has two thousand entries.
    source: list[dict[str, Any]] = Field(default=[], max_length=10_000, description="One for each source.")
    portals: list[dict[str, Any]] = Field(default=[], max_length=10_000, description="Another name for `source`.")


TOML = "application/toml"
_FILE = '[[source]]\nname = "guide"\nkind = "web"\nurl = "https://docs.example.org/guide/"\nevery = "6h"\n'
# The framework does not select the body type by `Content-Type`.
_DECLARATION: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": DeclarationBody.model_json_schema()},
            TOML: {"schema": {"type": "string"}, "example": _FILE},
        },
    }
}


@declarations.derive(
    "POST /apply",
    "sources.declare",
    answer=list_of("AppliedSource"),
    without=("declaration",),
    errors=ELSEWHERE,
    openapi_extra=_DECLARATION,
)
async def apply_declaration(call: RouteCall) -> list[AppliedSource]:
    """Make the sources match a declaration, all or nothing: as JSON, or as the TOML of a file for `rowen apply`."""
    content_type = call.request.headers.get("content-type", "")
    return await call.rowen.sources.declare(_declaration(content_type, await call.request.body()), **call.arguments)


def _declaration(content_type: str, body: bytes) -> str | dict[str, Any]:
    """Return a declaration as the text of a TOML file, or as values from JSON."""
    try:
        text = body.decode("utf-8")
        if content_type.partition(";")[0].strip().lower() == TOML:
            return text
        return DeclarationBody.model_validate(json.loads(text)).model_dump(exclude_defaults=True)
    except ValidationError as problem:
        wrong = [{**error, "loc": ("body", *error["loc"])} for error in problem.errors(include_url=False)]
        raise RequestValidationError(wrong) from None
    except (ValueError, RecursionError):
        raise UsageError(
            "The declaration is neither JSON nor said to be TOML. Nothing was done.",
            hint=f"Send a file with Content-Type: {TOML}.",
        ) from None


declarations.offer(
    "preview_source",
    "POST /preview",
    "sources.preview",
    fact_of("Preview"),
    body=RouteBody("PreviewBody", {"address": _GUIDE}),
    errors=ELSEWHERE,
)
