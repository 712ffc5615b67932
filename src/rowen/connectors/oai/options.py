"""What can be said about an OAI-PMH repository."""

from typing import Any

from pydantic import Field, field_validator

from rowen.connectors.catalog.options import CatalogOptions

__all__ = ["OaiOptions"]


class OaiOptions(CatalogOptions):
    """Options of kind `oai`; how many records come at once is the repository's choice."""

    prefix: str | None = Field(
        default=None, pattern=r"^[A-Za-z0-9\-_.!~*'()]+$", description="the metadata format to ask for"
    )
    sets: tuple[str, ...] = Field(default=(), description="the sets to read, instead of all records")

    @field_validator("sets", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(one.strip() for one in value.split(",") if one.strip()) if isinstance(value, str) else value

    def reading(self) -> dict[str, Any]:
        """Another format is another record."""
        return {"language": self.language, "prefix": self.prefix}
