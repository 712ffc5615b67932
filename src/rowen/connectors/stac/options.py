"""What can be said about a STAC catalog."""

from typing import Any

from pydantic import Field

from rowen.connectors.base import Options
from rowen.connectors.catalog.options import CatalogOptions

__all__ = ["StacOptions"]


class StacOptions(Options):
    """Options of kind `stac`; `language` is that of all collections."""

    headers: dict[str, str] = Field(default_factory=dict, description="headers to send; env:NAME and file:PATH refer")
    limit: int | None = Field(default=None, ge=1, le=10_000, description="collections to ask for at once")
    depth: int = Field(default=6, ge=0, le=50, description="how deep to follow the children of a static catalog")
    max_documents: int = Field(default=100_000, ge=1, description="most documents of a static catalog")
    delay_s: float | None = Field(default=None, ge=0, description="least time between two requests")

    def reading(self) -> dict[str, Any]:
        """Only the language decides how a collection is read."""
        return {"language": self.language}

    def listing(self) -> dict[str, Any]:
        """What is remembered of documents holds as long as we are let in alike, and read them alike."""
        return {"headers": self.headers, "language": self.language}

    def as_catalog(self) -> CatalogOptions:
        """What of it all catalogs have."""
        return CatalogOptions(headers=self.headers, delay_s=self.delay_s, language=self.language)
