"""One text in several places is one result, which names the others."""

from collections.abc import Callable
from typing import Any

import pytest

from rowen import Complete, Document, Fetched, NotFoundError, Rowen
from rowen.model.datasets import DATASET
from tests.conftest import ScratchDatabase
from tests.portals.scripted import Scripted, page, shows

LONG = "The hatch of the barn is closed at dusk, and opened by whoever is up first."


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


async def harvest(r: Rowen, *documents: Document, name: str = "one") -> None:
    shows(*(Fetched(document) for document in documents), Complete())
    await r.sync(f"scripted:{name}")


async def test_copies_are_one_result_that_names_the_others(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page("a/hatch", LONG), page("b/hatch", LONG), page(3, f"{LONG} Not so on Sundays."))
        await harvest(r, page("c/hatch", LONG, title="The hatch"), name="two")
        answer = await r.search("hatch dusk")

        assert [hit.url.rpartition("org/")[2] for hit in answer] == ["c/hatch", "3"]
        assert [(twin.url.rpartition("org/")[2], twin.source) for twin in answer[0].twins] == [
            ("a/hatch", "one"),
            ("b/hatch", "one"),
        ]
        assert answer[1].twins == ()


async def test_a_copy_is_named_though_a_filter_leaves_it_out(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, LONG))
        await harvest(r, page(2, LONG), name="two")
        [hit] = await r.search("hatch", sources=["two"])

        assert hit.source == "two"
        assert [twin.source for twin in hit.twins] == ["one"]


async def test_short_texts_and_texts_that_begin_alike_are_no_copies(database: ScratchDatabase) -> None:
    opening = "The hatch is old. " * 120
    async with database.open() as r:
        await harvest(r, page(1, "A hatch."), page(2, "A hatch."))
        await harvest(r, *(page(n, f"{opening}\n\n## End\n\n{n} {'words ' * 200}") for n in (3, 4)), name="two")

        assert len(await r.search("hatch")) == 4


async def test_datasets_of_a_series_that_differ_by_title_only_are_no_copies(database: ScratchDatabase) -> None:
    def footpaths(place: str) -> Document:
        return page(place, LONG, title=f"Footpaths of {place}", media_type=DATASET)

    async with database.open() as r:
        await harvest(r, footpaths("Vetchley"), footpaths("Mill Row"))

        assert len(await r.search("hatch")) == 2


async def test_the_next_page_does_not_bring_copies_of_what_was_shown(database: ScratchDatabase) -> None:
    async with database.open() as r:
        texts = [f"Hatch number{n} of the barn, which is closed at dusk by whoever is there." for n in range(6)]
        await harvest(r, *(page(f"a{n}", text) for n, text in enumerate(texts)))
        await harvest(r, *(page(f"b{n}", text) for n, text in enumerate(texts)), name="two")
        found, after = [], None
        for _ in range(4):
            answer = await r.search("hatch dusk", limit=2, after=after)
            found += [hit.text.split()[1] for hit in answer]
            after = answer.next
            if after is None:
                break

        assert sorted(found) == [f"number{n}" for n in range(6)]


async def test_an_unknown_kind_or_language_is_named_with_the_existing_ones(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, LONG, language="la-VA"), page(2, "Only a hatch", language="en"))

        with pytest.raises(NotFoundError, match="No source is of the kind 'zzz'") as unknown:
            await r.search("hatch", kinds=["scripted", "zzz"])
        assert unknown.value.hint == "There are: scripted."
        with pytest.raises(NotFoundError, match="No item is in the language 'fr'") as unspoken:
            await r.search("hatch", languages=["en", "fr"])
        assert unspoken.value.hint == "There are: en, la-VA."
        assert len(await r.search("hatch", languages=["la"], kinds=["scripted"])) == 1
        assert len(await r.search("hatch", languages=["la_va"])) == 1
