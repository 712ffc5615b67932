"""What can be said about a CKAN portal."""

from pydantic import Field

from rowen.connectors.catalog.options import CatalogOptions

__all__ = ["CkanOptions"]


class CkanOptions(CatalogOptions):
    """Options of kind `ckan`."""

    api_key: str | None = Field(default=None, pattern=r"^(env|file):\S+$", description="where the key is: env:NAME")
    api_key_header: str = Field(default="Authorization", pattern=r"^[A-Za-z][A-Za-z0-9-]*$")
    filter: str | None = Field(default=None, min_length=1, description="a Solr filter query, as CKAN's `fq`")
    include_private: bool = False
    page_size: int = Field(default=1000, ge=1, le=10_000, description="datasets to ask for at once")
