"""What a user says about an event stream: its address and its options."""

import re
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from rowen.connectors.base import Options
from rowen.connectors.catalog.options import web_url
from rowen.model.url import Address

__all__ = ["WITHOUT_SHAPE", "LdesOptions", "accept", "recognise"]


_ABSOLUTE = re.compile(r"file:(?://(?:localhost)?)?/(?!/)")
WITHOUT_SHAPE = "none"
"""What the option `shape` says where members are to be read without one."""


class LdesOptions(Options):
    """Options of an event stream. `record_version` is raised when members are read into something else than before."""

    record_version: ClassVar[int] = 2

    secret_neutral: ClassVar[frozenset[str]] = Options.secret_neutral | {"versions", "order", "contexts"}

    versions: Literal["latest", "all"] = Field(
        default="latest", description="one item an object, as its latest version says it; or one a member"
    )
    order: Literal["fast", "ascending", "descending"] = Field(
        default="fast", description="members as pages come, or in the order of time, the oldest or the newest first"
    )
    after: datetime | None = Field(default=None, description="only members of later times")
    before: datetime | None = Field(default=None, description="only members of earlier times")
    shape: str | None = Field(
        default=None, description="SHACL shape that says what belongs to a member: its URL, file:PATH, or none"
    )
    contexts: dict[str, str] = Field(
        default_factory=dict, description="SHA-256 that a JSON-LD context must have, by its URL"
    )
    headers: dict[str, str] = Field(default_factory=dict, description="headers to send; env:NAME and file:PATH refer")
    delay_s: float | None = Field(default=None, ge=0, description="least time between two requests")
    # Pages of real streams have up to 5 MB; a dump of a whole stream is one page of any size.
    max_bytes: int = Field(default=256 << 20, ge=1, description="largest page that is read")

    @field_validator("shape")
    @classmethod
    def _names_a_place(cls, shape: str | None) -> str | None:
        # The text alone is judged: whether there is such a file is found out by the sync.
        if shape is not None and _names_file(shape) and not _ABSOLUTE.match(Address.of(shape).text):
            raise ValueError("the path of a shape has to be absolute, since syncs begin in any folder")
        return shape

    @property
    def shape_file(self) -> Path | None:
        """Where the shape is, if it is a file of this machine."""
        return Path(Address.of(self.shape).path) if self.shape is not None and _names_file(self.shape) else None

    def reading(self) -> dict[str, Any]:
        """What a member is read into depends on these."""
        return {
            "versions": self.versions,
            "shape": self.shape,
            "language": self.language,
            "members": self.record_version,
        }

    def listing(self) -> dict[str, Any]:
        """Pages are read again where members would be read otherwise. The window is compared by the connector."""
        return {**self.reading(), "headers": self.headers, "contexts": self.contexts}


def _names_file(shape: str) -> bool:
    return Address.of(shape).scheme == "file"


def recognise(address: str) -> str | None:
    """The URL of `ldes:https://…`."""
    return accept(address) if address.startswith("ldes:") else None


def accept(address: str) -> str | None:
    """The URL of any web address."""
    return web_url(address, "ldes")
