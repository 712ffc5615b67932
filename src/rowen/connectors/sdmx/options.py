"""What can be said about an SDMX service."""

from pydantic import Field

from rowen.connectors.catalog.options import DocumentOptions

__all__ = ["SdmxOptions"]


class SdmxOptions(DocumentOptions):
    """Options of kind `sdmx`; `language` is the one to prefer where a dataflow has names in several."""

    max_bytes: int = Field(default=1 << 30, gt=0, description="largest document that is read")
