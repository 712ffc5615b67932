"""What can be said about a STAC catalog."""

from pydantic import Field

from rowen.connectors.catalog.options import DocumentOptions

__all__ = ["StacOptions"]


class StacOptions(DocumentOptions):
    """Options of kind `stac`; `language` is that of all collections."""

    limit: int | None = Field(default=None, ge=1, le=10_000, description="collections to ask for at once")
    depth: int = Field(default=6, ge=0, le=50, description="how deep to follow the children of a static catalog")
    max_documents: int = Field(default=100_000, ge=1, description="most documents of a static catalog")
