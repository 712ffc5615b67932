"""Keyword search over what was harvested."""

from collections.abc import Callable
from typing import Any

import pytest

from rowen import Complete, Document, Fetched, NotFoundError, Rowen
from rowen.store.search import words as store_words
from tests.conftest import ScratchDatabase
from tests.portals.scripted import Scripted, page, shows


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


async def harvest(r: Rowen, *documents: Document, name: str = "one") -> None:
    shows(*(Fetched(document) for document in documents), Complete())
    await r.sync(f"scripted:{name}")


async def never_counts(_: Any) -> bool:
    """End a run before it counts words, as one that is killed does."""
    return False


def urls(hits: Any) -> list[str]:
    return [hit.url.rpartition("/")[2] for hit in hits]


async def test_rare_words_weigh_more_than_common_ones(database: ScratchDatabase) -> None:
    async with database.open() as r:
        common = [page(n, "The harvest of the year was a good harvest for all.") for n in range(9)]
        await harvest(r, *common, page("rare", "A harvest of quinces."))

        assert urls(await r.search("harvest quinces"))[0] == "rare"


async def test_a_question_finds_items_with_most_of_its_words(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "How to prune an apple tree in winter."), page(2, "Bees sleep in winter."))

        assert urls(await r.search("how do I prune my old apple trees?"))[0] == "1"


async def test_title_and_heading_weigh_more_than_text(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(
            r,
            page(1, "Somewhere it says clover.", title="Meadows"),
            page(2, "## Clover\n\nIt is green.", title="Plants"),
            page(3, "It is sown in spring.", title="Clover"),
        )

        assert urls(await r.search("clover")) == ["3", "2", "1"]


async def test_phrases_must_stand_there_and_excluded_words_must_not(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "red apple pie"), page(2, "apple and red plum"), page(3, "red apple wine"))

        assert set(urls(await r.search('"red apple"'))) == {"1", "3"}
        assert urls(await r.search('"red apple" -wine')) == ["1"]


async def test_a_word_that_is_typed_again_in_any_form_weighs_more(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "pruning of trees"), page(2, "grafting of bushes"), page(3, "nothing"))

        assert urls(await r.search("pruning grafting graft"))[0] == "2"
        assert urls(await r.search("grafting prune, pruning"))[0] == "1"
        assert urls(await r.search("grafting pruning pruning"))[0] == "1"


@pytest.mark.parametrize("asked", ["string", "List<String>", "zebra", "script", '"script tag"'])
async def test_text_in_angle_brackets_or_after_a_script_is_found(database: ScratchDatabase, asked: str) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "A `List<String>` holds names. The <script> tag runs. A zebra is striped."))

        assert urls(await r.search(asked)) == ["1"]


async def test_prefixes_are_found(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "pomology"), page(2, "botany"))

        assert urls(await r.search("pomo*")) == ["1"]


async def test_words_are_found_in_their_other_forms_by_language(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(
            r, page(1, "The farmers were harvesting."), page(2, "Die Häuser sind alt.", language="de", title="Alt")
        )

        assert urls(await r.search("harvest")) == ["1"]
        assert urls(await r.search("haus häuser")) == ["2"]


async def test_an_item_answers_once_with_its_best_passage(database: ScratchDatabase) -> None:
    async with database.open() as r:
        long = "\n\n".join(f"## Part {n}\n\n" + "filler words here " * 60 for n in range(5))
        await harvest(r, page(1, long + "\n\n## Quinces\n\nQuinces are yellow. " + "filler " * 100))
        [hit] = await r.search("quinces filler")

        assert hit.heading[-1] == "Quinces"
        assert hit.passages > 1


async def test_the_source_filter_filters_and_names_unknown_sources(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "apple"), name="one")
        await harvest(r, page(2, "apple"), name="two")

        assert urls(await r.search("apple", sources=["two"])) == ["2"]
        with pytest.raises(NotFoundError, match="'three'"):
            await r.search("apple", sources=["three"])


async def test_names_with_dots_and_slashes_are_found_by_their_parts(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "Call os.path.join for it."), page(2, "Open it read/write."), page(3, "Version 3.11."))

        assert urls(await r.search("join")) == ["1"]
        assert urls(await r.search("os.path.join")) == ["1"]
        assert urls(await r.search("write")) == ["2"]
        assert urls(await r.search("3.11")) == ["3"]


@pytest.mark.parametrize(
    ("text", "query", "code"),
    [
        ("日本語の全文検索を実装する。", "全文検索", "ja"),
        ("我们需要一个全文搜索引擎。", "搜索引擎", "zh"),
        ("데이터베이스를 검색합니다.", "검색", "ko"),
        ("ระบบค้นหาข้อมูลภาษาไทย", "ค้นหา", "th"),
        ("日本語の全文検索を実装する。", "語", None),
    ],
)
async def test_scripts_without_spaces_are_found_by_parts_of_a_run(
    database: ScratchDatabase, text: str, query: str, code: str | None
) -> None:
    async with database.open() as r:
        await harvest(r, page(1, text, language=code, title="甲"), page(2, "其他 별도 อื่น", language=code, title="乙"))

        assert urls(await r.search(query))[0] == "1"


async def test_a_phrase_without_spaces_must_stand_there(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "全文検索エンジン", language="ja"), page(2, "検索と全体の文章", language="ja"))

        assert urls(await r.search('"全文検索"')) == ["1"]
        assert urls(await r.search("検索 -全文")) == ["2"]


async def test_common_words_of_the_query_do_not_find_texts_of_other_languages(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(
            r,
            page(1, "Pruning a tree in winter."),
            page(2, "the of and 日本語", language="ja", title="甲"),
            page(3, "Die Bäume im Winter.", language="de", title="Winter"),
        )

        assert urls(await r.search("the pruning of the tree")) == ["1"]
        assert urls(await r.search("die bäume")) == ["3"]


async def test_a_typo_is_corrected_and_reported(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "An orchard of quinces."), page(2, "A field."))
        answer = await r.search("orhcard")

        assert urls(answer) == ["1"]
        assert answer.corrections == {"orhcard": "orchard"}


async def test_a_known_word_is_never_corrected(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "barn"), page(2, "bark bark bark"), page(3, "bark"))
        answer = await r.search("barn")

        assert urls(answer) == ["1"]
        assert answer.corrections == {}


async def test_hits_say_which_words_were_found(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "Apples and harvesting."), page(2, "Apples."))
        first, second = await r.search("harvest apple submarine")

        assert set(first.words) == {"harvest", "apple"}
        assert second.words == ("apple",)
        assert (first.keyword_rank, second.keyword_rank, first.vector_rank) == (1, 2, None)


async def test_new_words_are_found_at_once_and_weighted_as_rare(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with database.open() as r:
        await harvest(r, *(page(n, f"An old harvest, number {n}.") for n in range(30)))
        monkeypatch.setattr(store_words, "count_words", never_counts)
        await harvest(r, page("new", "A harvest of pomegranates."), name="two")

        assert database.query("select from term where lexeme = 'pomegran'") == []
        assert urls(await r.search("harvest pomegranate"))[0] == "new"


async def test_words_are_counted_after_a_run_that_changed_much_and_not_after_one_that_changed_nothing(
    database: ScratchDatabase,
) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "apple pear"), page(2, "apple"))
        counted = dict(database.query("select lexeme, passages from term"))
        before = database.query("select xmin::text, * from term_count")
        run = await r.sync("scripted:one")

        assert (counted["appl"], counted["pear"]) == (2, 1)
        assert run.stats.rows_written == 0
        assert database.query("select xmin::text, * from term_count") == before


async def test_words_of_a_run_that_was_killed_before_they_were_counted_are_counted_by_the_next(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with database.open() as r:
        with monkeypatch.context() as killed:
            killed.setattr(store_words, "count_words", never_counts)
            await harvest(r, page(1, "apple pear"), page(2, "apple"))
        assert database.query("select from term") == []
        run = await r.sync("scripted:one")

        assert run.stats.rows_written == 0
        assert dict(database.query("select lexeme, passages from term"))["appl"] == 2


async def test_removed_words_are_forgotten(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "apple"))
        await r.sources.remove("one")

        assert database.query("select * from term") == []
        assert urls(await r.search("apple")) == []


async def test_similar_items_share_the_words_that_tell(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await harvest(
            r,
            page(1, "Quinces and medlars in the orchard. Quinces again."),
            page(2, "The orchard has quinces."),
            *(page(n, f"Something of hay, number {n}.") for n in range(3, 9)),
        )
        answer = await r.items.similar("https://example.org/1")

        assert urls(answer)[0] == "2"
        assert "1" not in urls(answer)
        with pytest.raises(NotFoundError):
            await r.items.similar("https://example.org/nothing")


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
        "\\' | ! & \\",
        "of the and",
        "-- -a -b",
        "((((((",
        "😀",
        "日本語" * 10_000,
        "a* " * 100,
        '"unclosed phrase',
        "{WORDS_DEPTH} {where}",
    ],
)
async def test_no_query_is_an_error(database: ScratchDatabase, words: str) -> None:
    async with database.open() as r:
        await harvest(r, page(1, "apple"))

        assert urls(await r.search(words)) in ([], ["1"])
