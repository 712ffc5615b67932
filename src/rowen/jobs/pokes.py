"""Pokes: a source, or somebody who knows it, says that something changed, and it is looked at before all that is due.

Named items are looked at by themselves where their kind can do that and we hold them; otherwise the whole source is.
Several pokes of one source become one job.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rowen.connectors import registry
from rowen.errors import UsageError
from rowen.harvest.engine import Engine
from rowen.jobs.queue import POKED, put
from rowen.model.push import Poked
from rowen.model.source import Source
from rowen.model.url import key
from rowen.store import push
from rowen.store.database import Connection

__all__ = ["MOST_POKED", "Concern", "concerned", "poke"]

MOST_POKED = 100
"""URLs of one job. Each is a request; a catalog of 10,000 records is walked for as many, and a listing of what changed
costs a few. With ten of them a page of a feed would cost a walk."""

# A job that waits may begin just when it is to be changed; the next one does not.
_TRIES = 3


class Concern(NamedTuple):
    """A source that something was said about: some of its items, by their stored URLs, or all of it."""

    source: Source
    urls: tuple[str, ...] = ()


async def poke(c: Connection, engine: Engine, concern: Concern) -> Poked:
    """Have a source looked at, as a part of a transaction."""
    source, only = concern.source, list(dict.fromkeys(concern.urls))
    if len(only) > MOST_POKED or not hasattr(registry.connector(source.kind), "look"):
        only = []
    told = {"only": only, "widen": True} if only else {}
    for _ in range(_TRIES):
        job_id = await put(c, engine.database, source.id, priority=POKED, **told)
        if job_id is not None:
            return Poked(source.name, job_id, len(only))
        merged = await push.merge(c, source.id, POKED, only, most=MOST_POKED)
        if merged is not None:
            return Poked(source.name, merged.job, merged.urls, merged=True)
    raise AssertionError("a job for the source begins whenever one is put into the queue")


async def concerned(engine: Engine, sources: Iterable[Source], urls: Sequence[str]) -> list[Concern]:
    """Which sources some URLs concern: as a whole, where one of them is not held and may be theirs."""
    by_key = {key(url): url for url in urls}
    async with engine.database.connection() as c:
        held = await push.holders(c, list(by_key))
    found = []
    for source in sources:
        ours = {item_key: url for source_id, item_key, url in held if source_id == source.id}
        others = [url for item_key, url in by_key.items() if item_key not in ours]
        if _covers(source, others):
            found.append(Concern(source))
        elif ours:
            found.append(Concern(source, tuple(ours.values())))
    return found


def _covers(source: Source, urls: Sequence[str]) -> bool:
    """Whether one of some URLs may be of a source; of one whose kind or options are not known here, none is."""
    try:
        return registry.covers(source.kind, source.url, dict(source.options), urls)
    except UsageError:
        return False
