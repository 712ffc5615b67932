"""What can be said about an RDF catalog."""

from typing import Any, Literal

from pydantic import Field

from rowen.connectors.catalog.options import CatalogOptions

__all__ = ["DcatOptions"]


class DcatOptions(CatalogOptions):
    """Options of kind `dcat`; `language` is the one to prefer where a record has several."""

    format: Literal["turtle", "rdfxml", "jsonld", "ntriples", "n3", "trig", "nquads"] | None = Field(
        default=None, description="the syntax, where neither the server nor the document tells it"
    )
    max_triples: int = Field(default=2_000_000, gt=0, description="most triples that are read from one answer")
    whole: bool = Field(default=False, description="the document has no further pages, whatever its size")

    def reading(self) -> dict[str, Any]:
        """The language decides how a record is read, and the syntax."""
        return {"language": self.language, "format": self.format}

    def listing(self) -> dict[str, Any]:
        """What decides which records are listed for us."""
        return {**super().listing(), "max_triples": None, "whole": None}
