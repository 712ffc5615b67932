"""The first documents of a source, for somebody who only looks."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from rowen.errors import ItemError, SourceError
from rowen.model.item import Document, Failed, Fetched, Incomplete, Observation, Raw

__all__ = ["first_documents"]


async def first_documents(
    observations: AsyncGenerator[Observation],
    read: Callable[[Raw], Awaitable[Document]],
    *,
    limit: int,
    within_s: float,
) -> tuple[list[Document], bool]:
    """So many documents at most, and whether there are more; raises where there is none, and it is said why."""
    found: list[Document] = []
    trouble: str | None = None
    try:
        async with asyncio.timeout(within_s), aclosing(observations):
            async for observation in observations:
                match observation:
                    case Fetched() if len(found) == limit:
                        return found, True
                    case Fetched(Document() as item):
                        found.append(item)
                    case Fetched(Raw() as item):
                        found.append(await read(item))
                    case Failed(_, why) | Incomplete(why):
                        trouble = trouble or why
    except TimeoutError:
        trouble = trouble or f"Nothing was shown within {within_s:.0f} s."
    except ItemError as problem:
        trouble = trouble or str(problem)
    if not found and trouble is not None:
        raise SourceError(trouble)
    return found, False
