"""What can be said about a data.json."""

from typing import Any

from pydantic import Field

from rowen.connectors.base import Options

__all__ = ["DataJsonOptions"]


class DataJsonOptions(Options):
    """Options of kind `datajson`; `language` is the one to prefer where a record has several."""

    headers: dict[str, str] = Field(default_factory=dict, description="headers to send; env:NAME and file:PATH refer")
    delay_s: float | None = Field(default=None, ge=0)
    max_bytes: int = Field(default=1 << 30, gt=0, description="largest document that is read")

    def reading(self) -> dict[str, Any]:
        """Only the language decides how a record is read."""
        return {"language": self.language}

    def listing(self) -> dict[str, Any]:
        """An unchanged document need not be read again, unless it would be read otherwise."""
        return {"language": self.language, "headers": self.headers}
