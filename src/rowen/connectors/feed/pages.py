"""The pages that entries link to."""

from dataclasses import replace

from rowen.connectors.base import Tools
from rowen.connectors.feed.entry import FeedEntry
from rowen.connectors.feed.options import FeedOptions
from rowen.errors import BodyTooLargeError, CircuitOpenError, FetchError, ItemError
from rowen.model.item import Failed, Fetched, Raw, Skipped, Validators
from rowen.net.client import Client
from rowen.net.robots import Robots
from rowen.net.target import redact

__all__ = ["LinkedPages"]

_ACCEPT = "text/html,application/xhtml+xml,text/markdown;q=0.9,text/plain;q=0.8,*/*;q=0.5"


class LinkedPages:
    """Reads the page of an entry that is new, or has changed."""

    def __init__(self, client: Client, options: FeedOptions, tools: Tools) -> None:
        self._client = client
        self._options = options
        self._tools = tools
        self._robots = Robots(client) if options.robots else None

    async def look(self, entry: FeedEntry) -> Fetched | Failed | Skipped:
        """What the page says, with the entry's own record. It is proved unchanged by the entry."""
        link = entry.link or entry.url
        try:
            if self._robots is not None and not await self._robots.allows(link):
                why = f"robots.txt keeps {redact(link)} from us."
                return Failed(entry.url, why, hint="Option content=entry.", keeps_copy=False)
            response = await self._client.get(link, accept=_ACCEPT, max_bytes=self._options.max_bytes)
            if not response.ok:
                return Failed(entry.url, f"{redact(link)} answered with status {response.status}.")
            raw = Raw(
                response.url,
                response.body,
                media_type=response.media_type,
                charset=response.charset,
                title=entry.heading,
                language=self._options.language,
            )
            page = await self._tools.read(raw)
        except CircuitOpenError as problem:
            return Skipped(entry.url, str(problem))
        except (FetchError, ItemError) as problem:
            keeps_copy = not isinstance(problem, BodyTooLargeError)
            return Failed(entry.url, str(problem), problem.hint, keeps_copy=keeps_copy)
        return Fetched(
            replace(
                page,
                url=entry.url,
                title=entry.title or page.title,
                tags=(*entry.tags, *page.tags),
                language=page.language or entry.language,
                record={**page.record, **entry.record, "page": response.url},
                validators=Validators(entry.digest, entry.stamp),
            )
        )
