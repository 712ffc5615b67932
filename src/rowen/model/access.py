"""Who is asking, how much they may do, and what of this machine they may name."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

__all__ = [
    "AccessToken",
    "AuditLine",
    "Credential",
    "NewSession",
    "NewToken",
    "Principal",
    "Reach",
    "RepeatedAnswer",
    "Scope",
]


class Scope(enum.StrEnum):
    """What somebody may do; each includes the ones before it."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"

    def allows(self, wanted: "Scope") -> bool:
        """Whether this is enough for what asks for `wanted`."""
        order = list(Scope)
        return order.index(self) >= order.index(wanted)


class Reach(enum.Enum):
    """What somebody may name of the machine that Rowen runs on."""

    OUTSIDE = enum.auto()
    """Nothing: only what everybody can ask for over the network."""
    FILES = enum.auto()
    """Its folders and files to read, but no secret, and no folder to write to."""
    ALL = enum.auto()
    """Whatever its user may."""


@dataclass(frozen=True, slots=True)
class Credential:
    """The proof that a caller sent: the hash of a token or a session, or the end of a token that a provider signed."""

    digest: bytes | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of an operation, and what they may do.

    The first part of a name says who vouches for the rest, so that no two callers share one: `token:…` for a token,
    `email:…` for an address that the identity provider verified, `sub:…` for its own name of somebody; and `local` and
    `public`.
    """

    name: str
    scope: Scope
    credential: Credential | None = field(default=None, compare=False, repr=False)

    @property
    def reach(self) -> Reach:
        """Folders and secrets of the machine are for who runs it."""
        return Reach.ALL if self.scope.allows(Scope.ADMIN) else Reach.OUTSIDE


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A token as it is listed: what it is called and may do, never itself."""

    name: str
    scope: Scope
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that was just made, and its secret, which is shown once and stored nowhere."""

    token: AccessToken
    secret: str


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session that was just opened: the secret of its cookie, and until when it holds."""

    secret: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One request that wrote, or tried to: who sent it from where, what it asked for, and what it was answered."""

    id: int
    at: datetime
    principal: str
    address: str | None
    method: str
    path: str
    status: int
    request: str


@dataclass(frozen=True, slots=True)
class RepeatedAnswer:
    """The answer that a repeated request is given again."""

    status: int
    headers: Mapping[str, str]
    body: bytes
