"""What can be said about an SDMX service."""

from typing import Any

from pydantic import Field

from rowen.connectors.base import Options
from rowen.connectors.catalog.options import CatalogOptions

__all__ = ["SdmxOptions"]


class SdmxOptions(Options):
    """Options of kind `sdmx`; `language` is the one to prefer where a dataflow has names in several."""

    headers: dict[str, str] = Field(default_factory=dict, description="headers to send; env:NAME and file:PATH refer")
    delay_s: float | None = Field(default=None, ge=0, description="least time between two requests")
    max_bytes: int = Field(default=1 << 30, gt=0, description="largest document that is read")

    def reading(self) -> dict[str, Any]:
        """Only the language decides how a dataflow is read."""
        return {"language": self.language}

    def listing(self) -> dict[str, Any]:
        """An unchanged document need not be read again, unless it would be read otherwise."""
        return {"language": self.language, "headers": self.headers}

    def as_catalog(self) -> CatalogOptions:
        """What of it all catalogs have."""
        return CatalogOptions(headers=self.headers, delay_s=self.delay_s, language=self.language)
