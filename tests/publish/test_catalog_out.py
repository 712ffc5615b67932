"""What was harvested can be harvested again: as DCAT, page by page, and as a data.json."""

import re
from collections.abc import Callable, Iterator

import pytest

from rowen import Rowen, Run, UsageError
from rowen.operations import feeds
from tests.conftest import ScratchDatabase
from tests.portals.datajson import DataJsonSite
from tests.portals.site import Page, Site

TURTLE = {"Content-Type": "text/turtle"}


@pytest.fixture
def portals() -> Iterator[tuple[DataJsonSite, DataJsonSite]]:
    both = DataJsonSite(), DataJsonSite()
    yield both
    for one in both:
        one.close()


@pytest.fixture
def interface() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


async def _harvest(r: Rowen, address: str, kind: str, name: str | None = None) -> Run:
    source = await r.sources.add(address, kind=kind, name=name)
    return await r.sync(source.name)


async def _listed(r: Rowen, name: str) -> dict[str, tuple[str, list[str]]]:
    """What a source has: titles and files by identifier."""
    found = {}
    for change in await r.changes(source=name):
        entry = await r.get(change.url, source=name)
        files = sorted(one["url"] for one in entry.record.get("resources", []))
        found[entry.record["identifier"]] = (entry.title, files)
    return found


async def _publish(r: Rowen, interface: Site) -> None:
    """Put all pages where somebody can read them, as a server would."""
    after: str | None = None
    while True:
        page = await r.feeds.catalog(after=after)
        place = f"/catalog/dcat?after={after}" if after else "/catalog/dcat"
        interface.pages[place] = Page(page.body, headers=TURTLE)
        following = re.search(r"hydra:next <[^>]*after=(\w+)>", page.body.decode())
        if following is None:
            break
        after = following[1]
    whole = b"".join([piece async for piece in r.feeds.data_json()])
    interface.pages["/catalog/data.json"] = Page(whole, headers={"Content-Type": "application/json"})


@pytest.mark.parametrize(("kind", "path"), [("dcat", "/catalog/dcat"), ("datajson", "/catalog/data.json")])
async def test_another_rowen_harvests_what_this_one_has(
    new_database: Callable[[], ScratchDatabase],
    portals: tuple[DataJsonSite, DataJsonSite],
    interface: Site,
    kind: str,
    path: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feeds, "CATALOG_DATASETS", 3)
    for number in range(5):
        portals[0].add(f"http://portal.example/{number}", f'Field "{number}" <b>&', description=f"Hay {number}.")
    portals[1].add("http://other.example/1", "Meadows", description="Clover.")

    async with new_database().open(public_url=interface.url) as ours:
        for portal in portals:
            await _harvest(ours, portal.address, "datajson")
        held = {}
        for source in await ours.sources.list():
            held |= await _listed(ours, source.name)
        await _publish(ours, interface)
    async with new_database().open() as theirs:
        run = await _harvest(theirs, f"{interface.url}{path}", kind, name="copy")
        copied = await _listed(theirs, "copy")

    assert run.complete
    assert run.stats.created == 6
    assert {title for title, _ in copied.values()} == {title for title, _ in held.values()}
    assert [files for _, files in copied.values()] == [files for _, files in held.values()]


async def test_a_dataset_that_two_portals_list_is_told_once(
    database: ScratchDatabase, portals: tuple[DataJsonSite, DataJsonSite]
) -> None:
    for portal in portals:
        portal.add("http://portal.example/same", "Field names of the county", description="All of them." * 20)

    async with database.open() as r:
        for portal in portals:
            await _harvest(r, portal.address, "datajson")
        merged = (await r.feeds.catalog()).body.decode()
        names = [source.name for source in await r.sources.list()]
        own = (await r.feeds.catalog(source=names[1])).body.decode()

        again = (await r.feeds.catalog()).body.decode()

    assert merged == again
    assert merged.count("a dcat:Dataset") == 1
    assert own.count("a dcat:Dataset") == 1


async def test_a_place_that_is_none_is_refused(database: ScratchDatabase) -> None:
    async with database.open() as r:
        with pytest.raises(UsageError, match="no place in the catalog"):
            await r.feeds.catalog(after="../etc")
        assert b"".join([piece async for piece in r.feeds.data_json()]).endswith(b"]}\n")
