"""A visit of one announced document."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rowen.connectors.base import StoredState, Tools
from rowen.connectors.web.options import statement_profile
from rowen.errors import BodyTooLargeError, CircuitOpenError, FetchError, ItemError
from rowen.model.hashes import body_hash
from rowen.model.items import Failed, Fetched, Gone, Observation, Raw, Skipped, Unchanged, Validators
from rowen.model.rdf import RDFA
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.robots import Robots
from rowen.net.target import redact

if TYPE_CHECKING:
    from rowen.connectors.announced import AnnouncedOptions

LINKS_VERSION = 2
"""Raised when other links would be read from the same overview: such pages are then read again."""

_ACCEPT = "text/html,application/xhtml+xml,*/*;q=0.5"
NO_DOCUMENT = "It is no document any more."


@dataclass(slots=True)
class OverviewNote:
    """A page that only links to documents, with its validators and the version of the rules for its links."""

    links: list[str] = field(default_factory=list)
    etag: str | None = None
    last_modified: str | None = None
    version: int = 1

    @property
    def current(self) -> OverviewNote:
        """Return the note, without its validators if the page would be read differently now."""
        return self if self.version == LINKS_VERSION else OverviewNote(self.links, version=self.version)


@dataclass(frozen=True, slots=True)
class Visited:
    """The result of a visit: its outcome in a word, and the links to follow.

    `observation` is None for an overview, which is no document, and for an unknown address without a document.
    """

    outcome: str
    observation: Observation | None = None
    links: tuple[str, ...] = ()
    overview: OverviewNote | None = None
    why: str | None = None

    def observation_of(self, stored: StoredState) -> Observation:
        """Return the observation of a stored document."""
        return self.observation or Gone(stored.url, self.why or NO_DOCUMENT)


class DocumentVisitor:
    """Requests documents, conditionally if they are stored."""

    def __init__(self, client: Client, feed: str, options: AnnouncedOptions, tools: Tools) -> None:
        self._client = client
        self._options = options
        self._tools = tools
        self._robots = Robots(client) if options.robots else None
        self._credentials = Credentials.of(feed, options.headers)
        self._profile = statement_profile(options.shapes, options.nonconforming)

    async def visit(self, url: str, stored: StoredState | None, overview: OverviewNote | None) -> Visited:
        """Request an address, compare the answer with the stored document or overview, and read it if it differs."""
        links = stored.links if stored else tuple(overview.links) if overview else ()
        validators = stored or overview
        try:
            self._client.pace(url, delay_s=self._options.delay_s)
            if self._robots is not None and not await self._robots.allows(url):
                why = f"robots.txt does not allow us to request {redact(url)}."
                return _failed(url, why, "Ask the publisher, or set the option robots to false.", None)
            response = await self._client.get(
                url,
                etag=validators.etag if validators else None,
                last_modified=validators.last_modified if validators else None,
                accept=_ACCEPT,
                credentials=self._credentials,
                max_bytes=self._options.max_bytes,
            )
            if response.not_modified:
                if stored is None:
                    return Visited("overview", None, links, overview)
                return Visited("unchanged", Unchanged(stored.url), links)
            if response.status in (404, 410):
                why = f"status {response.status}"
                return Visited("gone", Gone(stored.url, why) if stored else None, why=why)
            if not response.ok:
                return _failed(url, f"{redact(url)} answered with status {response.status}.", None, links)
            if stored is not None and stored.body_hash == body_hash(response.body):
                unchanged = Validators(response.etag, response.last_modified, stored.body_hash)
                return Visited("unchanged", Unchanged(stored.url, unchanged), links)
            # Links are relative to the final URL.
            document = await self._tools.read(
                Raw(
                    response.url,
                    response.body,
                    media_type=response.media_type,
                    charset=response.charset,
                    language=self._options.language,
                    etag=response.etag,
                    last_modified=response.last_modified,
                    statements="documents",
                    profile=self._profile,
                )
            )
        except CircuitOpenError as problem:
            return Visited("skipped", Skipped(url, str(problem)), links, why=str(problem))
        except (FetchError, ItemError) as problem:
            # An item that other options let in is deleted; an item that became too large has failed.
            if isinstance(problem, BodyTooLargeError) and stored is not None and stored.body_hash is None:
                return _failed(url, str(problem), problem.hint, None)
            return _failed(url, str(problem), problem.hint, links)
        stated = document.record.get(RDFA) or {}
        links = tuple(stated.get("links", ())) if self._options.follow else ()
        if document.media_type == "text/html" and stated.get("type", "overview") == "overview":
            note = OverviewNote(list(links), response.etag, response.last_modified, LINKS_VERSION)
            return Visited("overview", None, links, note)
        tags = (*document.tags, stated["type"]) if "type" in stated else document.tags
        return Visited("stored", Fetched(replace(document, url=url, tags=tags, links=links)), links)


def _failed(url: str, why: str, hint: object, links: tuple[str, ...] | None) -> Visited:
    """Return the result for a failed document; without `links`, the options exclude it, and no copy is kept."""
    failed = Failed(url, why, str(hint) if hint else None, keeps_copy=links is not None)
    return Visited("failed", failed, links or (), why=why)
