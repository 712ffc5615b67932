"""What can be said about a catalogue service for the web."""

from typing import Any, Literal

from pydantic import Field

from rowen.connectors.catalog.options import CatalogOptions

__all__ = ["CswOptions", "Profile"]

Profile = Literal["iso19139", "iso19115-3", "dublin-core"]


class CswOptions(CatalogOptions):
    """Options of kind `csw`."""

    profile: Profile | None = Field(default=None, description="the schema to ask for, instead of the richest")

    def reading(self) -> dict[str, Any]:
        """Another schema is another record."""
        return {"language": self.language, "profile": self.profile}
