"""What every door may look at."""

import difflib
import os
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rowen.errors import NotFoundError, UsageError
from rowen.model.run import Change, Run
from rowen.model.source import Source
from rowen.model.url import file_url, key
from rowen.service.vectors import Vectors
from rowen.settings import Settings
from rowen.store import changes, library, quarantine, runs
from rowen.store import sources as source_store
from rowen.store import twins as twin_store
from rowen.store.database import Database
from rowen.store.library import Entry, Overview, Revision
from rowen.store.quarantine import Case
from rowen.store.twins import Group

__all__ = ["Case", "Entry", "Group", "Overview", "Reading", "Revision"]


class Reading:
    """The questions; none of them changes anything."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._database = Database(settings)
        self._embedding = Vectors(settings, self._database)

    async def sources(self) -> list[Source]:
        """All sources, by name."""
        async with self._database.connection() as c:
            return await source_store.every(c)

    async def source(self, name: str) -> Source:
        """One source."""
        async with self._database.connection() as c:
            return await source_store.get(c, name)

    async def overview(self) -> list[Overview]:
        """How all sources are doing."""
        async with self._database.connection() as c:
            return await library.overview(c)

    async def get(self, url: str, *, source: str | None = None) -> Entry:
        """One item by its URL, or the path of its file."""
        async with self._database.connection() as c:
            found = [entry for entry in await library.entries(c, _key(url)) if source in (None, entry.source)]
        if not found:
            raise NotFoundError(f"Nothing is held of {url!r}.", hint="`rowen search` finds items by their words.")
        return found[0]

    async def twins(self, url: str, *, source: str | None = None) -> Group | None:
        """The same dataset in other sources, and which listing is the original; None if no other source has it."""
        entry = await self.get(url, source=source)
        async with self._database.connection() as c:
            return (await twin_store.groups(c, [entry.id])).get(entry.id)

    async def history(self, url: str, *, source: str | None = None) -> list[Revision]:
        """All texts that an item had, oldest first."""
        entry = await self.get(url, source=source)
        async with self._database.connection() as c:
            return await library.revisions(c, entry.id)

    async def diff(
        self, url: str, *, source: str | None = None, older: int | None = None, newer: int | None = None
    ) -> str:
        """What changed between two texts of an item, by default the last two, as a unified diff."""
        texts = {revision.number: revision for revision in await self.history(url, source=source)}
        newer = max(texts) if newer is None else newer
        older = newer - 1 if older is None else older
        if newer not in texts or (older not in texts and older != 0):
            raise NotFoundError(f"Revision {older} or {newer} of {url!r} is not kept; there are {sorted(texts)}.")
        before = texts[older].text.splitlines() if older else []
        lines = difflib.unified_diff(
            before, texts[newer].text.splitlines(), f"revision {older}", f"revision {newer}", lineterm=""
        )
        return "\n".join(lines)

    async def changes(
        self, *, since: int | datetime | timedelta = 0, source: str | None = None, limit: int | None = None
    ) -> list[Change]:
        """The lines of the change log after a number, or since a moment."""
        async with self._database.connection() as c:
            after = since if isinstance(since, int) else await changes.number_before(c, _moment(since))
            return await changes.read(c, after=after, limit=limit, source=source)

    async def follow(
        self, *, since: int | datetime | timedelta = 0, source: str | None = None
    ) -> AsyncGenerator[Change]:
        """The lines of the change log, and then each new one as it is committed; never ends."""
        async with self._database.connection() as c:
            after = since if isinstance(since, int) else await changes.number_before(c, _moment(since))
        async for change in changes.follow(self._database, after=after, source=source):
            yield change

    async def last_change(self) -> int:
        """The number of the newest line of the change log."""
        async with self._database.connection() as c:
            return await changes.last_number(c)

    async def runs(self, source: str | None = None, *, limit: int = 20) -> list[Run]:
        """The last runs, newest first."""
        async with self._database.connection() as c:
            if source is not None:
                await source_store.get(c, source)
            return await runs.recent(c, source=source, limit=limit)

    async def run(self, run_id: int) -> Run:
        """One run."""
        async with self._database.connection() as c:
            return await runs.get(c, run_id)

    async def quarantine(self, source: str | None = None, *, limit: int = 100) -> list[Case]:
        """What could not be read, with the reasons."""
        async with self._database.connection() as c:
            if source is not None:
                await source_store.get(c, source)
            return await quarantine.read(c, source=source, limit=limit)


def _key(url: str) -> bytes:
    if "://" not in url and not url.startswith("pkg:"):
        return key(file_url(_absolute(url)))
    try:
        return key(url)
    except ValueError:
        raise UsageError(f"{url!r} is neither a URL nor a path.") from None


def _absolute(path: str) -> bytes:
    return os.fsencode(Path(os.path.normpath(Path(path).expanduser().absolute())))


def _moment(since: datetime | timedelta) -> datetime:
    return datetime.now(UTC) - since if isinstance(since, timedelta) else since
