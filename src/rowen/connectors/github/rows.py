"""The rows of GitHub's listings: one that cannot be read costs itself."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from rowen.connectors.base import unread_url
from rowen.formats.json import payload_of
from rowen.model.item import Document, Failed, Validators
from rowen.model.outside import attempt

__all__ = ["ApiRows", "number_of", "read_rows"]


@dataclass(slots=True)
class ApiRows:
    """What the rows of one page amount to; `nameless` tells that nobody knows which items some of them are about."""

    documents: dict[str, Document] = field(default_factory=dict)
    failed: list[Failed] = field(default_factory=list)
    nameless: bool = False


def read_rows(
    rows: Iterable[Any], document: Callable[[Any], Document | None], url_of: Callable[[Any], str], *, page: str
) -> ApiRows:
    """Read each row for itself; `page` is where a reader finds what a nameless one is about."""
    found = ApiRows()
    for row in rows:
        read = attempt(lambda row=row: document(row), str)  # type: ignore[misc]
        if isinstance(read, Document):
            found.documents[read.url] = _stamped(read)
        elif isinstance(read, str):
            url = attempt(lambda row=row: url_of(row), lambda _: None)  # type: ignore[misc]
            payload = payload_of(row)
            nowhere = unread_url(page, payload or b"")
            found.failed.append(Failed(url or nowhere, f"It cannot be read: {read}.", payload=payload))
            found.nameless = found.nameless or url is None
    return found


def number_of(row: Any) -> int:
    """The number of an issue or a discussion; raises for what is none."""
    number = row["number"]
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError("its number is none")
    return number


def _stamped(document: Document) -> Document:
    """The same document with a validator: a hash of all that is stored of it."""
    return replace(document, validators=Validators(etag=document.record_hash.hex()[:32]))
