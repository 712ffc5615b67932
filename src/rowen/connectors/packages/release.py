"""A release, whichever registry told of it, and the page that is made of it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rowen.connectors.base import Tools
from rowen.model.items import Document, Raw

__all__ = ["Offer", "Release", "page", "plain_text", "table", "texts"]

_MARKDOWN = re.compile(r"^#{1,6} |^```|\[[^\[\]\n]{1,200}\]\(", re.MULTILINE)
_NO_README = frozenset({"", "unknown", "error: no readme data found!"})


@dataclass(frozen=True, slots=True)
class Release:
    """What a registry tells of one release; `archive` is the file that holds its sources."""

    name: str
    version: str
    summary: str = ""
    readme: str = field(default="", repr=False)
    readme_type: str = ""
    keywords: tuple[str, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    archive: str | None = None
    record: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_readme(self) -> bool:
        """Whether the registry has the text; some only have a word for its absence."""
        return self.readme.strip().lower() not in _NO_README


@dataclass(frozen=True, slots=True)
class Offer:
    """The releases that there are, without those that were withdrawn; `tags` are names for some of them."""

    versions: tuple[str, ...]
    latest: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


async def page(release: Release, url: str, tools: Tools, *, language: str | None) -> Document:
    """The page of a package: its README, under its name and version."""
    readme = release.readme if release.has_readme else ""
    raw = Raw(
        url,
        readme.encode("utf-8", "replace"),
        media_type=f"{_readme_type(release)}; charset=utf-8",
        tags=release.keywords,
        language=language,
    )
    read = await tools.read(raw)
    lead = "" if release.summary in read.text else release.summary
    facts = {"summary": release.summary, "links": dict(release.links), **release.record}
    return replace(
        read,
        title=f"{release.name} {release.version}",
        text="\n\n".join(part for part in (lead, read.text) if part.strip()),
        record={"name": release.name, "version": release.version, **{k: v for k, v in facts.items() if v}},
    )


def _readme_type(release: Release) -> str:
    """The media type of a README; where none was declared, its look decides."""
    told = release.readme_type.partition(";")[0].strip().lower()
    if told in ("text/markdown", "text/x-rst", "text/plain"):
        return told
    return "text/markdown" if _MARKDOWN.search(release.readme) else "text/x-rst"


def plain_text(value: Any) -> str:
    """A text, or nothing: registries hold what packages declared, and that can be anything."""
    return " ".join(value.split()) if isinstance(value, str) else ""


def texts(value: Any) -> tuple[str, ...]:
    """The texts in a list; a text with commas or spaces is one too."""
    if isinstance(value, str):
        value = value.split("," if "," in value else None)
    return tuple(text for part in value if (text := plain_text(part))) if isinstance(value, list) else ()


def table(value: Any) -> dict[str, Any]:
    """A table, or an empty one."""
    return value if isinstance(value, dict) else {}
