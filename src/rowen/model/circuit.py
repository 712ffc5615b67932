"""What keeps a process from calling a service that failed too often, as it is shown."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

__all__ = ["CircuitKind", "CircuitState", "CircuitStatus"]

CircuitKind: TypeAlias = Literal["embedder", "host", "model"]
CircuitState: TypeAlias = Literal["closed", "half-open", "open"]


@dataclass(frozen=True, slots=True)
class CircuitStatus:
    """The circuit of one service in one process: an embedder, a language model, or the host of a source.

    `failures` counts those in a row, `opened_at` says since when it is not closed, `probe_at` when it lets calls
    through again. A closed one has no `process`.
    """

    kind: CircuitKind
    name: str
    state: CircuitState = "closed"
    failures: int = 0
    times_opened: int = 0
    opened_at: datetime | None = None
    probe_at: datetime | None = None
    process: str | None = None
