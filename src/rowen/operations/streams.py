"""Streams that end with their reader, or with the server."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TypeVar

__all__ = ["KEEP_ALIVE", "or_silence", "until"]

T = TypeVar("T")

KEEP_ALIVE = b": still here\n\n"
"""A comment, for proxies that cut silent connections."""


async def until(closing: asyncio.Event, stream: AsyncGenerator[bytes]) -> AsyncIterator[bytes]:
    """Yield from a stream until the server closes, which would otherwise wait for its readers."""
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


async def or_silence(stream: AsyncGenerator[T], silence_s: float) -> AsyncGenerator[T | None]:
    """Return what a stream gives, and None whenever it gave nothing for so long."""
    async with aclosing(stream):
        waiting = asyncio.ensure_future(anext(stream))
        try:
            while True:
                done, _ = await asyncio.wait({waiting}, timeout=silence_s)
                if not done:
                    yield None
                    continue
                try:
                    value = waiting.result()
                except StopAsyncIteration:
                    return
                yield value
                waiting = asyncio.ensure_future(anext(stream))
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
