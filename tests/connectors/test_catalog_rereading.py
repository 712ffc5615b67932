"""Records that a new release reads otherwise: read again, amended, and no description is paid for twice."""

from collections.abc import Callable

import pytest

from rowen.connectors.catalog import dataset
from rowen.connectors.catalog.dataset import MOST_CHARS, Resource
from rowen.connectors.ckan.address import CkanOptions
from rowen.connectors.ckan.listing import CkanListing
from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.logical import index_of
from tests.portals.catalogs import keep
from tests.portals.ckan import CkanPortal
from tests.portals.embedder import Provider

STORY = "Hay is cut in the morning and turned at noon. "


def files(count: int) -> list[dict[str, str]]:
    url = "https://files.example/{}.csv"
    return [
        {"name": f"Yield of the year {n}", "url": url.format(n), "format": "CSV"} for n in range(1000, 1000 + count)
    ]


def one_line_each(resources: tuple[Resource, ...]) -> str:
    """What an earlier release made of resources."""
    return "## Resources\n\n" + "\n".join(f"- {one.name} ({one.format})" for one in resources)


@pytest.fixture
def portal(opened: Opened) -> CkanPortal:
    return opened(CkanPortal)


async def test_two_hundred_files_are_one_passage_and_all_of_them_are_in_the_record(
    database: ScratchDatabase, portal: CkanPortal
) -> None:
    portal.make("many", notes=STORY * 40, resources=files(200))
    portal.make("short", notes="Hay.", resources=files(200))
    portal.make("few", notes="Hay.", resources=files(3))
    async with database.open() as r:
        await keep(r, portal)

    passages = database.query(
        "select title, chunk.text from chunk join item on item.id = item_id where chunk.text ~ 'Yield'"
    )
    assert sorted(title for title, _ in passages) == ["Dataset few", "Dataset many", "Dataset short"]
    [(many,)] = database.query("select text from item where title = 'Dataset many'")
    assert "200 in all: 200 CSV." in many
    assert "- Yield of the year 1000 (CSV) (and 199 more like it)" in many
    [(few,)] = database.query("select text from item where title = 'Dataset few'")
    assert few.count("- Yield") == 3
    assert database.query("select distinct jsonb_array_length(record -> 'resources') from item order by 1") == [
        (3,),
        (200,),
    ]


def test_the_words_of_resources_are_bounded_whatever_they_say() -> None:
    odd = tuple(Resource("https://x", f"{'n' * n} name", "d" * n * 7, f"form {n}" * 9) for n in range(1, 200))

    text = dataset.resource_text(odd)

    assert 800 < len(text) <= MOST_CHARS
    assert text.startswith("## Resources\n\n199 in all")


async def test_a_new_reading_amends_and_pays_only_for_what_reads_otherwise(
    new_database: Callable[[], ScratchDatabase], portal: CkanPortal, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, fresh = new_database(), new_database()
    for number in range(20):
        portal.make(f"d{number}", notes=f"{number}. {STORY * 40}", resources=files(60))
    async with database.open(**provider.settings) as r:
        with monkeypatch.context() as former:
            former.setattr(dataset, "resource_text", one_line_each)
            former.setattr(CkanOptions, "record_version", 1)
            former.setattr(CkanListing, "version", 1)
            first = await keep(r, portal)
        portal.make("d0", notes=f"Now it is rye. {STORY * 40}", resources=files(60))
        run = await r.sync("portal")
        quiet = await r.sync("portal")
    async with fresh.open() as r:
        await keep(r, portal)

    assert first.stats.created == 20
    assert (run.stats.updated, run.stats.amended, run.stats.unchanged) == (1, 19, 0)
    # Of the others, each has one passage of resources, all with the same text; descriptions are not embedded again.
    assert run.stats.embedded <= 1 + 3
    assert (quiet.stats.rows_written, quiet.stats.embedded) == (0, 0)
    assert index_of(database) == index_of(fresh)
