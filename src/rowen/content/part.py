"""What a body says about itself, whatever its format."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Part"]


@dataclass(frozen=True, slots=True)
class Part:
    """The text as Markdown, and what else was found; empty where the body does not say."""

    text: str
    title: str = ""
    tags: tuple[str, ...] = ()
    language: str | None = None
    links: tuple[str, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)
