"""What a connector found out about a portal and keeps beside the cursor, so that it need not ask in each run."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from rowen.connectors.base import Held, Known
from rowen.model.item import Checkpoint, Observation

__all__ = ["Noted", "noted"]

_KEY = "notes"


class Noted:
    """What we hold of a source, with the notes taken out of the cursor."""

    def __init__(self, known: Known) -> None:
        cursor = known.cursor if isinstance(known.cursor, dict) else {}
        notes = cursor.get(_KEY)
        self.mode = known.mode
        self.count = known.count
        self.failed = known.failed
        self.losable = known.losable
        self.notes: Mapping[str, Any] = notes if isinstance(notes, dict) else {}
        self.cursor: Any = {name: value for name, value in cursor.items() if name != _KEY} or None
        self._known = known

    def forget(self) -> None:
        """Hold neither cursor nor notes: the source is to be walked from its beginning."""
        self.cursor, self.notes = None, {}

    async def look_up(self, urls: Sequence[str]) -> Mapping[str, Held]:
        """What we hold under these URLs."""
        return await self._known.look_up(urls)

    def everything(self) -> AsyncIterator[Sequence[Held]]:
        """All that we hold, in batches."""
        return self._known.everything()

    async def recall(self, room: str, names: Sequence[str]) -> Mapping[str, Any]:
        """The notes of these names."""
        return await self._known.recall(room, names)

    def recall_all(self, room: str) -> AsyncIterator[Mapping[str, Any]]:
        """All notes of a room, in batches."""
        return self._known.recall_all(room)


async def noted(
    observations: AsyncGenerator[Observation], notes: Callable[[], Mapping[str, Any]]
) -> AsyncGenerator[Observation]:
    """The same observations, with the notes as they are then in each checkpoint."""
    async with aclosing(observations):
        async for observation in observations:
            if isinstance(observation, Checkpoint):
                yield replace(observation, cursor={**observation.cursor, _KEY: dict(notes())})
            else:
                yield observation
