"""What requests may carry; a field that is not known is an error, so that a misspelt one is not ignored."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rowen.model.text import check_storable
from rowen.model.wording import LONGEST_NAME

__all__ = [
    "CarryBody",
    "DeclarationBody",
    "EndpointBody",
    "EndpointPushBody",
    "ExtractBody",
    "ExtractSourceBody",
    "PokeBody",
    "PreviewBody",
    "SchemaBody",
    "SourceBody",
    "SourceChangeBody",
    "SubscribeBody",
    "SyncBody",
    "UrlsBody",
]

_Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
# A thousand at once: as many as a person looks through, and some.
_MOST_URLS = 1000

# An integer of the database.
_MOST_ITEMS = 2**31 - 1

# The largest list of portals that is known has two thousand.
_MOST_DECLARED = 10_000


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")

    _storable = model_validator(mode="before")(check_storable)


class _Schedule(_Body):
    every: str | None = Field(default=None, description="how often: `6h`, `1d`, `auto`; `none`: no schedule")
    cron: str | None = Field(default=None, description="a cron expression instead: `0 6 * * 1-5`")
    tz: str | None = Field(default=None, description="its time zone: `Europe/Berlin`")
    during: str | None = Field(default=None, description="only during these hours: `mon-fri 20:00-06:00`")

    @property
    def when(self) -> Any:
        """The schedule as the service takes it."""
        return self.model_dump(include={"every", "cron", "tz", "during"})


class SourceBody(_Schedule):
    """A source to keep a copy of."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"address": "https://docs.example.org/guide/", "every": "6h"}}
    )

    address: str = Field(min_length=1, max_length=4000, description="a URL, `pypi:NAME`, `npm:NAME`; or a folder")
    name: str | None = Field(
        default=None, min_length=1, max_length=LONGEST_NAME, description="default: made from the address"
    )
    kind: str | None = Field(default=None, description="which connector reads it; default: found out")
    options: dict[str, Any] = Field(default={}, description="options of the kind")


class SourceChangeBody(_Schedule):
    """What is to differ of a source; what is not named stays."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"every": "1d"}})

    name: _Name | None = Field(default=None, description="its new name")
    options: dict[str, Any] = Field(default={}, description="options to change; null goes back to the default")


class PreviewBody(_Body):
    """An address to look at."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"address": "https://docs.example.org/guide/"}}
    )

    address: str = Field(min_length=1, max_length=4000)
    kind: str | None = Field(default=None, description="which connector reads it; default: found out")
    options: dict[str, Any] = Field(default={}, description="options of the kind")
    limit: int = Field(default=5, ge=1, le=20, description="at most so many items")


class DeclarationBody(_Body):
    """Sources as they are to be: what a file for `rowen apply` holds."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {
                "source": [
                    {"name": "guide", "kind": "web", "url": "https://docs.example.org/guide/", "every": "6h"},
                ]
            }
        },
    )

    source: list[dict[str, Any]] = Field(default=[], max_length=_MOST_DECLARED, description="one for each source")
    portals: list[dict[str, Any]] = Field(
        default=[], max_length=_MOST_DECLARED, description="the same, by another name"
    )


class SyncBody(_Body):
    """How a source is synced."""

    full: bool = Field(default=False, description="read and compare every item, whatever validators say")
    accept_deletions: bool = Field(default=False, description="let go what was held back")


class UrlsBody(_Body):
    """Some items."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"urls": ["https://docs.example.org/guide/old"]}}
    )

    urls: list[str] = Field(min_length=1, max_length=_MOST_URLS)


class PokeBody(_Body):
    """What changed, by somebody's word."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"targets": ["https://docs.example.org/guide/haymaking"]}}
    )

    targets: list[str] = Field(min_length=1, max_length=_MOST_URLS, description="URLs, or names of sources")


class SubscribeBody(_Body):
    """A hub to be told by."""

    topic: str | None = Field(default=None, description="a page or feed that names the hub; default: the source's")


class SchemaBody(_Body):
    """A new version of a schema."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {
                "ref": "product@1.0.0",
                "definition": {"type": "object", "properties": {"price": {"type": "number"}}},
            }
        },
    )

    ref: str = Field(description="`name@major.minor.patch`")
    definition: dict[str, Any] = Field(description="a JSON Schema")


class ExtractBody(_Body):
    """A page to read facts from, once."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"example": {"url": "https://shop.example.org/rake", "schema": "product@1"}},
    )

    url: str = Field(min_length=1, max_length=4000)
    wanted: str | dict[str, Any] = Field(alias="schema", description="a schema by name, or a JSON Schema")
    grounding: Literal["off", "warn", "null", "fail"] = Field(
        default="warn", description="what to do with values that do not stand in the text"
    )
    rules: dict[str, str] | None = Field(default=None, description="where fields stand: `price`: `.amount | number`")
    model: str | None = Field(default=None, description="another language model than that of the settings")
    force: bool = Field(default=False, description="ask the model although it answered before")
    instructions: str | None = Field(default=None, max_length=10_000, description="what the model is told beside")
    max_chars: int | None = Field(
        default=None, ge=1, le=_MOST_ITEMS, description="let it read only so much of the page"
    )
    render: bool = Field(default=False, description="draw the page in a browser first")
    proxy: str | None = Field(default=None, max_length=4000, description="fetch it through this HTTP proxy")
    model_limit_s: float | None = Field(default=None, gt=0, description="seconds for an answer of the model")
    fetch_limit_s: float | None = Field(default=None, gt=0, description="seconds for the page")
    budget_usd: float | None = Field(default=None, ge=0)
    budget_tokens: int | None = Field(default=None, ge=0, le=_MOST_ITEMS)
    dry_run: bool = Field(default=False, description="only tell about how many tokens it would take")


class ExtractSourceBody(_Body):
    """What is extracted from a source; without anything, what changed since the last time."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"schema": "product@1", "all": True, "budget_usd": 2.0}}
    )

    wanted: str | None = Field(default=None, alias="schema", description="only as this one of those that it carries")
    everything: bool = Field(default=False, alias="all", description="look at every item again, not only at changes")
    force: bool = Field(default=False, description="ask the model although it answered before")
    model: str | None = Field(default=None, description="another language model than that of the settings")
    limit: int | None = Field(default=None, ge=1, le=_MOST_ITEMS, description="at most so many items")
    budget_usd: float | None = Field(default=None, ge=0, description="at most so much; the rest waits")
    budget_tokens: int | None = Field(default=None, ge=0, le=_MOST_ITEMS)
    dry_run: bool = Field(default=False, description="only tell what it would take")


class CarryBody(_Body):
    """How a source carries a schema; what is not named stays as it was."""

    grounding: Literal["off", "warn", "null", "fail"] | None = None
    learn: bool | None = Field(default=None, description="let a model find rules once")
    rules: dict[str, str] | None = None
    conditions: list[str] | None = Field(
        default=None, description="told of in the log when they come true: `price<100`"
    )
    only_urls: list[str] | None = Field(default=None, description="patterns of the items that are meant")


class EndpointBody(_Body):
    """A SPARQL endpoint that is told what pages state."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {
                "endpoint": "https://store.example.org/sparql",
                "graph": "http://example.org/graphs/public",
                "headers": {"Authorization": "Bearer env:STORE_KEY"},
            }
        },
    )

    endpoint: str = Field(min_length=1, max_length=4000)
    graph: str | None = Field(
        default=None, max_length=4000, description="one graph for all; default: that of each page"
    )
    headers: dict[str, str] | None = Field(default=None, description="where keys are found: env:NAME or file:PATH")


class EndpointPushBody(_Body):
    """Which of the SPARQL endpoints of a source are told now."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"endpoint": "https://store.example.org/sparql", "all": True}}
    )

    endpoint: str | None = Field(default=None, max_length=4000, description="one of those that are kept; default: all")
    graph: str | None = Field(default=None, max_length=4000, description="the graph that it is kept for")
    everything: bool = Field(
        default=False, alias="all", description="all that is stated now, for one that lost something"
    )
