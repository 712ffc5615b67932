"""Documents made of broken records: found out in time that grows with their size, a little at a time."""

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from rowen.connectors.datajson.record import is_record
from rowen.formats import UnreadableError
from rowen.formats.json_records import Cut, Splitter
from tests.conftest import ScratchDatabase
from tests.hostile.clock import grows
from tests.portals.site import Page, Site

BROKEN = {
    "a stray quote": b'{"identifier": "a, "title": "b"},\n',
    "a string without end": b'{"identifier": "a", "title": "b},\n',
    "a list without end": b'{"identifier": "a", "x": [,\n',
    "a nest": b'{"identifier": "a" x, {"a": [[',
    "no value": b'{"identifier": "a", "t": nope},',
    "an escaped quote": b'{"identifier": "a\\", "title": "b"},',
    "a bracket and a quote": b',{"',
}


def document(part: bytes, size_bytes: int) -> bytes:
    return b'{"dataset": [' + part * (size_bytes // len(part))


def cut(body: bytes) -> Iterator[Cut]:
    splitter = Splitter(frozenset({"dataset"}), is_record=is_record)
    for at in range(0, len(body), 65_536):
        yield from splitter.feed(body[at : at + 65_536])
    yield from splitter.finish()


@pytest.mark.parametrize("part", BROKEN.values(), ids=BROKEN)
def test_broken_records_take_linear_time_or_are_given_up(part: bytes) -> None:
    def prepare(size_bytes: int) -> Callable[[], None]:
        body = document(part, size_bytes)

        def work() -> None:
            with suppress(UnreadableError):
                list(cut(body))

        return work

    assert grows(prepare, (80_000, 160_000, 320_000)) is None


async def test_a_document_of_broken_records_blocks_nobody_and_deletes_nothing(database: ScratchDatabase) -> None:
    """The watchdog watches; 320 kB of them took 13 s."""
    site = Site()
    good = b'{"dataset": [{"identifier": "a", "title": "A", "description": "Hay."}]}'
    json = {"Content-Type": "application/json"}
    try:
        site.pages["/data.json"] = Page(good, headers=json)
        async with database.open() as r:
            await r.sources.add(f"{site.url}/data.json", name="portal", kind="datajson")
            first = await r.sync("portal")
            for part in BROKEN.values():
                site.pages["/data.json"] = Page(document(part, 320_000), headers=json)
                broken = await r.sync("portal")
                assert broken.stats.deleted == 0
                assert broken.status in ("partial", "failed")
            site.pages["/data.json"] = Page(good, headers=json)
            healed = await r.sync("portal")
    finally:
        site.close()

    assert (first.status, first.stats.created) == ("completed", 1)
    assert (healed.status, healed.stats.deleted) == ("completed", 0)
    assert [title for (title,) in database.query("select title from item")] == ["A"]
