"""Sources: the things we keep a copy of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from rowen.model.item import Cursor

__all__ = ["Source", "SourceState"]

SourceState: TypeAlias = Literal["active", "paused"]


@dataclass(frozen=True, slots=True)
class Source:
    """One thing we keep a copy of."""

    id: int
    name: str
    kind: str
    url: str
    options: Mapping[str, Any] = field(default_factory=dict)
    schedule: str | None = None
    state: SourceState = "active"
    cursor: Cursor = None
    created_at: datetime | None = None
    items: int = 0
    deletions_held: int = 0
    last_run_at: datetime | None = None
    last_complete_at: datetime | None = None
