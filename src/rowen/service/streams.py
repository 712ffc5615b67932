"""Streams that last as long as their reader, and end when the server does."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

__all__ = ["until"]


async def until(closing: asyncio.Event, stream: AsyncGenerator[bytes]) -> AsyncIterator[bytes]:
    """What a stream gives until the server closes: it would otherwise wait for its readers."""
    async with aclosing(stream):
        ends = asyncio.ensure_future(closing.wait())
        try:
            while True:
                waiting = asyncio.ensure_future(anext(stream))
                try:
                    await asyncio.wait({waiting, ends}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    if not waiting.done():
                        waiting.cancel()
                        await asyncio.gather(waiting, return_exceptions=True)
                if waiting.cancelled():
                    return
                try:
                    yield waiting.result()
                except StopAsyncIteration:
                    return
        finally:
            ends.cancel()
