"""Single items: their text, their history, the same thing in other sources."""

import difflib
import os
from pathlib import Path

from rowen.errors import Hint, NotFoundError, UsageError, action
from rowen.harvest.engine import Engine
from rowen.model.library import Entry, Revision
from rowen.model.twins import TwinGroup
from rowen.model.url import file_url, key
from rowen.store import library
from rowen.store import twins as twin_store

__all__ = ["Items"]


class Items:
    """Looking at single items."""

    def __init__(self, engine: Engine) -> None:
        self._database = engine.database

    async def get(self, url: str, *, source: str | None = None) -> Entry:
        """One item by its URL, or the path of its file."""
        async with self._database.connection() as c:
            found = [entry for entry in await library.entries(c, _key(url)) if source in (None, entry.source)]
        if not found:
            raise NotFoundError(
                f"Nothing is held of {url!r}.", hint=Hint(action("search"), " finds items by their words.")
            )
        return found[0]

    async def twins(self, url: str, *, source: str | None = None) -> TwinGroup | None:
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


def _key(url: str) -> bytes:
    if "://" not in url and not url.startswith("pkg:"):
        return key(file_url(_absolute(url)))
    try:
        return key(url)
    except ValueError:
        raise UsageError(f"{url!r} is neither a URL nor a path.") from None


def _absolute(path: str) -> bytes:
    return os.fsencode(Path(os.path.normpath(Path(path).expanduser().absolute())))
