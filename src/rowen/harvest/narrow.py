"""A narrow look: some items of a source are looked at again, and nothing else is asked, concluded or deleted.

Only items that we hold take part. What is new is found by a look at the whole source, which alone tells whether a
rebuild would have it: whether a page is linked, a record listed, a file chosen.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from rowen.connectors.base import Connector, LooksAgain
from rowen.errors import Hint, UsageError, action
from rowen.harvest.group import observed_url
from rowen.harvest.known import StoredKnown
from rowen.model.item import Checkpoint, Complete, Observation, Skipped
from rowen.model.source import Source
from rowen.model.url import key

__all__ = ["look", "refuse_unable"]

_NO_ITEM = "it is no item of the source so far"
_UNTOLD = "the source cannot be asked for it by itself"


def refuse_unable(connector: type[Connector], source: Source) -> None:
    """Refuse to look at single items of a source whose kind has no way to."""
    if not hasattr(connector, "look"):
        raise UsageError(
            f"A source of kind {source.kind!r} can only be looked at as a whole. Nothing was asked of {source.name!r}.",
            hint=Hint(action("sync", source.name), " does that, and pays only for what changed."),
        )


async def look(
    connector: Connector, known: StoredKnown, urls: Sequence[str], *, skip: Callable[[Skipped], None]
) -> AsyncGenerator[Observation]:
    """What a connector sees of some items; `skip` hears of each that nothing is said about."""
    assert isinstance(connector, LooksAgain)  # noqa: S101 (the engine has refused all others)
    named = list({key(url): url for url in urls}.values())
    held = await known.stored_as(named)
    for url in named:
        if url not in held:
            skip(Skipped(url, _NO_ITEM))
    waiting = {key(url): held[url] for url in named if url in held}
    if not waiting:
        return
    async with aclosing(connector.look(known, list(waiting.values()))) as observations:
        async for observation in observations:
            if isinstance(observation, Checkpoint | Complete):
                continue
            seen = observed_url(observation)
            if seen is not None and waiting.pop(key(seen), None) is None:
                continue
            if isinstance(observation, Skipped):
                skip(observation)
            else:
                yield observation
    for url in waiting.values():
        skip(Skipped(url, _UNTOLD))
