"""Options of a site, and options of all sources whose pages may contain RDF."""

import re
from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, ByteSize, Field, field_validator, model_validator
from turbohtml import parse_fragment

from rowen.connectors.base import Options
from rowen.connectors.options import split_commas
from rowen.formats.rdf.profile import profile_in
from rowen.model.hashes import body_hash
from rowen.model.rdf import STATEMENTS_VERSION, StatementProfile, StatementsWanted
from rowen.model.text import linear_search
from rowen.model.url import Address

# The documentation of PostgreSQL has 1,168 pages and that of a large Java library as many; at half, such sites would be
# incomplete. An endless calendar costs 5,000 requests once, and the run statistics show that pages were left out.
DEFAULT_PAGES = 5000

LINKS_VERSION = 2
"""Raise this when the same page would yield other links; bridges are then read again."""

# Ten times as long as any real list; compiling such a list takes 30 ms.
_MOST_CHARS = 4_000
# Maximum states of an expression: a URL of 2,000 characters takes 30 ms at worst. Real expressions have hundreds.
_MOST_STATES = 5_000


def _check_shapes(shapes: str | None) -> str | None:
    # A named file was already replaced by its text, since a validator must not open files (see `Options.text_or_file`).
    if shapes is not None and Address.of(shapes).scheme == "file":
        raise ValueError("the file was not read: only its text can be checked")
    if shapes is not None:
        profile_in(shapes)
    return shapes


Patterns = Annotated[tuple[str, ...], BeforeValidator(split_commas)]
ProfileShapes = Annotated[str | None, AfterValidator(_check_shapes)]
ProfileAction: TypeAlias = Literal["drop", "report"]


def statement_profile(shapes: str | None, action: ProfileAction) -> StatementProfile | None:
    """Return the application profile for checking the RDF statements of a page; None without shapes."""
    return None if shapes is None else StatementProfile(shapes, drop=action == "drop")


def profile_reading(shapes: str | None, action: ProfileAction) -> dict[str, Any]:
    """Return the part of `Options.reading` for a profile; empty without shapes, so that stored pages stay current."""
    return {} if shapes is None else {"profile": [body_hash(shapes.encode()).hex(), action]}


class WebOptions(Options):
    """Options of a site."""

    secret_neutral: ClassVar[frozenset[str]] = Options.secret_neutral | {
        *("scope", "include", "exclude", "robots", "sitemap", "llms", "generated", "markdown", "hash_routes"),
        *("select", "ignore", "rdfa", "overviews", "shapes", "nonconforming"),
    }
    text_or_file: ClassVar[frozenset[str]] = frozenset({"shapes"})

    scope: Literal["subpages", "host", "domain"] = Field(
        default="subpages", description="how far to follow links: below the start, on its host, on its domain"
    )
    include: Patterns = Field(default=(), description="only URLs that match one of these (* any part, or /regex/)")
    exclude: Patterns = Field(default=(), description="no URLs that match one of these; stronger than include")
    max_depth: int = Field(default=10, ge=0, description="maximum number of links between the start and a page")
    max_pages: int = Field(default=DEFAULT_PAGES, ge=1, description="maximum number of pages")
    max_bytes: ByteSize = Field(default=ByteSize(10_000_000), gt=0, description="maximum size of a page")
    robots: bool = Field(default=True, description="obey robots.txt")
    sitemap: bool = Field(default=True, description="read sitemaps, and trust their dates once they proved true")
    llms: bool = Field(default=True, description="read llms.txt")
    generated: bool = Field(
        default=False, description="include search indexes and copies that documentation generators write"
    )
    markdown: bool = Field(default=False, description="request Markdown where a server offers it")
    hash_routes: bool = Field(default=False, description="treat `#/path` as a page of its own, and render it")
    render: Literal["never", "auto", "always"] = Field(
        default="never", description="render pages in a browser: always, or only nearly empty ones (auto)"
    )
    select: str | None = Field(default=None, max_length=_MOST_CHARS, description="CSS selector of the part to keep")
    ignore: str | None = Field(default=None, max_length=_MOST_CHARS, description="CSS selector of parts to leave out")
    rdfa: StatementsWanted | None = Field(
        default=None, description="also read the RDFa of pages: of those that are documents, or of all"
    )
    overviews: Literal["keep", "follow"] = Field(
        default="keep", description="with rdfa: store index pages that are no documents, or only follow their links"
    )
    shapes: ProfileShapes = Field(default=None, description="SHACL shapes in Turtle, or file:PATH, for rdfa")
    nonconforming: ProfileAction = Field(
        default="drop", description="leave out statements that do not conform (drop), or only count them (report)"
    )
    delay_s: float | None = Field(default=None, ge=0, description="pause between requests, instead of the setting's")
    concurrency: int | None = Field(
        default=None, ge=1, le=64, description="parallel requests, instead of the setting's"
    )
    headers: dict[str, str] = Field(
        default_factory=dict, description="headers to send; env:NAME and file:PATH are references"
    )

    @field_validator("include", "exclude")
    @classmethod
    def _check_patterns(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        UrlPatterns(patterns)
        return patterns

    @field_validator("select", "ignore")
    @classmethod
    def _check_selector(cls, selector: str | None) -> str | None:
        if selector is not None:
            parse_fragment("").select(selector)
        return selector

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        if self.hash_routes and self.render == "never":
            raise ValueError("hash_routes needs render=auto or render=always: only a browser sees what follows a #")
        if self.overviews == "follow" and self.rdfa is None:
            raise ValueError("overviews=follow needs rdfa=documents or rdfa=all: only RDFa identifies documents")
        return self

    @cached_property
    def included(self) -> "UrlPatterns | None":
        """Return the patterns of which a URL must match one; None if there are no such patterns."""
        return UrlPatterns(self.include) if self.include else None

    @cached_property
    def excluded(self) -> "UrlPatterns | None":
        """Return the patterns that a URL must not match; None if there are no such patterns."""
        return UrlPatterns(self.exclude) if self.exclude else None

    def reading(self) -> dict[str, Any]:
        """Return the options that decide whether and how a page is read; the other options select pages by URL."""
        values = self.model_dump(mode="json", include={"language", "markdown", "render", "select", "ignore"})
        if self.overviews != "keep":
            values["overviews"] = self.overviews
        values["titles"] = "own"
        if self.rdfa:
            values["rdfa"] = [self.rdfa, STATEMENTS_VERSION]
            values |= profile_reading(self.shapes, self.nonconforming)
        return values | self.chosen("max_bytes")

    @property
    def leading(self) -> str:
        """Return the options that decide which pages are bridges, and which links they have, as one string."""
        limits = [f"max_bytes={limit}" for limit in self.chosen("max_bytes").values()]
        return " ".join([f"{LINKS_VERSION} {self.overviews} {self.select or ''}", *limits])

    def listing(self) -> dict[str, Any]:
        """Return nothing, since the cursor of a site stays valid when the selection of pages changes."""
        return {}


class UrlPatterns:
    """Patterns for URLs: a regular expression between slashes, or a text in which `*` matches any characters."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        if sum(map(len, patterns)) > _MOST_CHARS:
            raise ValueError(f"the patterns have more than {_MOST_CHARS:,} characters")
        expressions, starred = [], []
        for pattern in patterns:
            if len(pattern) > 2 and pattern[0] == pattern[-1] == "/":
                expressions.append(pattern[1:-1])
            else:
                # All stars but the last may stop at the first position where the rest matches.
                first, *others = map(re.escape, pattern.split("*"))
                lazy = "".join(f"(?>.*?{part})" for part in others[:-1])
                starred.append(f"^{first}{lazy}.*{others[-1]}$" if others else first)
        self._starred = re.compile("|".join(starred)) if starred else None
        for expression in expressions:
            _compiled(expression)
        self._matches_expression = (
            _compiled("|".join(f"(?:{expression})" for expression in expressions)) if expressions else None
        )

    def search(self, url: str) -> bool:
        """Return whether a URL matches one of the patterns."""
        if self._starred is not None and self._starred.search(url):
            return True
        return self._matches_expression is not None and self._matches_expression(url)


def _compiled(expression: str) -> Callable[[str], bool]:
    try:
        return linear_search(expression, most_states=_MOST_STATES)
    except ValueError as problem:
        raise ValueError(f"/{expression}/ is no pattern: {problem}") from None
