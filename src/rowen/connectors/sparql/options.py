"""What can be said about a SPARQL endpoint."""

import re
from typing import Any

from pydantic import Field, field_validator

from rowen.connectors.catalog.options import CatalogOptions

__all__ = ["SparqlOptions"]

_IRI = re.compile(r"[a-zA-Z][\w+.-]*:[^\s<>\"{}|\\^`]+")


class SparqlOptions(CatalogOptions):
    """Options of kind `sparql`; `language` is the one to prefer where a record has several."""

    page_size: int = Field(default=256, ge=1, le=10_000, description="datasets to ask for at once")
    graph: str | None = Field(default=None, description="the named graph to read, where it is not the default one")
    timeout_s: float = Field(default=300.0, gt=0, le=3600, description="how long an answer may take")

    @field_validator("graph")
    @classmethod
    def _is_iri(cls, value: str | None) -> str | None:
        if value is not None and not _IRI.fullmatch(value):
            raise ValueError("a graph is named by an IRI, such as https://data.example.org/graph")
        return value

    def listing(self) -> dict[str, Any]:
        """What decides which records are listed for us."""
        return {**super().listing(), "timeout_s": None}
