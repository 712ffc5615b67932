"""Schemas: JSON Schemas with a name and a version."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias

from rowen.errors import UsageError
from rowen.model.hashes import Hash, canonical_json

Compatibility: TypeAlias = Literal["same", "compatible", "breaking"]

# As in the file layouts of other registries, and never a path: no dot, no slash.
_NAME = re.compile(r"[a-z0-9][a-z0-9_]{0,63}")
_VERSION = re.compile(r"(?:0|[1-9][0-9]{0,5})(?:\.(?:0|[1-9][0-9]{0,5})){0,2}")
_LATEST = "latest"
_PARTS = 3


class SchemaRef(NamedTuple):
    """A reference to a schema: `product`, `product@latest`, `product@1` for the highest 1.x, `product@1.0.0`."""

    name: str
    version: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "SchemaRef":
        """Parse a reference; raise `UsageError` if it is invalid."""
        name, at, version = text.strip().partition("@")
        is_latest = not at or version == _LATEST
        if not _NAME.fullmatch(name) or not (is_latest or _VERSION.fullmatch(version)):
            raise UsageError(
                f"{text!r} is not a reference to a schema.",
                hint="A name has small letters, digits and _; then @ and a version: product@1.0.0, product@latest.",
            )
        return cls(name, () if is_latest else tuple(map(int, version.split("."))))

    @property
    def is_exact(self) -> bool:
        """Whether it selects exactly one version."""
        return len(self.version) == _PARTS

    def means(self, version: tuple[int, ...]) -> bool:
        """Return whether the reference can select a version."""
        return version[: len(self.version)] == self.version

    def __str__(self) -> str:
        return f"{self.name}@{'.'.join(map(str, self.version)) or _LATEST}"


@dataclass(frozen=True, slots=True)
class Schema:
    """One immutable version of a schema; `bundled` says that the schema is part of Rowen."""

    name: str
    version: str
    definition: Mapping[str, Any]
    bundled: bool = False
    created_at: datetime | None = None
    hash: Hash = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hash", hashlib.sha256(canonical_json(dict(self.definition))).digest())

    @property
    def ref(self) -> str:
        """The name and version."""
        return f"{self.name}@{self.version}"

    @property
    def number(self) -> tuple[int, ...]:
        """The version as numbers for comparison."""
        return tuple(map(int, self.version.split(".")))

    @property
    def properties(self) -> Mapping[str, Any]:
        """The top-level fields, in their order."""
        properties = self.definition.get("properties")
        return properties if isinstance(properties, Mapping) else {}

    @property
    def required(self) -> tuple[str, ...]:
        """The fields that an answer must have."""
        required = self.definition.get("required")
        return tuple(required) if isinstance(required, list) else ()


class SchemaChange(NamedTuple):
    """One difference between two versions: its path, a description, and whether older data may become invalid."""

    path: str
    what: str
    breaking: bool


@dataclass(frozen=True, slots=True)
class SchemaComparison:
    """The differences between two versions of a schema.

    `compatible`: all data that is valid under the older version is valid under the newer one. If that cannot be
    proved, the change is `breaking`.
    """

    older: str
    newer: str
    compatibility: Compatibility
    changes: tuple[SchemaChange, ...]


@dataclass(frozen=True, slots=True)
class SchemaUse:
    """The use of one version of a schema: the sources that carry it, and the number of stored versions of facts."""

    schema: str
    sources: tuple[str, ...] = ()
    versions: int = 0

    def __bool__(self) -> bool:
        return bool(self.sources or self.versions)
