"""Callers, their scopes and tokens, and the parts of this machine that a caller may name."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


class Scope(enum.StrEnum):
    """A scope; each scope includes the scopes before it."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"

    def allows(self, wanted: "Scope") -> bool:
        """Return whether this scope is sufficient for an operation that requires `wanted`."""
        order = list(Scope)
        return order.index(self) >= order.index(wanted)


class Reach(enum.Enum):
    """The parts of Rowen's machine that a caller may name."""

    OUTSIDE = enum.auto()
    """Only addresses that everybody can request over the network."""
    FILES = enum.auto()
    """Also folders and files for reading, but no secrets, and no folders for writing."""
    ALL = enum.auto()
    """Everything to which the user who runs Rowen has access."""


@dataclass(frozen=True, slots=True)
class Credential:
    """The proof of a caller's identity: the hash of a token or session, or the expiry of a provider's signed token."""

    digest: bytes | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of an operation, with a scope.

    A prefix keeps names unique: `token:…` for a token, `email:…` for an address that the identity provider verified,
    `sub:…` for the provider's own identifier; `local` and `public` have none.
    """

    name: str
    scope: Scope
    credential: Credential | None = field(default=None, compare=False, repr=False)

    @property
    def reach(self) -> Reach:
        """The reach of the caller: only administrators may name folders and secrets of the machine."""
        return Reach.ALL if self.scope.allows(Scope.ADMIN) else Reach.OUTSIDE


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A token as listed, without its secret."""

    name: str
    scope: Scope
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class NewToken:
    """A new token and its secret. The secret is shown once and stored nowhere."""

    token: AccessToken
    secret: str


@dataclass(frozen=True, slots=True)
class NewSession:
    """A new session: the secret of its cookie, and its expiry."""

    secret: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One attempt to write: the caller, the request, and the status of the response."""

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
    """The stored response to a request; a repetition of the request gets the same response."""

    status: int
    headers: Mapping[str, str]
    body: bytes
