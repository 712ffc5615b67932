"""What became of the documents that feeds announce."""

from rowen.errors import UsageError
from rowen.harvest.engine import Engine
from rowen.model.push import AnnouncedDocument
from rowen.store import push, sources

__all__ = ["AnnouncedDocuments"]

OUTCOMES = ("waiting", "stored", "unchanged", "overview", "gone", "failed")


class AnnouncedDocuments:
    """Announcements with their jobs and outcomes."""

    def __init__(self, engine: Engine) -> None:
        self._database = engine.database

    async def every(self, name: str, *, outcome: str | None = None, limit: int = 100) -> list[AnnouncedDocument]:
        """What became of what a source's feed announced, the latest first; `waiting` is what has no job yet."""
        if outcome is not None and outcome not in OUTCOMES:
            raise UsageError(f"There is no outcome {outcome!r}.", hint=f"The outcomes are: {', '.join(OUTCOMES)}.")
        async with self._database.connection() as c:
            source = await sources.get(c, name)
            return await push.announced_documents(c, source.id, limit=limit, outcome=outcome)

    async def counts(self, name: str) -> dict[str, int]:
        """How many announcements there are of each outcome."""
        async with self._database.connection() as c:
            return await push.count_announced(c, (await sources.get(c, name)).id)
