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
        BusyError,
        ConfigurationError,
        EmbeddingError,
        ExportError,
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
    from rowen.model.database import DatabaseStatus, ServerStatus, Tidied
    from rowen.model.embedding import EmbeddingEstimate, EmbeddingProgress, EmbeddingReport, ModelStatus
    from rowen.model.export import Export
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
        Skipped,
        Unchanged,
        Validators,
        Whole,
    )
    from rowen.model.library import Case, Entry, Overview, Revision
    from rowen.model.page import Page
    from rowen.model.query import Answer, Hit, Passage, Twin
    from rowen.model.run import Change, Outcome, Run, Tally
    from rowen.model.source import AppliedSource, Source
    from rowen.model.twins import TwinGroup, TwinItem
    from rowen.service import Rowen, open  # noqa: A004 (rowen.open() is how it begins)
    from rowen.service.blocking import BlockingRowen, open_blocking
    from rowen.service.discovery import Discovery
    from rowen.service.facts import fact

__all__ = [
    "Action",
    "Answer",
    "AppliedSource",
    "BlockingRowen",
    "Body",
    "BusyError",
    "Case",
    "Change",
    "Checkpoint",
    "Complete",
    "ConfigurationError",
    "Connector",
    "DatabaseStatus",
    "Discovery",
    "Document",
    "EmbeddingError",
    "EmbeddingEstimate",
    "EmbeddingProgress",
    "EmbeddingReport",
    "Entry",
    "Export",
    "ExportError",
    "Failed",
    "FellBack",
    "FetchError",
    "Fetched",
    "FormatReader",
    "Gone",
    "Hint",
    "Hit",
    "Incomplete",
    "ItemError",
    "Known",
    "Meter",
    "ModelStatus",
    "NotFoundError",
    "Observation",
    "Options",
    "Outcome",
    "Overview",
    "Page",
    "Part",
    "Passage",
    "ProviderError",
    "Raw",
    "RefusedError",
    "Revision",
    "Rowen",
    "RowenError",
    "Run",
    "ServerStatus",
    "Skipped",
    "Source",
    "SourceError",
    "StoreError",
    "StoreUnavailableError",
    "Tally",
    "Tidied",
    "Tools",
    "Twin",
    "TwinGroup",
    "TwinItem",
    "Unchanged",
    "UsageError",
    "Validators",
    "Whole",
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
        "BusyError",
        "ConfigurationError",
        "EmbeddingError",
        "ExportError",
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
    "rowen.model.database": (
        "DatabaseStatus",
        "ServerStatus",
        "Tidied",
    ),
    "rowen.model.embedding": (
        "EmbeddingEstimate",
        "EmbeddingProgress",
        "EmbeddingReport",
        "ModelStatus",
    ),
    "rowen.model.export": ("Export",),
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
        "Skipped",
        "Unchanged",
        "Validators",
        "Whole",
    ),
    "rowen.model.library": (
        "Entry",
        "Overview",
        "Case",
        "Revision",
    ),
    "rowen.model.page": ("Page",),
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
        "Tally",
    ),
    "rowen.model.source": (
        "AppliedSource",
        "Source",
    ),
    "rowen.model.twins": (
        "TwinGroup",
        "TwinItem",
    ),
    "rowen.service": (
        "Rowen",
        "open",
    ),
    "rowen.service.blocking": (
        "BlockingRowen",
        "open_blocking",
    ),
    "rowen.service.discovery": ("Discovery",),
    "rowen.service.facts": ("fact",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'rowen' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value
