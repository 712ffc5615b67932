"""How an answer is put together: passages that are joined, a budget that is kept, twins that are one."""

from collections.abc import Callable
from typing import Any

import pytest

from rowen import Complete, Document, Fetched, Rowen
from rowen.model.passages import excerpt
from tests.conftest import ScratchDatabase
from tests.portals.scripted import Scripted, page, shows

FILLER = "Nothing that anybody would look for stands in this sentence at all. " * 18


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


async def harvest(r: Rowen, *documents: Document, name: str = "one") -> None:
    shows(*(Fetched(document) for document in documents), Complete())
    await r.sync(f"scripted:{name}")


def parts(*headings: str) -> str:
    return "\n\n".join(f"## {heading}\n\n{heading} are here. {FILLER}" for heading in headings)


async def test_neighbours_are_joined_into_one_text(database: ScratchDatabase) -> None:
    async with database.open() as r:
        text = parts("Hens", "Quinces", "Medlars", "Goats", "Bees")
        await harvest(r, page(1, text))
        [hit] = await r.search("quinces medlars")

        assert "Quinces are here." in hit.text
        assert "Medlars are here." in hit.text
        assert "Goats are here." not in hit.text
        assert hit.further == ()


async def test_passages_apart_stay_apart_each_with_its_link(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, parts("Quinces", "Hens", "Goats", "Bees", "Hay", "Medlars")))
        [hit] = await r.search("quinces medlars")
        links = {hit.link, *(hit.link_to(passage.anchor) for passage in hit.further)}

        assert len(hit.further) == 1
        assert links == {"https://example.org/1#quinces", "https://example.org/1#medlars"}
        assert {hit.heading[-1], hit.further[0].heading[-1]} == {"Quinces", "Medlars"}


async def test_passages_that_answer_much_less_are_left_out(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, parts("Quinces", "Hens", "Goats") + "\n\n## Bees\n\nNothing here. " + FILLER))
        [hit] = await r.search("quinces nothing sentence")

        assert hit.heading[-1] == "Quinces"
        assert hit.passages > 1
        assert all("Quinces" in passage.text for passage in hit.further)


async def test_a_budget_bounds_all_passages_together(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, *(page(n, parts("Quinces", "Hens") + f" {n}") for n in range(12)))
        answer = await r.search("quinces", budget=2_000)
        total = sum(len(hit.text) + sum(len(p.text) for p in hit.further) for hit in answer)

        assert 1_000 < total <= 2_000
        assert len(answer) >= 3
        assert all("Quinces" in hit.text for hit in answer)


def test_an_excerpt_is_the_stretch_that_has_the_words() -> None:
    text = FILLER + "Quinces ripen late. " + FILLER

    cut = excerpt(text, ["quince"], 200)

    assert "Quinces ripen late." in cut
    assert len(cut) <= 200
    assert cut.startswith("…")
    assert cut.endswith("…")
    assert excerpt("short", ["x"], 200) == "short"
    assert len(excerpt("x" * 5000, ["y"], 100)) <= 100


async def test_a_deleted_passage_is_never_shown(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, parts("Quinces", "Medlars", "Hens")))
        await harvest(r, page(1, parts("Hens")))

        assert len(await r.search("medlars")) == 0


async def test_the_same_dataset_in_two_portals_is_one_answer(database: ScratchDatabase) -> None:
    doi = {"identifier": "doi:10.5555/orchard-counts-2024", "publisher": "City", "resources": []}
    dataset = {"record": doi, "media_type": "application/vnd.rowen.dataset+json"}
    async with database.open() as r:
        await harvest(r, Document("https://city.example.org/d/1", "Orchard counts", "Counts of trees.", **dataset))
        await harvest(
            r, Document("https://nation.example.net/d/9", "Orchard counts", "Counts of trees.", **dataset), name="two"
        )
        groups = database.query("select count(distinct m) from item, unnest(twins) m")
        [hit] = await r.search("orchard counts")

        assert groups[0][0] > 0
        assert {hit.source, *(twin.source for twin in hit.twins)} == {"one", "two"}
        assert sum(twin.original for twin in hit.twins) <= 1
