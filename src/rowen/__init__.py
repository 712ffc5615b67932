"""Keeps a searchable copy of other people's catalogs, sites and folders fresh, and pays only for what changed.

    async with rowen.open() as r:
        run = await r.sync("./docs")
        for hit in await r.search("conditional requests"):
            print(hit.title, hit.link)

Names are imported when they are first used, so that `import rowen` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rowen.version import __version__

if TYPE_CHECKING:
    from rowen.connectors.base import Connector, Known, Meter, Options, Tools
    from rowen.content.base import Body, FormatReader, Part
    from rowen.errors import (
        Action,
        BudgetExceededError,
        BusyError,
        ConfigurationError,
        EmbeddingError,
        ExportError,
        ExtractionError,
        FetchError,
        Hint,
        ItemError,
        NotFoundError,
        ProviderError,
        RefusedError,
        RowenError,
        SourceError,
        StoreError,
        StoreUnavailableError,
        UsageError,
    )
    from rowen.model.access import AccessToken, AuditLine, NewSession, NewToken, Principal, Reach, RepeatedAnswer, Scope
    from rowen.model.announcement import AnnouncedDocument
    from rowen.model.database import DatabaseStatus, ServerStatus, Tidied
    from rowen.model.diff import DiffLine, DiffPiece, FieldDiff, Hunk, ItemDiff
    from rowen.model.embedding import EmbeddingEstimate, EmbeddingProgress, EmbeddingReport, FetchedModel, ModelStatus
    from rowen.model.evaluation import ModelScore, PageScore
    from rowen.model.export import Export
    from rowen.model.extraction import (
        CostLine,
        Costs,
        Evidence,
        Extracted,
        Extraction,
        ExtractionReport,
        FieldChange,
        SourceSchema,
    )
    from rowen.model.health import Health
    from rowen.model.item import (
        Checkpoint,
        Complete,
        Document,
        Failed,
        FellBack,
        Fetched,
        Gone,
        Incomplete,
        Observation,
        Raw,
        Redirected,
        Skipped,
        Unchanged,
        Validators,
    )
    from rowen.model.job import Job, LiveWorker, QueueDepth
    from rowen.model.library import Case, Entry, Following, FoundVersion, HeldDeletion, Overview, Revision
    from rowen.model.page import Page
    from rowen.model.publication import Publication
    from rowen.model.push import Poked, PushAccess, PushVerdict, Subscription
    from rowen.model.query import Answer, Hit, Passage, Twin
    from rowen.model.run import Change, Outcome, Run, RunStats
    from rowen.model.saved import SavedNews, SavedSearch
    from rowen.model.schema import Schema, SchemaChange, SchemaComparison, SchemaUse
    from rowen.model.source import AppliedSource, Source
    from rowen.model.standing import ItemDetail, ItemLine, Preview, Savings, Situation, SwitchedOff, TroubleGroup
    from rowen.model.statements import StatementFile, StatementReport, StatementSummary, StatementTarget
    from rowen.model.twins import TwinGroup, TwinItem
    from rowen.model.webhook import Delivery, Webhook, WebhookFilter
    from rowen.operations import Rowen, open  # noqa: A004 (rowen.open() is how it begins)
    from rowen.operations.blocking import BlockingRowen, open_blocking
    from rowen.operations.discovery import Discovery, Unconfirmed
    from rowen.operations.facts import fact

__all__ = [
    "AccessToken",
    "Action",
    "AnnouncedDocument",
    "Answer",
    "AppliedSource",
    "AuditLine",
    "BlockingRowen",
    "Body",
    "BudgetExceededError",
    "BusyError",
    "Case",
    "Change",
    "Checkpoint",
    "Complete",
    "ConfigurationError",
    "Connector",
    "CostLine",
    "Costs",
    "DatabaseStatus",
    "Delivery",
    "DiffLine",
    "DiffPiece",
    "Discovery",
    "Document",
    "EmbeddingError",
    "EmbeddingEstimate",
    "EmbeddingProgress",
    "EmbeddingReport",
    "Entry",
    "Evidence",
    "Export",
    "ExportError",
    "Extracted",
    "Extraction",
    "ExtractionError",
    "ExtractionReport",
    "Failed",
    "FellBack",
    "FetchError",
    "Fetched",
    "FetchedModel",
    "FieldChange",
    "FieldDiff",
    "Following",
    "FormatReader",
    "FoundVersion",
    "Gone",
    "Health",
    "HeldDeletion",
    "Hint",
    "Hit",
    "Hunk",
    "Incomplete",
    "ItemDetail",
    "ItemDiff",
    "ItemError",
    "ItemLine",
    "Job",
    "Known",
    "LiveWorker",
    "Meter",
    "ModelScore",
    "ModelStatus",
    "NewSession",
    "NewToken",
    "NotFoundError",
    "Observation",
    "Options",
    "Outcome",
    "Overview",
    "Page",
    "PageScore",
    "Part",
    "Passage",
    "Poked",
    "Preview",
    "Principal",
    "ProviderError",
    "Publication",
    "PushAccess",
    "PushVerdict",
    "QueueDepth",
    "Raw",
    "Reach",
    "Redirected",
    "RefusedError",
    "RepeatedAnswer",
    "Revision",
    "Rowen",
    "RowenError",
    "Run",
    "RunStats",
    "SavedNews",
    "SavedSearch",
    "Savings",
    "Schema",
    "SchemaChange",
    "SchemaComparison",
    "SchemaUse",
    "Scope",
    "ServerStatus",
    "Situation",
    "Skipped",
    "Source",
    "SourceError",
    "SourceSchema",
    "StatementFile",
    "StatementReport",
    "StatementSummary",
    "StatementTarget",
    "StoreError",
    "StoreUnavailableError",
    "Subscription",
    "SwitchedOff",
    "Tidied",
    "Tools",
    "TroubleGroup",
    "Twin",
    "TwinGroup",
    "TwinItem",
    "Unchanged",
    "Unconfirmed",
    "UsageError",
    "Validators",
    "Webhook",
    "WebhookFilter",
    "__version__",
    "fact",
    "open",
    "open_blocking",
]

_HOME = {
    "rowen.content.base": ("Body", "FormatReader", "Part"),
    "rowen.connectors.base": (
        "Connector",
        "Known",
        "Meter",
        "Options",
        "Tools",
    ),
    "rowen.errors": (
        "Action",
        "BudgetExceededError",
        "BusyError",
        "ConfigurationError",
        "EmbeddingError",
        "ExportError",
        "ExtractionError",
        "FetchError",
        "Hint",
        "ItemError",
        "NotFoundError",
        "ProviderError",
        "RefusedError",
        "RowenError",
        "SourceError",
        "StoreError",
        "StoreUnavailableError",
        "UsageError",
    ),
    "rowen.model.access": (
        "AccessToken",
        "AuditLine",
        "RepeatedAnswer",
        "NewSession",
        "NewToken",
        "Principal",
        "Reach",
        "Scope",
    ),
    "rowen.model.database": (
        "DatabaseStatus",
        "ServerStatus",
        "Tidied",
    ),
    "rowen.model.diff": ("DiffLine", "DiffPiece", "FieldDiff", "Hunk", "ItemDiff"),
    "rowen.model.embedding": (
        "EmbeddingEstimate",
        "EmbeddingProgress",
        "EmbeddingReport",
        "FetchedModel",
        "ModelStatus",
    ),
    "rowen.model.evaluation": ("ModelScore", "PageScore"),
    "rowen.model.export": ("Export",),
    "rowen.model.health": ("Health",),
    "rowen.model.job": ("Job", "LiveWorker", "QueueDepth"),
    "rowen.model.extraction": (
        "SourceSchema",
        "CostLine",
        "Costs",
        "Evidence",
        "Extracted",
        "Extraction",
        "ExtractionReport",
        "FieldChange",
    ),
    "rowen.model.item": (
        "Checkpoint",
        "Complete",
        "Document",
        "Failed",
        "FellBack",
        "Fetched",
        "Gone",
        "Incomplete",
        "Observation",
        "Raw",
        "Redirected",
        "Skipped",
        "Unchanged",
        "Validators",
    ),
    "rowen.model.library": (
        "Entry",
        "Following",
        "FoundVersion",
        "HeldDeletion",
        "Overview",
        "Case",
        "Revision",
    ),
    "rowen.model.page": ("Page",),
    "rowen.model.push": (
        "Poked",
        "PushAccess",
        "PushVerdict",
        "Subscription",
    ),
    "rowen.model.publication": ("Publication",),
    "rowen.model.query": (
        "Answer",
        "Hit",
        "Passage",
        "Twin",
    ),
    "rowen.model.run": (
        "Change",
        "Outcome",
        "Run",
        "RunStats",
    ),
    "rowen.model.saved": ("SavedNews", "SavedSearch"),
    "rowen.model.schema": (
        "Schema",
        "SchemaChange",
        "SchemaComparison",
        "SchemaUse",
    ),
    "rowen.model.source": (
        "AppliedSource",
        "Source",
    ),
    "rowen.model.announcement": ("AnnouncedDocument",),
    "rowen.model.statements": ("StatementFile", "StatementReport", "StatementSummary", "StatementTarget"),
    "rowen.model.standing": (
        "ItemDetail",
        "ItemLine",
        "Preview",
        "Savings",
        "Situation",
        "SwitchedOff",
        "TroubleGroup",
    ),
    "rowen.model.twins": (
        "TwinGroup",
        "TwinItem",
    ),
    "rowen.model.webhook": ("Delivery", "Webhook", "WebhookFilter"),
    "rowen.operations": (
        "Rowen",
        "open",
    ),
    "rowen.operations.blocking": (
        "BlockingRowen",
        "open_blocking",
    ),
    "rowen.operations.discovery": ("Discovery", "Unconfirmed"),
    "rowen.operations.facts": ("fact",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'rowen' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
