"""The language that items and passages are indexed in."""

from collections.abc import Callable
from typing import Any

import pytest

from rowen import Complete, Document, Fetched, NotFoundError, Rowen
from tests.conftest import ScratchDatabase
from tests.logical import index_of
from tests.portals.scripted import Scripted, page, shows

GERMAN = "Die Behörde hat die Häuser der Stadt gezählt, und alle Ergebnisse sind für jeden zugänglich."
RUSSIAN = "Город публикует сведения о качестве воздуха, и все жители могут использовать эти данные."
ENGLISH = "The authority has counted all houses of the city, and the results are available to everyone."
# The database as the version before detection left it: undeclared texts were indexed as English.
BEFORE_DETECTION = """
update item set chunker = 3;
update chunk set tsv = passage_tsv(item.language, item.title, chunk.heading, chunk.text)
  from item where item.id = item_id;
update hash_version set version = 3 where name = 'passages';
alter table chunk drop column language;
alter table item drop column text_language;
create index item_language on item (language);
delete from migration where name = 'text_languages';
"""


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


async def harvest(r: Rowen, *documents: Document) -> None:
    shows(*(Fetched(document) for document in documents), Complete())
    await r.sync("scripted:one")


async def found(r: Rowen, query: str, **filters: Any) -> set[str]:
    return {hit.url.rpartition("/")[2] for hit in await r.search(query, **filters)}


async def test_an_undeclared_language_is_detected_so_that_other_forms_of_words_are_found(
    database: ScratchDatabase,
) -> None:
    async with database.open() as r:
        await harvest(r, page(1, GERMAN), page(2, RUSSIAN), page(3, ENGLISH))

        assert await found(r, "Haus Ergebnis") == {"1"}
        assert await found(r, "жителей") == {"2"}
        assert await found(r, "counting") == {"3"}
        assert {hit.language for hit in await r.search("жителей")} == {"ru"}


async def test_items_are_filtered_by_a_detected_language(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, GERMAN + " WMS"), page(2, ENGLISH + " WMS"))

        assert await found(r, "WMS", languages=["de"]) == {"1"}
        with pytest.raises(NotFoundError, match="'fr'") as missing:
            await found(r, "WMS", languages=["fr"])
        assert missing.value.hint == "There are: de, en."


async def test_a_plainly_wrong_declaration_is_corrected_in_the_index_and_kept_in_the_item(
    database: ScratchDatabase,
) -> None:
    async with database.open() as r:
        await harvest(r, page(1, GERMAN, language="en"), page(2, ENGLISH, language="en-GB"))

        assert await found(r, "Haus Ergebnis") == {"1"}
    assert database.query("select language, text_language from item order by url") == [("en", "de"), ("en-GB", "en-GB")]


async def test_a_passage_in_another_language_than_its_item_is_indexed_in_its_own(database: ScratchDatabase) -> None:
    text = f"# Zählung\n\n{GERMAN * 14}\n\n# Census\n\n{ENGLISH * 14}"
    async with database.open() as r:
        await harvest(r, page(1, text))

        assert await found(r, "counting") == {"1"}
        assert await found(r, "Haus") == {"1"}
    assert database.query("select text_language from item") == [("de",)]
    assert database.query("select distinct language from chunk order by 1") == [("en",), (None,)]


async def test_another_declaration_moves_the_languages_of_passages_as_a_rebuild_would(
    new_database: Callable[[], ScratchDatabase],
) -> None:
    text = f"# Zählung\n\n{GERMAN * 14}\n\n# Census\n\n{ENGLISH * 14}"
    refreshed, rebuilt = new_database(), new_database()
    async with refreshed.open() as r:
        await harvest(r, page(1, text, language="nl"))
        await harvest(r, page(1, text, language="de"))
        await harvest(r, page(1, text, language="la"))
    async with rebuilt.open() as r:
        await harvest(r, page(1, text, language="la"))

    assert index_of(refreshed) == index_of(rebuilt)


async def test_an_index_of_an_earlier_version_is_analysed_again_without_a_request(
    new_database: Callable[[], ScratchDatabase],
) -> None:
    documents = [
        page(1, GERMAN),
        page(4, RUSSIAN, language="ru"),
        page(5, GERMAN, language="en"),
        page(2, f"# Zählung\n\n{GERMAN * 14}\n\n# Census\n\n{ENGLISH * 14}"),
        page(3, ENGLISH),
    ]
    upgraded, rebuilt = new_database(), new_database()
    for database in (upgraded, rebuilt):
        async with database.open() as r:
            await harvest(r, *documents)
    upgraded.execute(BEFORE_DETECTION)

    async with upgraded.open() as r:
        shows(*(Fetched(document) for document in documents), Complete())
        run = await r.sync("one")
        log = await r.changes.last_number()

    assert index_of(upgraded) == index_of(rebuilt)
    assert (run.stats.updated, run.stats.amended, log) == (0, 0, 5)


async def test_saved_searches_and_the_list_of_changes_match_words_in_the_language_of_the_passage(
    database: ScratchDatabase,
) -> None:
    async with database.open() as r:
        await r.searches.save("houses", "Haus")
        await harvest(r, page(1, GERMAN), page(2, RUSSIAN))

        assert [change.url.rpartition("/")[2] for change in await r.changes.newest(query="Haus")] == ["1"]
        assert [news.url.rpartition("/")[2] for news in await r.searches.newest_news("houses")] == ["1"]
