"""One look at one document."""

from dataclasses import dataclass, replace

from rowen.connectors.announced.memory import LINKS_VERSION, OverviewNote
from rowen.connectors.announced.options import AnnouncedOptions
from rowen.connectors.base import Held, Tools
from rowen.connectors.profile import statement_profile
from rowen.errors import BodyTooLargeError, CircuitOpenError, FetchError, ItemError
from rowen.model.hashes import body_hash
from rowen.model.item import Document, Failed, Fetched, Gone, Observation, Raw, Skipped, Unchanged, Validators
from rowen.model.statements import RDFA
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.response import Response
from rowen.net.robots import Robots
from rowen.net.target import redact

__all__ = ["DocumentVisitor", "Visited"]

_ACCEPT = "text/html,application/xhtml+xml,*/*;q=0.5"
_GONE = frozenset({404, 410})


@dataclass(frozen=True, slots=True)
class Visited:
    """What a visit gave: how it ended, in a word, and where the address leads.

    `observation` is what the flow is told; None of an overview, which is no document, and of what is not there.
    """

    outcome: str
    observation: Observation | None = None
    links: tuple[str, ...] = ()
    overview: OverviewNote | None = None
    why: str | None = None

    def observation_of(self, held: Held) -> Observation:
        """What the flow is told of a document that we hold."""
        return self.observation or Gone(held.url, self.why or "It is no document any more.")


class DocumentVisitor:
    """Asks for documents, with what we hold of them."""

    def __init__(self, client: Client, feed: str, options: AnnouncedOptions, tools: Tools) -> None:
        self._client = client
        self._options = options
        self._tools = tools
        self._robots = Robots(client) if options.robots else None
        self._credentials = Credentials.of(feed, options.headers)
        self._profile = statement_profile(options.shapes, options.nonconforming)

    async def visit(self, url: str, held: Held | None, overview: OverviewNote | None) -> Visited:
        """What an address answers now."""
        links = held.links if held else tuple(overview.links) if overview else ()
        try:
            self._client.pace(url, delay_s=self._options.delay_s)
            if self._robots is not None and not await self._robots.allows(url):
                why = f"robots.txt keeps {redact(url)} from us."
                return _left_out(url, why, "Ask the publisher, or set the option robots to false.")
            response = await self._ask(url, held or overview)
            return await self._understood(url, response, held, overview)
        except CircuitOpenError as problem:
            return Visited("skipped", Skipped(url, str(problem)), links, why=str(problem))
        except (FetchError, ItemError) as problem:
            # An item that other options let in is deleted; an item that became too large has failed.
            if isinstance(problem, BodyTooLargeError) and held is not None and held.body_hash is None:
                return _left_out(url, str(problem), problem.hint)
            return _failed(url, str(problem), problem.hint, links)

    async def _ask(self, url: str, known: Held | OverviewNote | None) -> Response:
        return await self._client.get(
            url,
            etag=known.etag if known else None,
            last_modified=known.last_modified if known else None,
            accept=_ACCEPT,
            credentials=self._credentials,
            max_bytes=self._options.max_bytes,
        )

    async def _understood(
        self, url: str, response: Response, held: Held | None, overview: OverviewNote | None
    ) -> Visited:
        if response.not_modified:
            if held is not None:
                return Visited("unchanged", Unchanged(held.url), held.links)
            return Visited("overview", None, tuple(overview.links) if overview else (), overview)
        if response.status in _GONE:
            why = f"status {response.status}"
            return Visited("gone", Gone(held.url, why) if held else None, why=why)
        if not response.ok:
            links = held.links if held else tuple(overview.links) if overview else ()
            return _failed(url, f"{redact(url)} answered with status {response.status}.", None, links)
        if held is not None and held.body_hash == body_hash(response.body):
            validators = Validators(response.etag, response.last_modified, held.body_hash)
            return Visited("unchanged", Unchanged(held.url, validators), held.links)
        return self._classified(url, response, await self._read(response))

    async def _read(self, response: Response) -> Document:
        """The document in an answer; addresses in it are relative to where it was found in the end."""
        return await self._tools.read(
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

    def _classified(self, url: str, response: Response, document: Document) -> Visited:
        told = document.record.get(RDFA) or {}
        links = tuple(told.get("links", ())) if self._options.follow else ()
        if document.media_type == "text/html" and told.get("type", "overview") == "overview":
            note = OverviewNote(list(links), response.etag, response.last_modified, LINKS_VERSION)
            return Visited("overview", None, links, note)
        tags = (*document.tags, told["type"]) if "type" in told else document.tags
        return Visited("stored", Fetched(replace(document, url=url, tags=tags, links=links)), links)


def _failed(url: str, why: str, hint: object, links: tuple[str, ...]) -> Visited:
    return Visited("failed", Failed(url, why, str(hint) if hint else None), links, why=why)


def _left_out(url: str, why: str, hint: object) -> Visited:
    """A document that the options exclude: it is not stored, and its links are not followed."""
    failed = Failed(url, why, str(hint) if hint else None, keeps_copy=False)
    return Visited("failed", failed, why=why)
