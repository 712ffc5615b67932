"""One shape for the records of every kind of catalog."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rowen.connectors.catalog.languages import code_of
from rowen.model.item import Document, Validators
from rowen.model.twins import DATASET

__all__ = ["Dataset", "Resource"]


class Resource(NamedTuple):
    """One file or service of a dataset."""

    url: str
    name: str = ""
    description: str = ""
    format: str = ""
    media_type: str = ""
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """What a catalog says about one dataset.

    `url` is built from the portal's own identifier, so that a renamed dataset stays itself; `landing_page` is where
    people go. `texts` holds title and description in further languages. `source` is the complete record as the
    portal gave it, without what moves by itself (views, followers, counts of neighbours).
    """

    url: str
    identifier: str
    title: str
    description: str = ""
    tags: tuple[str, ...] = ()
    publisher: str = ""
    licence: str = ""
    languages: tuple[str, ...] = ()
    issued: str | None = None
    modified: str | None = None
    spatial: str = ""
    temporal: str = ""
    landing_page: str = ""
    resources: tuple[Resource, ...] = ()
    texts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)

    def document(self, *, validators: Validators | None = None, language: str | None = None) -> Document:
        """The dataset as it is stored: description and resources as text, all the rest in the record."""
        return Document(
            url=self.url,
            title=self.title or self.identifier,
            text=self._text(),
            tags=self.tags,
            record=self._record(),
            language=language or (code_of(self.languages[0]) if len(self.languages) == 1 else None),
            media_type=DATASET,
            validators=validators or Validators(),
        )

    def _text(self) -> str:
        parts = [self.description]
        parts += [f"## {title} ({code})\n\n{text}".strip() for code, (title, text) in sorted(self.texts.items())]
        lines = [_line(resource) for resource in self.resources if resource.name or resource.description]
        if lines:
            parts.append("## Resources\n\n" + "\n".join(lines))
        return "\n\n".join(part for part in parts if part)

    def _record(self) -> dict[str, Any]:
        facts = {
            "identifier": self.identifier,
            "publisher": self.publisher,
            "licence": self.licence,
            "languages": list(self.languages),
            "issued": self.issued,
            "modified": self.modified,
            "spatial": self.spatial,
            "temporal": self.temporal,
            "landing_page": self.landing_page,
            "resources": [resource._asdict() for resource in self.resources],
        }
        return {**{name: value for name, value in facts.items() if value}, "source": self.source}


def _line(resource: Resource) -> str:
    form = f" ({resource.format})" if resource.format else ""
    words = f": {resource.description}" if resource.description else ""
    return f"- {resource.name or resource.url}{form}{words}".replace("\n", " ")
