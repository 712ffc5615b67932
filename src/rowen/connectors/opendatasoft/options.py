"""What can be said about an OpenDataSoft portal."""

from pydantic import Field

from rowen.connectors.catalog.options import CatalogOptions

__all__ = ["OpenDataSoftOptions"]


class OpenDataSoftOptions(CatalogOptions):
    """Options of kind `opendatasoft`."""

    api_key: str | None = Field(default=None, pattern=r"^(env|file):\S+$", description="where the key is: env:NAME")
    filter: str | None = Field(default=None, min_length=1, description="a condition in ODSQL")
    page_size: int = Field(default=100, ge=1, le=100)
