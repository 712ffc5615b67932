"""What can be said about a data.json."""

from pydantic import Field

from rowen.connectors.catalog.options import DocumentOptions

__all__ = ["DataJsonOptions"]


class DataJsonOptions(DocumentOptions):
    """Options of kind `datajson`."""

    max_bytes: int = Field(default=1 << 30, gt=0, description="largest document that is read")
