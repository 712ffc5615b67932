"""Who is asking, and how much they may do."""

import enum
from dataclasses import dataclass

__all__ = ["Principal", "Scope"]


class Scope(enum.StrEnum):
    """What somebody may do; each includes the ones before it."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"

    def allows(self, wanted: "Scope") -> bool:
        """Whether this is enough for what asks for `wanted`."""
        order = list(Scope)
        return order.index(self) >= order.index(wanted)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is asking: the name of a token or a person, and what they may do."""

    name: str
    scope: Scope
