"""Keep a searchable copy of other people's catalogs, sites and folders fresh, and pay only for changes.

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
    from rowen.model.changes import Change, DiffLine, DiffPiece, FieldChange, FieldDiff, Hunk, ItemDiff, Publication
    from rowen.model.datasets import TwinGroup, TwinItem
    from rowen.model.extraction import (
        Evidence,
        Extracted,
        Extraction,
        ExtractionReport,
        ModelScore,
        PageScore,
        SourceSchema,
    )
    from rowen.model.items import (
        Case,
        Checkpoint,
        Complete,
        Document,
        Entry,
        Export,
        Failed,
        FellBack,
        Fetched,
        Gone,
        Incomplete,
        ItemDetail,
        ItemLine,
        Observation,
        Passage,
        PendingDeletion,
        Raw,
        Redirected,
        Revision,
        Skipped,
        Unchanged,
        Validators,
    )
    from rowen.model.models import (
        CostLine,
        Costs,
        EmbeddingEstimate,
        EmbeddingProgress,
        EmbeddingReport,
        FetchedModel,
        ModelStatus,
    )
    from rowen.model.push import AnnouncedDocument, Poked, PushAccess, PushVerdict, Subscription
    from rowen.model.queue import Job, LiveWorker, QueueDepth
    from rowen.model.rdf import StatementFile, StatementReport, StatementSummary, StatementTarget
    from rowen.model.runs import Outcome, Run, RunStats
    from rowen.model.schemas import Schema, SchemaChange, SchemaComparison, SchemaUse
    from rowen.model.search import Answer, Hit, SavedNews, SavedSearch, Twin
    from rowen.model.sources import AppliedSource, Following, FoundVersion, Overview, Preview, Source
    from rowen.model.status import (
        DatabaseStatus,
        Health,
        Savings,
        ServerStatus,
        Status,
        SwitchedOff,
        Tidied,
        TroubleGroup,
    )
    from rowen.model.webhooks import Delivery, Webhook, WebhookFilter
    from rowen.operations import Rowen, open  # noqa: A004 (rowen.open() is how it begins)
    from rowen.operations.blocking import BlockingRowen, open_blocking
    from rowen.operations.discovery import Discovery, Unconfirmed
    from rowen.operations.facts import fact
    from rowen.operations.paging import Page

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
    "PendingDeletion",
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
    "Skipped",
    "Source",
    "SourceError",
    "SourceSchema",
    "StatementFile",
    "StatementReport",
    "StatementSummary",
    "StatementTarget",
    "Status",
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
    "rowen.connectors.base": "Connector Known Meter Options Tools",
    "rowen.content.base": "Body FormatReader Part",
    "rowen.errors": (
        "Action BudgetExceededError BusyError ConfigurationError EmbeddingError ExportError ExtractionError "
        "FetchError Hint ItemError NotFoundError ProviderError RefusedError RowenError SourceError StoreError "
        "StoreUnavailableError UsageError"
    ),
    "rowen.model.access": "AccessToken AuditLine NewSession NewToken Principal Reach RepeatedAnswer Scope",
    "rowen.model.changes": "Change DiffLine DiffPiece FieldChange FieldDiff Hunk ItemDiff Publication",
    "rowen.model.datasets": "TwinGroup TwinItem",
    "rowen.model.extraction": "Evidence Extracted Extraction ExtractionReport ModelScore PageScore SourceSchema",
    "rowen.model.items": (
        "Case Checkpoint Complete Document Entry Export Failed FellBack Fetched Gone Incomplete "
        "ItemDetail ItemLine Observation Passage PendingDeletion Raw Redirected Revision Skipped Unchanged Validators"
    ),
    "rowen.model.models": "CostLine Costs EmbeddingEstimate EmbeddingProgress EmbeddingReport FetchedModel ModelStatus",
    "rowen.model.push": "AnnouncedDocument Poked PushAccess PushVerdict Subscription",
    "rowen.model.queue": "Job LiveWorker QueueDepth",
    "rowen.model.rdf": "StatementFile StatementReport StatementSummary StatementTarget",
    "rowen.model.runs": "Outcome Run RunStats",
    "rowen.model.schemas": "Schema SchemaChange SchemaComparison SchemaUse",
    "rowen.model.search": "Answer Hit SavedNews SavedSearch Twin",
    "rowen.model.sources": "AppliedSource Following FoundVersion Overview Preview Source",
    "rowen.model.status": "DatabaseStatus Health Savings ServerStatus Status SwitchedOff Tidied TroubleGroup",
    "rowen.model.webhooks": "Delivery Webhook WebhookFilter",
    "rowen.operations": "Rowen open",
    "rowen.operations.blocking": "BlockingRowen open_blocking",
    "rowen.operations.discovery": "Discovery Unconfirmed",
    "rowen.operations.facts": "fact",
    "rowen.operations.paging": "Page",
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'rowen' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
