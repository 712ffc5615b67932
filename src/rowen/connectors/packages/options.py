"""What may be chosen about a package."""

import re
from typing import Any, ClassVar

from pydantic import Field, field_validator

from rowen.connectors.web.options import WebOptions

__all__ = ["PackageOptions"]

_ADDRESS = re.compile(r"https?://[^/?#@\s]+(?:[/?#]\S*)?", re.IGNORECASE)


class PackageOptions(WebOptions):
    """Options of a package; those of a site hold for its documentation."""

    secret_neutral: ClassVar[frozenset[str]] = WebOptions.secret_neutral | {"prereleases"}

    registry: str | None = Field(
        default=None, description="where packages are asked for, instead of pip's or npm's own"
    )
    registry_headers: dict[str, str] = Field(
        default_factory=dict, description="headers for the registry alone; env:NAME and file:PATH refer"
    )
    docs: str = Field(default="auto", description="documentation: what the package names (auto), off, or a URL")
    changelog: str = Field(default="auto", description="release notes: what there is (auto), off, or a URL")
    prereleases: bool = Field(default=False, description="follow pre-releases as well")

    @field_validator("registry", "docs", "changelog")
    @classmethod
    def _is_address(cls, value: str | None) -> str | None:
        if value in (None, "auto", "off") or _ADDRESS.fullmatch(value):
            return value
        if "@" in value:
            raise ValueError("an address holds no login: put it into registry_headers or headers, by reference")
        raise ValueError("an address starts with http:// or https://")

    def listing(self) -> dict[str, Any]:
        """What is remembered of a package holds while these stay."""
        return self.model_dump(mode="json", include={"registry", "docs", "changelog", "prereleases", "max_bytes"})

    def for_docs(self) -> WebOptions:
        """The options of the documentation site; headers only if the user named it, not the package."""
        chosen = self.model_dump(include=set(WebOptions.model_fields))
        return WebOptions.model_validate(chosen if self.named_docs else {**chosen, "headers": {}})

    @property
    def named_docs(self) -> str | None:
        """The documentation that the user named himself."""
        return None if self.docs in ("auto", "off") else self.docs

    def for_changelog(self) -> WebOptions:
        """The options of a changelog that is a page of its own: nothing that was chosen with the site in mind."""
        kept = {"language", "max_bytes", "robots", "delay_s", "concurrency"}
        return WebOptions(**self.model_dump(include=kept), max_pages=1, sitemap=False, llms=False)
