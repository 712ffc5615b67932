"""Types of parameters that several operations share, with their bounds and help texts.

They are evaluated when an interface is built from the registry, and by type checkers. Calling an operation does not
import this module.

`extra` may hold:
- `flag`: the singular name of a repeatable parameter in REST and on the command line;
- `over_http`: the largest value that REST accepts, since its callers are less trusted;
- `wire`: the type of the value that REST and assistants send, and `convert`: the function that parses the value;
- `default`: the default of a field of a shared record;
- `local`: the interface sets the value; a caller never does.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, TypeAlias, TypedDict

from msgspec import Meta

from rowen.model.access import Reach
from rowen.model.changes import ChangeKind
from rowen.model.datasets import RECORD_KINDS
from rowen.model.dates import moment_of, period_of, since_of
from rowen.model.wording import LONGEST_NAME

_LONGEST_ADDRESS = 4000
_LONGEST_QUERY = 1000
# Limits of integers and identity columns in PostgreSQL. The change log leaves room for a number after the last one.
_MOST = 2**31 - 1
_MOST_ID = 2**63 - 1
_MOST_NUMBER = 2**62

# Names.
SourceName: TypeAlias = Annotated[str, Meta(description="Name of the source.", examples=["guide"])]
OnlySource: TypeAlias = Annotated[str, Meta(description="Only this source.", examples=["guide"])]
OnlySources: TypeAlias = Annotated[
    Sequence[str], Meta(description="Only these sources.", extra={"flag": "source"}, examples=[["guide"]])
]
NewSourceName: TypeAlias = Annotated[
    str,
    Meta(min_length=1, max_length=LONGEST_NAME, description="Name of the source; made from the address if omitted."),
]
NewName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, description="A name for it.")]
SchemaName: TypeAlias = Annotated[
    str, Meta(description="A schema by name and version: `product`, `product@1`, `product@1.0.0`.")
]
ModelName: TypeAlias = Annotated[str, Meta(description="Language model to use instead of the one in the settings.")]
RunId: TypeAlias = Annotated[int, Meta(ge=1, le=_MOST_ID, description="Number of the run.", examples=[42])]
JobId: TypeAlias = Annotated[int, Meta(ge=1, le=_MOST_ID, description="Number of the job.", examples=[311])]

# Addresses.
SourceAddress: TypeAlias = Annotated[
    str,
    Meta(min_length=1, max_length=_LONGEST_ADDRESS, description="A URL, `pypi:NAME`, `npm:NAME`, or a folder or file."),
]
ItemUrl: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=_LONGEST_ADDRESS, description="URL of the item, or the path of its file.")
]
ItemUrls: TypeAlias = Annotated[
    Sequence[str], Meta(min_length=1, max_length=1000, description="URLs of the items.", extra={"flag": "url"})
]
Endpoint: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=_LONGEST_ADDRESS, description="Address of the SPARQL endpoint.")
]
Graph: TypeAlias = Annotated[
    str, Meta(max_length=_LONGEST_ADDRESS, description="One named graph for everything; one per page if omitted.")
]
Folder: TypeAlias = Annotated[str, Meta(description="A new folder to write to.")]
SecretReference: TypeAlias = Annotated[
    str, Meta(description="Where the server finds the secret: env:NAME or file:PATH.", examples=["env:HOOK_SECRET"])
]

# Lists and places in them.
Limit: TypeAlias = Annotated[
    int, Meta(ge=1, le=_MOST, description="Maximum number of results.", extra={"over_http": 200})
]
PageSize: TypeAlias = Limit
SearchSize: TypeAlias = Annotated[
    int, Meta(ge=1, le=1000, description="Maximum number of results.", extra={"over_http": 200})
]
ItemLimit: TypeAlias = Annotated[int, Meta(ge=1, le=_MOST, description="Maximum number of items.")]
PreviewSize: TypeAlias = Annotated[int, Meta(ge=1, le=20, description="Maximum number of items.")]
After: TypeAlias = Annotated[str, Meta(max_length=4000, description="The `next` of the page before.")]
SinceNumber: TypeAlias = Annotated[
    int, Meta(ge=0, le=_MOST_NUMBER, description="Only changes after this number of the change log.")
]
SinceChange: TypeAlias = Annotated[
    int | datetime | timedelta,
    Meta(
        description="Only changes after this number, since a date, or in the last `2h`, `1d`, `4w`.",
        extra={"wire": int | str, "convert": since_of},
    ),
]
Moment: TypeAlias = Annotated[
    datetime | timedelta,
    Meta(description="Since a date, or in the last `2h`, `1d`, `4w`.", extra={"wire": str, "convert": moment_of}),
]
RevisionNumber: TypeAlias = Annotated[int, Meta(ge=0, le=_MOST, description="Number of a revision.")]

# Filters.
SearchWords: TypeAlias = Annotated[
    str,
    Meta(
        max_length=_LONGEST_QUERY,
        description='Question or words: "phrases" are required, -words excluded, word* is a prefix.',
    ),
]
PackageVersion: TypeAlias = Annotated[
    str, Meta(max_length=200, description="Version of a package: `2.x`, `^2.1`, `>=1.0,<2`, `latest`.")
]
Kinds: TypeAlias = Annotated[
    Sequence[str], Meta(description="Only sources of these kinds.", extra={"flag": "kind"}, examples=[["ckan"]])
]
OnlyRecordKinds: TypeAlias = Annotated[
    Sequence[str],
    Meta(
        description=f"Only catalog records that describe one of: {', '.join(RECORD_KINDS)}.",
        extra={"flag": "record_kind"},
    ),
]
OnlyChangeKinds: TypeAlias = Annotated[
    Sequence[ChangeKind], Meta(description="Only changes of these kinds.", extra={"flag": "kind"})
]
Conditions: TypeAlias = Annotated[
    Sequence[str], Meta(description="Only items whose extracted facts satisfy these conditions: `price<100`.")
]
UrlPatterns: TypeAlias = Annotated[
    Sequence[str], Meta(description="Only items whose URLs match one of these patterns: `*/lamps/*`.")
]
CharacterBudget: TypeAlias = Annotated[
    int, Meta(ge=200, le=1_000_000, description="Maximum number of characters of all passages together.")
]


class SearchFilters(TypedDict, total=False):
    """The filters of searches and item lists, except sources and versions."""

    kinds: Kinds
    tags: Annotated[Sequence[str], Meta(description="Only items with one of these tags.", extra={"flag": "tag"})]
    languages: Annotated[
        Sequence[str],
        Meta(description="Only items in these languages: `de`, `pt-BR`.", extra={"flag": "language"}),
    ]
    record_kinds: OnlyRecordKinds
    publisher: Annotated[str | None, Meta(description="Only datasets whose publisher's name contains this.")]
    since: Annotated[
        datetime | timedelta | None,
        Meta(
            description="Only items modified since a date, or in the last `2h`, `1d`, `4w`.",
            extra={"wire": str | None, "convert": period_of},
        ),
    ]
    until: Annotated[
        datetime | timedelta | None,
        Meta(description="Only items not modified after a date.", extra={"wire": str | None, "convert": period_of}),
    ]
    path: Annotated[str | None, Meta(description="Only items below this URL, or below this path on any host.")]
    where: Conditions


# Sources.
SourceKind: TypeAlias = Annotated[str, Meta(description="Kind of the source; detected if omitted.", examples=["web"])]
SourceOptions: TypeAlias = Annotated[Mapping[str, Any], Meta(description="Options of the kind.")]
DryRun: TypeAlias = Annotated[bool, Meta(description="Report what would change, and write nothing.")]
Prune: TypeAlias = Annotated[bool, Meta(description="Remove the sources that are not declared, with all their items.")]


class When(TypedDict, total=False):
    """The schedule of a source: `every` or `cron`, optionally with a time zone and hours of the week."""

    every: Annotated[str | None, Meta(description="Interval: `6h`, `1d`, `auto`; `none` removes the schedule.")]
    cron: Annotated[str | None, Meta(description="A cron expression instead: `0 6 * * 1-5`.")]
    tz: Annotated[str | None, Meta(description="Time zone of the schedule: `Europe/Berlin`.")]
    during: Annotated[str | None, Meta(description="Only during these hours: `mon-fri 20:00-06:00`.")]


# Extraction.
Force: TypeAlias = Annotated[bool, Meta(description="Ignore cached answers and query the model again.")]
Everything: TypeAlias = Annotated[
    bool, Meta(description="Process every item, not only changes.", extra={"flag": "all"})
]
BudgetUsd: TypeAlias = Annotated[float, Meta(ge=0, description="Maximum cost in USD; the rest waits.")]
BudgetTokens: TypeAlias = Annotated[int, Meta(ge=0, le=_MOST, description="Maximum number of tokens; the rest waits.")]
GroundingMode: TypeAlias = Annotated[
    Literal["off", "warn", "null", "fail"], Meta(description="What to do with values that the text does not contain.")
]
Rules: TypeAlias = Annotated[
    Mapping[str, str], Meta(description="Where fields are in a page: `price`: `.amount | number`.")
]


class ExtractionOptions(TypedDict, total=False):
    """Limits of an extraction from a source."""

    force: Force
    budget_usd: BudgetUsd | None
    budget_tokens: BudgetTokens | None
    model: ModelName | None
    limit: ItemLimit | None


class PageOptions(TypedDict, total=False):
    """Settings for fetching one page and reading its facts."""

    grounding: Annotated[GroundingMode, Meta(extra={"default": "warn"})]
    rules: Rules | None
    model: ModelName | None
    force: Force
    instructions: Annotated[str, Meta(description="Additional instructions to the model.", max_length=10_000)] | None
    max_chars: Annotated[int, Meta(ge=1, le=_MOST, description="Maximum number of characters to read.")] | None
    model_limit_s: Annotated[float, Meta(gt=0, description="Seconds to wait for the model.")] | None
    render: Annotated[bool, Meta(description="Render the page in a browser first.")]
    proxy: Annotated[str, Meta(max_length=_LONGEST_ADDRESS, description="HTTP proxy for the page.")] | None
    fetch_limit_s: Annotated[float, Meta(gt=0, description="Seconds to wait for the page.")] | None


# Exports.
Excel: TypeAlias = Annotated[bool, Meta(description="Write CSV that spreadsheets read safely.")]

# Parameters that the interface sets.
CallerReach: TypeAlias = Annotated[
    Reach, Meta(description="What of this machine the caller may name.", extra={"local": True})
]
