"""The flow's part in small for streams: it keeps cursor, notes and items in dictionaries, and no database."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from rowen.connectors.base import FailedBefore, Meter, StoredState, Tools
from rowen.connectors.ldes import Ldes, LdesOptions
from rowen.harvest.parse_pool import Workers
from rowen.model.items import Checkpoint, Complete, Document, Fetched, Gone, NoteName, Observation
from rowen.model.runs import Mode
from rowen.net.client import Client
from rowen.settings import Settings


@dataclass
class Follower:
    """What is known of one stream. What a run yields counts when a checkpoint follows it, as in the real flow."""

    url: str
    settings: Settings
    options: dict[str, Any] = field(default_factory=dict)
    mode: Mode = "incremental"
    cursor: Any = None
    notes: dict[NoteName, Any] = field(default_factory=dict)
    items: dict[str, Document] = field(default_factory=dict)
    failed: Sequence[FailedBefore] = ()
    count = 0
    losable = 0
    requests = 0

    async def look_up(self, urls: Sequence[str]) -> Mapping[str, StoredState]:
        held = {url: self.items[url] for url in urls if url in self.items}
        return {url: StoredState(url, None, None, item.validators.body_hash, (), 0) for url, item in held.items()}

    async def recall(self, room: str, names: Sequence[str]) -> Mapping[str, Any]:
        return {name: self.notes[room, name] for name in names if (room, name) in self.notes}

    async def recall_all(self, room: str) -> AsyncIterator[Mapping[str, Any]]:
        yield {name: note for (of, name), note in self.notes.items() if of == room}

    async def pull(self) -> AsyncGenerator[Observation]:
        meter, workers = Meter(), Workers(0)

        @asynccontextmanager
        async def client() -> AsyncIterator[Client]:
            async with Client(self.settings, meter=meter) as opened:
                yield opened

        tools = Tools(read=None, meter=meter, client=client, parse=workers.call, settings=self.settings)  # type: ignore[arg-type]
        options = LdesOptions.model_validate({"delay_s": 0, **self.options})
        async with aclosing(Ldes(self.url, options, tools).pull(self)) as observations:  # type: ignore[arg-type]
            async for seen in observations:
                yield seen
        self.requests = meter.requests

    async def run(self, *, checkpoints: int | None = None) -> list[Document]:
        """The documents that a run hands on, in their order; it breaks off after so many checkpoints."""
        handed_on: list[Document] = []
        waiting: list[Observation] = []
        async with aclosing(self.pull()) as observations:
            async for seen in observations:
                waiting.append(seen)
                if isinstance(seen, Checkpoint):
                    handed_on += self._commit(waiting)
                    waiting = []
                    checkpoints = None if checkpoints is None else checkpoints - 1
                    if checkpoints == 0:
                        break
                elif isinstance(seen, Complete):
                    handed_on += self._commit(waiting)
        return handed_on

    def _commit(self, observations: Sequence[Observation]) -> list[Document]:
        for seen in observations:
            match seen:
                case Fetched(Document() as document):
                    self.items[document.url] = document
                case Gone(url):
                    self.items.pop(url, None)
                case Checkpoint(cursor, _, notes):
                    self.cursor = cursor
                    self.notes.update(notes)
                    self.notes = {name: note for name, note in self.notes.items() if note is not None}
        return [seen.item for seen in observations if isinstance(seen, Fetched) and isinstance(seen.item, Document)]
