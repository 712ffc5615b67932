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
    from rowen.errors import (
        BusyError,
        ItemError,
        NotFoundError,
        RefusedError,
        RowenError,
        SourceError,
        StoreError,
        UsageError,
    )
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
    from rowen.model.query import Answer, Hit
    from rowen.model.run import Change, Outcome, Run, Tally
    from rowen.model.source import Source
    from rowen.service import Rowen, open  # noqa: A004 (rowen.open() is the door)
    from rowen.service.blocking import open_blocking

__all__ = [
    "Answer",
    "BusyError",
    "Change",
    "Checkpoint",
    "Complete",
    "Connector",
    "Document",
    "Failed",
    "FellBack",
    "Fetched",
    "Gone",
    "Hit",
    "Incomplete",
    "ItemError",
    "Known",
    "Meter",
    "NotFoundError",
    "Observation",
    "Options",
    "Outcome",
    "Raw",
    "RefusedError",
    "Rowen",
    "RowenError",
    "Run",
    "Skipped",
    "Source",
    "SourceError",
    "StoreError",
    "Tally",
    "Tools",
    "Unchanged",
    "UsageError",
    "Validators",
    "Whole",
    "__version__",
    "open",
    "open_blocking",
]

_HOME = {
    "rowen.connectors.base": ("Connector", "Known", "Meter", "Options", "Tools"),
    "rowen.errors": (
        *("BusyError", "ItemError", "NotFoundError", "RefusedError"),
        *("RowenError", "SourceError", "StoreError", "UsageError"),
    ),
    "rowen.model.item": (
        *("Checkpoint", "Complete", "Document", "Failed", "FellBack", "Fetched"),
        *("Gone", "Incomplete"),
        *("Observation", "Raw", "Skipped", "Unchanged", "Validators", "Whole"),
    ),
    "rowen.model.query": ("Answer", "Hit"),
    "rowen.model.run": ("Change", "Outcome", "Run", "Tally"),
    "rowen.model.source": ("Source",),
    "rowen.service": ("Rowen", "open"),
    "rowen.service.blocking": ("open_blocking",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'rowen' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value
