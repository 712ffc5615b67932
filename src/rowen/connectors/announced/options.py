"""What a user says about announced documents: of which feed, and how they are visited."""

from typing import Any, ClassVar

from pydantic import Field

from rowen.connectors.base import Options
from rowen.connectors.catalog.options import web_url
from rowen.connectors.profile import ProfileAction, ProfileShapes, profile_read_by
from rowen.model.statements import STATEMENTS_VERSION

__all__ = ["AnnouncedOptions", "accept", "recognise"]


class AnnouncedOptions(Options):
    """Options of announced documents."""

    secret_neutral: ClassVar[frozenset[str]] = Options.secret_neutral | {"follow", "robots", "shapes", "nonconforming"}
    text_or_file: ClassVar[frozenset[str]] = frozenset({"shapes"})

    # At the default pace of a request in 1.25 s a job takes twenty minutes; twice as many would keep others waiting.
    job_urls: int = Field(default=1_000, ge=1, description="most addresses that one job visits")
    # As in the process that this one takes the place of: what changes without a word is found after ten jobs or so.
    revisit: float = Field(default=0.1, ge=0, le=1, description="share of known documents that a job visits again")
    seed: int = Field(default=0, description="number from which the revisited ones are drawn")
    follow: bool = Field(default=True, description="also the documents that a document leads to")
    robots: bool = Field(default=True, description="obey robots.txt")
    headers: dict[str, str] = Field(
        default_factory=dict, description="headers for the origin of the feed; env:NAME and file:PATH refer"
    )
    delay_s: float | None = Field(default=None, ge=0, description="pause between requests, instead of the setting's")
    max_bytes: int = Field(default=10_000_000, ge=1, description="largest document")
    shapes: ProfileShapes = Field(default=None, description="SHACL shapes in Turtle, or file:PATH of them")
    nonconforming: ProfileAction = Field(
        default="drop", description="what does not conform is left out (drop), or only counted (report)"
    )

    def reading(self) -> dict[str, Any]:
        """The language enters into each document, and how statements are read; one that is too large is not read."""
        judged = profile_read_by(self.shapes, self.nonconforming)
        return {
            "language": self.language,
            "statements": STATEMENTS_VERSION,
            **judged,
            **self.chosen("max_bytes"),
        }

    def listing(self) -> dict[str, Any]:
        """None: what was announced and visited holds whatever is chosen from it."""
        return {}


def recognise(address: str) -> str | None:
    """The URL of the feed in `announced:https://…`."""
    return accept(address) if address.startswith("announced:") else None


def accept(address: str) -> str | None:
    """The URL of any feed."""
    return web_url(address, "announced")
