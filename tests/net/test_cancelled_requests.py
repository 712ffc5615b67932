"""Whoever is cancelled in the middle of a request leaves its host, its connection and its circuit to the next one."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiohttp import web

from rowen.net.circuits import Breakers, CircuitLimits
from rowen.net.client import Client
from rowen.net.politeness import Throttle
from tests.cancelling import cancelled_at_each_wait
from tests.net.world import client, serve

SIZE = 300_000
Use = Callable[[Client, str], Coroutine[Any, Any, None]]


async def answer(request: web.BaseRequest) -> web.StreamResponse:
    """A body in pieces, which says which page it is of; `/moved` leads to one."""
    path = request.path
    if path == "/moved":
        return web.Response(status=302, headers={"Location": "/arrived"}, text="x" * 10_000)
    response = web.StreamResponse(headers={"Content-Length": str(SIZE)})
    await response.prepare(request)
    for _ in range(SIZE // 30_000):
        await asyncio.sleep(0)
        await response.write(path.ljust(30).encode() * 1_000)
    return response


async def whole(client: Client, url: str) -> None:
    await client.get(f"{url}/whole")


async def moved(client: Client, url: str) -> None:
    await client.get(f"{url}/moved")


async def stream(client: Client, url: str) -> None:
    async with client.stream(f"{url}/stream") as stream:
        async for _ in stream:
            await asyncio.sleep(0)


async def beginning(client: Client, url: str) -> None:
    async with client.stream(f"{url}/beginning") as stream:
        async for _ in stream:
            await asyncio.sleep(0)
            break


@pytest.mark.parametrize("use", [whole, moved, stream, beginning])
async def test_after_a_cancelled_request_the_next_one_gets_its_own_body_at_once(use: Use) -> None:
    # One exchange at a time: a place that is not given back would be missed.
    throttle = Throttle(delay_s=0, concurrency=1)
    breakers = Breakers(CircuitLimits(failure_threshold=1))
    waits = 0
    async with serve(answer) as url, client(throttle=throttle, breakers=breakers) as c:
        async for number in cancelled_at_each_wait(lambda: use(c, url)):
            waits = number
            async with asyncio.timeout(30):
                response = await c.get(f"{url}/next/{number}")
            assert response.body == f"/next/{number}".ljust(30).encode() * 10_000
            if number >= 40:
                break

    assert waits > 1
