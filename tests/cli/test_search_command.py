"""search: its forms, its filters, its explanations."""

from rowen.model.passages import marked, pattern
from rowen.model.search import Query
from tests.cli.conftest import Cli


def test_markdown_is_numbered_and_cites_each_passage(docs: Cli) -> None:
    done = docs("search", "turn the hay", "--format", "markdown")

    assert done.code == 0
    assert "\n## [1] Hay" in done.out
    assert f"<file://{docs.folder}/docs/hay.md> (docs)" in done.out
    assert "Turn the hay twice." in done.out


def test_a_budget_is_kept(docs: Cli) -> None:
    docs.write({f"docs/n{n}.md": f"# Note {n}\n\n" + "The hatch is closed at dusk. " * 60 for n in range(9)})
    docs("sync", "docs")
    short = docs("search", "hatch dusk", "--format", "markdown", "--budget", "600")
    usual = docs("search", "hatch dusk", "--format", "markdown")

    assert len(short.out) < 1_200
    assert len(short.out) < len(usual.out) < 6_000


def test_the_explanation_names_words_weights_and_ranks(docs: Cli) -> None:
    done = docs("search", "hay swallows submarine", "--explain")
    fact = docs("search", "hay swallows", "--explain", "--json").facts[-1]["explanation"]

    assert "weight" in done.out
    assert "words #1" in done.out
    assert "submarine" in done.out
    assert {word["word"] for word in fact["words"]} == {"hay", "swallows"}
    assert fact["search_ms"] > 0


def test_a_corrected_typo_is_reported(docs: Cli) -> None:
    done = docs("search", "swalows")

    assert "Hay" in done.out
    assert "Also searched for 'swallows'" in done.err


def test_filters_are_options(docs: Cli) -> None:
    assert docs("search", "hay", "--kind", "files", "--path", f"{docs.folder}/docs", "--since", "1d", "--json").facts
    assert docs("search", "hay", "--path", "/elsewhere", "--json").facts == []
    assert docs("search", "hay", "--until", "2001-01-01", "--json").facts == []
    assert docs("search", "hay", "--tag", "x", "--publisher", "y", "--json").facts == []


def test_an_unknown_filter_value_is_an_error_that_lists_known_ones(docs: Cli) -> None:
    for option, value, there in (("--kind", "zzz", "files"), ("--language", "xx", "No item"), ("--source", "q", "")):
        done = docs("search", "hay", option, value)

        assert done.code == 4
        assert repr(value) in done.err
        assert there in done.err
        assert "other words" not in done.err


def test_copies_are_folded_and_three_of_them_shown(docs: Cli) -> None:
    text = "# Silage\n\nSilage is made of grass that was cut early and kept from the air.\n"
    docs.write({f"docs/{n}/silage.md": text for n in range(6)})
    docs("sync", "docs")
    done = docs("search", "silage grass")
    [fact] = docs("search", "silage grass", "--json").facts

    assert done.out.count("also in docs: file://") == 3
    assert "and in 2 other places" in done.out
    assert len(fact["twins"]) == 5


def test_snippets_show_words_and_no_addresses(docs: Cli) -> None:
    docs.write({"docs/links.md": "# Links\n\nSee [the **silo**](https://example.org/a/long?address=1#x) and `more`.\n"})
    docs("sync", "docs")
    done = docs("search", "silo")

    assert "See the silo and more." in done.out
    assert "example.org" not in done.out


def test_a_passage_of_a_file_is_shown_with_its_anchor_and_can_be_got_by_it(docs: Cli) -> None:
    docs.write({"docs/farm.md": f"# Farm\n\n{'An overview. ' * 200}\n\n## The old mill\n\n{'Grinds barley. ' * 90}\n"})
    docs("sync", "docs")
    link = f"file://{docs.folder}/docs/farm.md#the-old-mill"
    done = docs("search", "grinds barley")

    assert link in done.out
    assert "Grinds barley." in docs("get", link).out


def test_similar_takes_the_place_of_words(docs: Cli) -> None:
    docs.write({"docs/straw.md": "# Straw\n\nAfter the meadow is mown, turn the hay and the straw twice.\n"})
    docs("sync", "docs")
    done = docs("search", "--similar", "docs/hay.md", "--json")

    assert done.facts[0]["title"] == "Straw"
    assert "Hay" not in {fact["title"] for fact in done.facts}
    assert docs("search", "--similar", "docs/nothing.md").code == 4


def test_wrong_usage_is_refused(docs: Cli) -> None:
    assert docs("search").code == 2
    assert docs("search", "hay", "--similar", "docs/hay.md").code == 2
    assert docs("search", "hay", "--since", "42").code == 2
    assert docs("search", "--similar", "docs/hay.md", "--version", "2").code == 2
    assert "There is no word" in docs("search", "?!").err


def test_words_are_marked_also_in_scripts_without_spaces() -> None:
    [(before, _), (found, style), (after, _)] = marked("日本語の全文検索を実装", pattern(Query.parse("文検")))

    assert (before, found, after) == ("日本語の全", "文検", "索を実装")
    assert style


def test_a_word_is_marked_in_its_other_forms_and_not_inside_others() -> None:
    pieces = marked("Harvests and preharvest", pattern(Query.parse("harvesting")))

    assert [text for text, style in pieces if style] == ["Harvests"]
