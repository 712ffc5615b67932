"""The contract of a reader: which bodies it reads, under which format's name and version, and what it makes of them."""

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

    `facts` are those that are wanted of a page's markup, beside its text; `statements` says whether its RDFa is read,
    and `profile` by which shapes it is judged.
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
        """Return the body as text, with LF at the end of lines; raise `ItemError` if it is none."""
        text = decode(self.data, charset=self.charset, media_type=self.media_type, name=self.name)
        return text.replace("\r\n", "\n").replace("\r", "\n")


@dataclass(frozen=True, slots=True)
class Part:
    """The output of a reader: the text as Markdown, and metadata; empty where the body has none."""

    text: str
    title: str = ""
    tags: tuple[str, ...] = ()
    language: str | None = None
    links: tuple[str, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FormatReader:
    """Reads one format.

    `version` is raised whenever the same body would be read into another document: items of this format, and of no
    other, are then read again. `endings` are those of file names, without the dot. `uses` names formats whose readers
    this one calls, so that a change there counts here. A `binary` format is always read in a worker process.

    `read` raises `ItemError` for what it cannot read; the function is one of a module, so that a worker can import it.
    """

    format: str
    version: int
    read: Callable[[Body], Part]
    media_types: tuple[str, ...]
    endings: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    binary: bool = False
