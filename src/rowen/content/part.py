"""What a body says about itself, whatever its format."""

from dataclasses import dataclass

__all__ = ["Part"]


@dataclass(frozen=True, slots=True)
class Part:
    """The text as Markdown, and what else was found; empty where the body does not say."""

    text: str
    title: str = ""
    tags: tuple[str, ...] = ()
    language: str | None = None
    links: tuple[str, ...] = ()
