"""What can be said about ArcGIS."""

from typing import Literal

from pydantic import Field

from rowen.connectors.catalog.options import CatalogOptions

__all__ = ["ArcGisOptions"]


class ArcGisOptions(CatalogOptions):
    """Options of kind `arcgis`."""

    collection: Literal["all", "appAndMap", "dataset", "document"] = Field(
        default="dataset", description="which collection of a site"
    )
    page_size: int = Field(default=100, ge=1, le=100)
