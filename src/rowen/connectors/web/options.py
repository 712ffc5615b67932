"""What may be chosen about a site."""

import re
from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, ByteSize, Field, field_validator, model_validator
from turbohtml import parse_fragment

from rowen.connectors.base import Options
from rowen.connectors.profile import ProfileAction, ProfileShapes, profile_read_by
from rowen.model.patterns import linear_search
from rowen.model.statements import STATEMENTS_VERSION, StatementsWanted

__all__ = ["UrlPatterns", "WebOptions"]


# The documentation of PostgreSQL has 1,168 pages and that of a large Java library as many; at half, such sites would be
# cut. A calendar without end costs so many requests once, and the statistics say that there is more.
DEFAULT_PAGES = 5000


def _split(value: Any) -> Any:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Patterns = Annotated[tuple[str, ...], BeforeValidator(_split)]
# Ten times what anybody lists; compiling so much takes 30 ms.
_MOST_CHARS = 4_000
# A URL of 2,000 characters takes 30 ms at worst. Honest expressions have a few hundred.
_MOST_STATES = 5_000


LINKS_VERSION = 2
"""Raised when other links would be read from the same page. Pages that only lead on are then read again."""


class WebOptions(Options):
    """Options of a site."""

    secret_neutral: ClassVar[frozenset[str]] = Options.secret_neutral | {
        "scope",
        "include",
        "exclude",
        "robots",
        "sitemap",
        "llms",
        "generated",
        "markdown",
        "hash_routes",
        "select",
        "ignore",
        "rdfa",
        "overviews",
        "shapes",
        "nonconforming",
    }
    text_or_file: ClassVar[frozenset[str]] = frozenset({"shapes"})

    scope: Literal["subpages", "host", "domain"] = Field(
        default="subpages", description="how far links are followed: below the start, on its host, on its domain"
    )
    include: Patterns = Field(default=(), description="only URLs that match one of these (* any part, or /regex/)")
    exclude: Patterns = Field(default=(), description="no URLs that match one of these; stronger than include")
    max_depth: int = Field(default=10, ge=0, description="most links between the start and a page")
    max_pages: int = Field(default=DEFAULT_PAGES, ge=1, description="most pages")
    max_bytes: ByteSize = Field(default=ByteSize(10_000_000), gt=0, description="largest page")
    robots: bool = Field(default=True, description="obey robots.txt")
    sitemap: bool = Field(default=True, description="read sitemaps, and trust their dates where they prove true")
    llms: bool = Field(default=True, description="read llms.txt where there is one")
    generated: bool = Field(
        default=False, description="also the search indexes and copies that documentation generators write"
    )
    markdown: bool = Field(default=False, description="ask for Markdown where a server offers it")
    hash_routes: bool = Field(default=False, description="`#/path` is a page of its own, and rendered")
    render: Literal["never", "auto", "always"] = Field(
        default="never", description="render pages in a browser: always, or where they come nearly empty (auto)"
    )
    select: str | None = Field(default=None, max_length=_MOST_CHARS, description="CSS selector of the part to keep")
    ignore: str | None = Field(default=None, max_length=_MOST_CHARS, description="CSS selector of parts to leave out")
    rdfa: StatementsWanted | None = Field(
        default=None, description="also read what pages state in RDFa: those that are documents, or all"
    )
    overviews: Literal["keep", "follow"] = Field(
        default="keep", description="with rdfa: index pages that are no documents (keep), or only follow their links"
    )
    shapes: ProfileShapes = Field(default=None, description="SHACL shapes in Turtle, or file:PATH, for rdfa")
    nonconforming: ProfileAction = Field(
        default="drop", description="what does not conform is left out (drop), or only counted (report)"
    )
    delay_s: float | None = Field(default=None, ge=0, description="pause between requests, instead of the setting's")
    concurrency: int | None = Field(default=None, ge=1, le=64, description="requests at once, instead of the setting's")
    headers: dict[str, str] = Field(default_factory=dict, description="headers to send; env:NAME and file:PATH refer")

    @field_validator("include", "exclude")
    @classmethod
    def _compiles(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        UrlPatterns(patterns)
        return patterns

    @field_validator("select", "ignore")
    @classmethod
    def _selects(cls, selector: str | None) -> str | None:
        if selector is not None:
            parse_fragment("").select(selector)
        return selector

    @model_validator(mode="after")
    def _renders_routes(self) -> Self:
        if self.hash_routes and self.render == "never":
            raise ValueError("hash_routes needs render=auto or render=always: only a browser sees what follows a #")
        return self

    @model_validator(mode="after")
    def _classifies_overviews(self) -> Self:
        if self.overviews == "follow" and self.rdfa is None:
            raise ValueError("overviews=follow needs rdfa=documents or rdfa=all: RDFa tells which pages are documents")
        return self

    @cached_property
    def included(self) -> "UrlPatterns | None":
        """What a URL must match, if anything."""
        return UrlPatterns(self.include) if self.include else None

    @cached_property
    def excluded(self) -> "UrlPatterns | None":
        """What a URL must not match."""
        return UrlPatterns(self.exclude) if self.exclude else None

    def reading(self) -> dict[str, Any]:
        """What changes how a page is read, or lets it be read at all; the others choose among pages by their addresses.

        Titles were kept whole at first.
        """
        chosen = self.model_dump(mode="json", include={"language", "markdown", "render", "select", "ignore"})
        judged = profile_read_by(self.shapes, self.nonconforming)
        stated = {"rdfa": [self.rdfa, STATEMENTS_VERSION], **judged} if self.rdfa else {}
        chosen |= {"overviews": self.overviews} if self.overviews != "keep" else {}
        return {**chosen, "titles": "own", **stated, **self.chosen("max_bytes")}

    @property
    def leading(self) -> str:
        """Return what decides which pages only lead on, and where pages lead to."""
        limits = [f"max_bytes={limit}" for limit in self.chosen("max_bytes").values()]
        return " ".join([f"{LINKS_VERSION} {self.overviews} {self.select or ''}", *limits])

    def listing(self) -> dict[str, Any]:
        """None: what is remembered of a site holds whatever is chosen from it."""
        return {}


class UrlPatterns:
    """Patterns for URLs: a regular expression between slashes, else `*` stands for any part."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        if sum(map(len, patterns)) > _MOST_CHARS:
            raise ValueError(f"the patterns have more than {_MOST_CHARS:,} characters")
        expressions = [pattern[1:-1] for pattern in patterns if _is_expression(pattern)]
        starred = [_with_stars(pattern) for pattern in patterns if not _is_expression(pattern)]
        self._starred = re.compile("|".join(starred)) if starred else None
        for expression in expressions:
            _checked(expression)
        self._has_expression = _checked("|".join(f"(?:{one})" for one in expressions)) if expressions else None

    def search(self, url: str) -> bool:
        """Return whether a URL matches one of the patterns."""
        if self._starred is not None and self._starred.search(url):
            return True
        return self._has_expression is not None and self._has_expression(url)


def _is_expression(pattern: str) -> bool:
    return len(pattern) > 2 and pattern[0] == pattern[-1] == "/"


def _checked(expression: str) -> Callable[[str], bool]:
    try:
        return linear_search(expression, most_states=_MOST_STATES)
    except ValueError as problem:
        raise ValueError(f"/{expression}/ is no pattern: {problem}") from None


def _with_stars(pattern: str) -> str:
    first, *others = map(re.escape, pattern.split("*"))
    if not others:
        return first
    # All but the last star may stop at the first place where what follows fits: no later one would serve better.
    return f"^{first}{''.join(f'(?>.*?{part})' for part in others[:-1])}.*{others[-1]}$"
