"""The interface of readers: the bodies that they read, their format's name and version, and their results."""

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

    `facts` are the fields to read from a page's markup, besides its text; `statements` says whether its RDFa is read,
    and `profile` has the shapes to check it by.
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
        """Return the body as text with LF at the end of lines; raise `ItemError` if it is not text."""
        text = decode(self.data, charset=self.charset, media_type=self.media_type, name=self.name)
        return text.replace("\r\n", "\n").replace("\r", "\n")


@dataclass(frozen=True, slots=True)
class Part:
    """The result of a reader: the text as Markdown, and metadata; empty where the body has none."""

    text: str
    title: str = ""
    tags: tuple[str, ...] = ()
    language: str | None = None
    links: tuple[str, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FormatReader:
    """Reads one format.

    `version` is raised whenever the same body would become another document: the items of this format, and of no
    other, are then read again. `endings` are those of file names, without the dot. `uses` names formats whose readers
    this one calls, so that their versions count here as well. A `binary` format is always read in a worker process.

    `read` raises `ItemError` for an unreadable body; it is a function of a module, so that a worker can import it.
    """

    format: str
    version: int
    read: Callable[[Body], Part]
    media_types: tuple[str, ...]
    endings: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    binary: bool = False
