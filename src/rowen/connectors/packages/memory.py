"""What is remembered of a package between runs."""

from dataclasses import asdict, dataclass, field
from typing import Any, TypedDict

from rowen.connectors.base import remembered
from rowen.model.items import Cursor

__all__ = ["DocsCursor", "PackageCursor"]


class DocsCursor(TypedDict):
    """What a walk over a site left: whether it found any pages, and its own cursor."""

    reached: bool
    cursor: Any


@dataclass(slots=True)
class PackageCursor:
    """The cursor of a package.

    `at` is the registry's URL whose answer was read, `body` the hash of that answer; its validators stand here and not
    with an item, since they vouch for all that was read from it. `docs` is the documentation that the package names,
    `root` where the walk over it begins, once that is settled; `sites` is what the walks remember.
    """

    at: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    body: str | None = None
    version: str | None = None
    archive: str | None = None
    items: list[str] = field(default_factory=list)
    docs: str | None = None
    root: str | None = None
    changelog: str | None = None
    sites: dict[str, DocsCursor] = field(default_factory=dict)

    @classmethod
    def of(cls, cursor: Cursor) -> "PackageCursor":
        """What a cursor says; nothing, where there is none or it is not ours."""
        return remembered(cursor, cls) or cls()

    def to_cursor(self) -> dict[str, Any]:
        """The memory as a cursor."""
        return asdict(self)
