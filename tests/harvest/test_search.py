"""Keyword search over what was harvested."""

from collections.abc import Callable
from typing import Any

import pytest

from rowen import Complete, Document, Fetched, NotFoundError, Rowen
from tests.conftest import House
from tests.portals.scripted import Scripted, page, shows


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


async def harvest(r: Rowen, *documents: Document, name: str = "one") -> None:
    shows(*(Fetched(document) for document in documents), Complete())
    await r.sync(f"scripted:{name}")


def urls(hits: list[Any]) -> list[str]:
    return [hit.url.rpartition("/")[2] for hit in hits]


async def test_rare_words_weigh_more_than_common_ones(house: House) -> None:
    async with house.open() as r:
        common = [page(n, "The harvest of the year was a good harvest for all.") for n in range(9)]
        await harvest(r, *common, page("rare", "A harvest of quinces."))

        assert urls(await r.search("harvest quinces"))[0] == "rare"


async def test_a_question_finds_what_has_most_of_its_words(house: House) -> None:
    async with house.open() as r:
        await harvest(r, page(1, "How to prune an apple tree in winter."), page(2, "Bees sleep in winter."))

        assert urls(await r.search("how do I prune my old apple trees?"))[0] == "1"


async def test_title_and_heading_weigh_more_than_text(house: House) -> None:
    async with house.open() as r:
        await harvest(
            r,
            page(1, "Somewhere it says clover.", title="Meadows"),
            page(2, "## Clover\n\nIt is green.", title="Plants"),
            page(3, "It is sown in spring.", title="Clover"),
        )

        assert urls(await r.search("clover")) == ["3", "2", "1"]


async def test_phrases_must_stand_there_and_excluded_words_must_not(house: House) -> None:
    async with house.open() as r:
        await harvest(r, page(1, "red apple pie"), page(2, "apple and red plum"), page(3, "red apple wine"))

        assert set(urls(await r.search('"red apple"'))) == {"1", "3"}
        assert urls(await r.search('"red apple" -wine')) == ["1"]


async def test_prefixes_are_found(house: House) -> None:
    async with house.open() as r:
        await harvest(r, page(1, "pomology"), page(2, "botany"))

        assert urls(await r.search("pomo*")) == ["1"]


async def test_words_are_found_in_their_other_forms_by_language(house: House) -> None:
    async with house.open() as r:
        await harvest(
            r, page(1, "The farmers were harvesting."), page(2, "Die Häuser sind alt.", language="de", title="Alt")
        )

        assert urls(await r.search("harvest")) == ["1"]
        assert urls(await r.search("haus häuser")) == ["2"]


async def test_an_item_answers_once_with_its_best_passage(house: House) -> None:
    async with house.open() as r:
        long = "\n\n".join(f"## Part {n}\n\n" + "filler words here " * 60 for n in range(5))
        await harvest(r, page(1, long + "\n\n## Quinces\n\nQuinces are yellow. " + "filler " * 100))
        [hit] = await r.search("quinces filler")

        assert hit.heading[-1] == "Quinces"
        assert hit.passages > 1


async def test_the_source_filter_filters_and_names_unknown_sources(house: House) -> None:
    async with house.open() as r:
        await harvest(r, page(1, "apple"), name="one")
        await harvest(r, page(2, "apple"), name="two")

        assert urls(await r.search("apple", sources=["two"])) == ["2"]
        with pytest.raises(NotFoundError, match="'three'"):
            await r.search("apple", sources=["three"])


@pytest.mark.parametrize(
    "words",
    [
        "",
        "   ",
        "the",
        '"',
        '""',
        "-",
        "-apple",
        "'; drop table item; --",
        "a & | ! ( ) : *",
        "apple:*",
        "<->",
        "\x00",
        "%s %(x)s",
        "x" * 100_000,
        "word " * 20_000,
        "*",
        "日本語",
        "\ud800",
    ],
)
async def test_no_query_is_an_error(house: House, words: str) -> None:
    async with house.open() as r:
        await harvest(r, page(1, "apple"))

        assert isinstance(await r.search(words), list)
