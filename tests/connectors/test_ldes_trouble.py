"""Broken streams, and a worker in a process of its own: it goes on, tells of them, and ends as a rebuild would."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace

import pytest

from rowen import Rowen
from tests.conftest import ScratchDatabase
from tests.jobs.processes import Nursery, until
from tests.logical import contents, index_of, replayed
from tests.portals.ldes import LdesSite, Leaf

MOVED = "/moved"

# What becomes of the second page of each stream, and what its source then tells; None: it is none the worse for it.
TROUBLE: dict[str, tuple[Leaf, str | None]] = {
    "server errors": (Leaf(status=500), "status 500"),
    "a page cut off in the middle": (
        Leaf(body=b"@prefix ex: <http://ex.example/> .\nex:a ex:b <htt"),
        "cannot be parsed",
    ),
    "a page that is a web page": (Leaf(body=b"<!doctype html><title>Maintenance</title>"), "web page"),
    "redirects in a loop": (Leaf(status=302, location=MOVED), "redirect"),
    "a page that is gone": (Leaf(status=410), None),
    "pages that lead to each other": (Leaf(relations=[("/root", None, 0), ("/p0", None, 0)]), None),
}


class Feeds(dict[str, LdesSite]):
    """A stream for each trouble, of three pages."""

    def spoil(self) -> None:
        for trouble, feed in self.items():
            leaf, _ = TROUBLE[trouble]
            events = feed.leaves["/p1"].events
            feed.leaves["/p1"] = replace(leaf, events=events, location=leaf.location and f"{feed.url}{leaf.location}")
            feed.leaves[MOVED] = Leaf(status=302, location=f"{feed.url}/p1")

    def mend(self) -> None:
        for feed in self.values():
            whole = replace(feed.leaves["/p1"], status=200, body=None, location=None)
            if feed.leaves["/p1"].status == 410:
                # What is gone stays so: its members are put on another page.
                feed.leaves["/p2"].events += whole.events
            else:
                feed.leaves["/p1"] = whole
            feed.leaves["/p2"].events.append(feed.event(f"{feed.leaves['/p2'].events[0].thing}late", "Late"))


@pytest.fixture
def feeds() -> Iterator[Feeds]:
    with ExitStack() as stack:
        feeds = Feeds({trouble: stack.enter_context(closing(LdesSite())) for trouble in TROUBLE})
        for number, feed in enumerate(feeds.values()):
            feed.chain(*[[feed.event(f"f{number}p{page}n{n}") for n in range(2)] for page in range(3)], immutable=False)
            feed.leaves["/root"].relations = [(f"/p{page}", None, 0) for page in range(3)]
        yield feeds


async def worked_off(r: Rowen, database: ScratchDatabase, feeds: Feeds) -> None:
    """Let the worker sync all of them once."""
    jobs = [(await r.queue.enqueue(trouble)).id for trouble in feeds]
    until(
        lambda: (
            database.query("select from procrastinate_jobs where id = any(%s) and status in ('todo', 'doing')", jobs)
            == []
        )
    )


async def test_a_worker_goes_on_through_broken_streams_and_ends_where_a_rebuild_would(
    database: ScratchDatabase, new_database: Callable[[], ScratchDatabase], feeds: Feeds
) -> None:
    feeds.spoil()
    with Nursery(database.conninfo, cb_failure_threshold=1000) as nursery:
        worker = nursery.start()
        async with database.open() as r:
            for trouble, feed in feeds.items():
                await r.sources.add(feed.address, name=trouble, options={"delay_s": 0})
            await worked_off(r, database, feeds)
            ill = {trouble: await r.sources.following(trouble) for trouble in feeds}
            count = len(contents(database))
            feeds.mend()
            await worked_off(r, database, feeds)
            well = {trouble: await r.sources.following(trouble) for trouble in feeds}
        assert nursery.stop(worker) == 0

    rebuilt = new_database()
    async with rebuilt.open() as r:
        for trouble, feed in feeds.items():
            await r.sync((await r.sources.add(feed.address, name=trouble, options={"delay_s": 0})).name)

    for trouble, (_, error) in TROUBLE.items():
        status = ill[trouble]
        assert status is not None
        assert status.state == ("following" if error is None else "failing"), trouble
        assert error is None or error in (status.last_error or ""), trouble
    assert [(status.state, status.last_error) for status in well.values() if status] == [("following", None)] * len(
        feeds
    )
    assert count == 4 * len(feeds) + 2  # the pages that lead to each other are whole
    assert database.query("select count(*) from quarantine") == [(0,)]
    assert index_of(database) == index_of(rebuilt)
    assert replayed(database) == contents(database)
