"""Streams that say how often they want to be asked."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import pytest

from rowen import Rowen
from tests.conftest import ScratchDatabase
from tests.portals.ldes import LdesSite


@pytest.fixture
def feed() -> Iterator[LdesSite]:
    with closing(LdesSite()) as site:
        site.description += "ldes:pollingInterval 60 ;"
        site.chain([site.event("a")], [site.event("b")])
        yield site


async def due_in_s(r: Rowen) -> float | None:
    source = await r.sources.get("feed")
    return (source.due_at - datetime.now(UTC)).total_seconds() if source.due_at else None


@pytest.mark.parametrize(
    ("every", "seconds"),
    [(None, 60), ("auto", 60), ("auto between 5min and 1h", 300), ("auto between 1s and 30s", 30), ("1h", 3600)],
)
async def test_a_stream_is_polled_at_its_own_interval_unless_its_schedule_limits_it(
    database: ScratchDatabase, feed: LdesSite, every: str | None, seconds: int
) -> None:
    async with database.open() as r:
        await r.sources.add(feed.address, name="feed", options={"delay_s": 0}, every=every)
        await r.sync("feed")
        told = await due_in_s(r)
        following = await r.sources.following("feed")

    assert told is not None
    assert 0.8 * seconds < told < 1.15 * seconds
    assert following is not None
    assert following.next_poll_at is not None


async def test_a_stream_without_interval_and_schedule_is_not_due_and_a_paused_one_is_not_polled(
    database: ScratchDatabase, feed: LdesSite
) -> None:
    async with database.open() as r:
        await r.sources.add(feed.address, name="feed", options={"delay_s": 0})
        await r.sync("feed")
        await r.sources.edit("feed", every="6h")
        await r.sources.edit("feed", every="none")
        again = await due_in_s(r)
        await r.sources.pause("feed")
        paused = await r.sources.following("feed")
        await r.sources.resume("feed")
        resumed = await r.sources.following("feed")
        feed.description = feed.description.replace("ldes:pollingInterval 60 ;", "")
        await r.sync("feed", full=True)
        silent = await due_in_s(r)

    assert again is not None
    assert 50 < again < 70
    assert paused is not None
    assert (paused.state, paused.next_poll_at) == ("paused", None)
    assert resumed is not None
    assert resumed.state == "following"
    assert silent is None
