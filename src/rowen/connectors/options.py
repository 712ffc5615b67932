"""Options of a source as pydantic checks them: what kinds declare unless start-up time speaks against it."""

from typing import Any

from pydantic import BaseModel, ConfigDict

__all__ = ["Options"]


class Options(BaseModel):
    """Options of a source, checked when it is added, not when it runs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    language: str | None = None

    def reading(self) -> dict[str, Any]:
        """The options under which an item would be read otherwise: when they change, every item is read anew."""
        return self.model_dump(mode="json")

    def chosen(self, *names: str) -> dict[str, Any]:
        """Return those of these options that are not at their defaults."""
        return self.model_dump(mode="json", include=set(names), exclude_defaults=True)

    def listing(self) -> dict[str, Any]:
        """The options under which a cursor holds: when they change, the source is walked from its beginning."""
        return self.model_dump(mode="json")
