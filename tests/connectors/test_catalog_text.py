"""Descriptions and languages, as catalogs mix them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.connectors.catalog.text import code_of, one_of, plain, wordings


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Plain words.", "Plain words."),
        ("  # Markdown\n\n* stays\n* as it is ", "# Markdown\n\n* stays\n* as it is"),
        ("a < b and c > d", "a < b and c > d"),
        ("<p>One</p><p>Two <b>three</b></p>", "One\n\nTwo three"),
        ("Line<br/>break", "Line\nbreak"),
        ("<ul><li>one</li><li>two</li></ul>", "- one\n- two"),
        ("Fish &amp; chips", "Fish & chips"),
        ("Fish &amp; chips\nand < peas", "Fish & chips\nand < peas"),
        ("<script>alert(1)</script>Safe", "Safe"),
        ("<p>open <b>and never closed", "open and never closed"),
        ("<table><tr><td>a</td><td>b</td></tr></table>", "a b"),
    ],
)
def test_a_description_is_read_as_text(written: str, meant: str) -> None:
    assert plain(written) == meant


def test_markup_nested_deeper_than_python_calls_is_read() -> None:
    assert plain("<div>" * 5000 + "deep") == "deep"


@given(st.text(alphabet="<>/&;ab\"'= \n!-") | st.text())
def test_no_text_breaks_the_reading(written: str) -> None:
    assert isinstance(plain(written), str)


def test_the_language_with_the_most_to_say_is_the_main_one() -> None:
    said = wordings({"en": "Hay", "de": "Heu", "fr": ""}, {"de": "", "en": "Cut twice.", "fr": None})

    assert (said.title, said.description, said.language) == ("Hay", "Cut twice.", "en")
    assert said.others == {"de": ("Heu", "")}


def test_the_order_of_languages_does_not_matter() -> None:
    one = wordings({"de": "Heu", "fr": "Foin"}, {"de": "a", "fr": "b"})
    other = wordings({"fr": "Foin", "de": "Heu"}, {"fr": "b", "de": "a"})

    assert one == other


def test_the_same_words_under_another_language_are_kept_once() -> None:
    assert wordings({"de": "Heu", "rm": "Heu"}, None).others == {}


@pytest.mark.parametrize("value", [None, True, [], ["a"], {"de": None}, {"de": ["x"]}, {}])
def test_what_is_no_text_says_nothing(value: object) -> None:
    assert (one_of(value, "de"), wordings(value, value).title) == ("", "")


def test_a_number_is_a_title_as_well() -> None:
    assert wordings(707, 1.5).title == "707"


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("de", "de"),
        ("EN-us", "en"),
        ("English", "en"),
        ("deu", "de"),
        ("http://publications.europa.eu/resource/authority/language/FRA", "fr"),
        ("http://id.loc.gov/vocabulary/iso639-1/it", "it"),
        ("Klingon, mostly", None),
        ("", None),
    ],
)
def test_a_language_is_known_by_its_code(written: str, code: str | None) -> None:
    assert code_of(written) == code
