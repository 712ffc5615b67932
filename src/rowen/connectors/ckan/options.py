"""What can be said about a CKAN portal."""

from typing import Any

from pydantic import Field

from rowen.connectors.base import Options

__all__ = ["CkanOptions"]


class CkanOptions(Options):
    """Options of kind `ckan`; `language` is the one to prefer where a record has several."""

    api_key: str | None = Field(default=None, pattern=r"^(env|file):\S+$", description="where the key is: env:NAME")
    api_key_header: str = Field(default="Authorization", pattern=r"^[A-Za-z][A-Za-z0-9-]*$")
    filter: str | None = Field(default=None, min_length=1, description="a Solr filter query, as CKAN's `fq`")
    include_private: bool = False
    page_size: int = Field(default=1000, ge=1, le=10_000)
    overlap_h: float = Field(default=1.0, ge=0)
    reconcile_days: float = Field(default=7.0, ge=0)
    delay_s: float | None = Field(default=None, ge=0)

    def reading(self) -> dict[str, Any]:
        """Only the language decides how a record is read."""
        return {"language": self.language}

    def listing(self) -> dict[str, Any]:
        """What decides which records the portal lists for us."""
        return {"filter": self.filter, "include_private": self.include_private, "api_key": self.api_key}
