"""The interface of content readers: their input, their result, and the description of their format."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rowen.formats.charset import decode
from rowen.model.items import FactsWanted
from rowen.model.rdf import StatementProfile, StatementsWanted

__all__ = ["Body", "FormatReader", "Part"]


@dataclass(frozen=True, slots=True)
class Body:
    """The input of a reader. `select` and `ignore` are CSS selectors of the parts to keep and to drop.

    `facts` decides which metadata is read from a page's markup, `statements` whether its RDFa is read, and `profile`
    contains the shapes that the RDFa is checked against.
    """

    data: bytes = field(repr=False)
    media_type: str
    name: str
    url: str
    charset: str | None = None
    select: str | None = None
    ignore: str | None = None
    facts: FactsWanted | None = None
    statements: StatementsWanted | None = None
    profile: StatementProfile | None = field(default=None, repr=False)

    @property
    def text(self) -> str:
        """Return the body as text with LF line ends; raise `ItemError` if it is not text."""
        text = decode(self.data, charset=self.charset, media_type=self.media_type, name=self.name)
        return text.replace("\r\n", "\n").replace("\r", "\n")


@dataclass(frozen=True, slots=True)
class Part:
    """The result of a reader: the text as Markdown, and metadata; fields are empty if the body has no such data."""

    text: str
    title: str = ""
    tags: tuple[str, ...] = ()
    language: str | None = None
    links: tuple[str, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FormatReader:
    """Reads one format.

    Raise `version` whenever the same body would result in another document; then only items of this format are read
    again. `endings` are file name extensions without the dot. `uses` names formats whose readers this reader calls, so
    that a change of their versions also counts here. A `binary` format is always read in a worker process. `read`
    raises `ItemError` for an unreadable body; it must be a module-level function, so that a worker can import it.
    """

    format: str
    version: int
    read: Callable[[Body], Part]
    media_types: tuple[str, ...]
    endings: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    binary: bool = False
