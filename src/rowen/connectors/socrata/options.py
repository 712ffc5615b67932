"""What can be said about a Socrata portal."""

from typing import Literal

from pydantic import Field

from rowen.connectors.catalog.options import CatalogOptions

__all__ = ["SocrataOptions"]

Sort = Literal["calendars", "charts", "datasets", "files", "filters", "forms", "links", "maps", "stories"]


class SocrataOptions(CatalogOptions):
    """Options of kind `socrata`."""

    app_token: str | None = Field(default=None, pattern=r"^(env|file):\S+$", description="where the token is: env:NAME")
    only: tuple[Sort, ...] = Field(default=("datasets", "maps"), description="which sorts of assets; empty for all")
    page_size: int = Field(default=500, ge=1, le=10_000)
