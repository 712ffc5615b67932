"""The default model's words: numbers recorded from the library that the model was trained with."""

import json
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.enrich.wordpiece import WordPiece

CASES = json.loads((Path(__file__).parent / "wordpiece_cases.json").read_text("utf-8"))
VOCABULARY = (resources.files("rowen.enrich.data") / "wordpiece.txt").read_text("utf-8").split("\n")[:-1]
WORDS = WordPiece(VOCABULARY)


@pytest.mark.parametrize(("text", "numbers"), CASES)
def test_texts_are_spelt_as_the_model_learnt_them(text: str, numbers: list[int]) -> None:
    assert WORDS.encode(text, 512) == (numbers, False)


def test_a_long_text_is_cut_and_says_so() -> None:
    numbers, cut = WORDS.encode("hay " * 1000, 16)

    assert (len(numbers), numbers[0], numbers[-1], cut) == (16, 101, 102, True)


def test_a_text_that_just_fits_is_not_cut() -> None:
    assert WORDS.encode("hay " * 14, 16)[1] is False
    assert WORDS.encode("hay " * 15, 16)[1] is True


@given(st.text(max_size=200))
def test_any_text_can_be_spelt(text: str) -> None:
    numbers, _ = WORDS.encode(text, 64)

    assert 2 <= len(numbers) <= 64
    assert all(0 <= number < len(VOCABULARY) for number in numbers)


def test_marks_in_a_text_do_not_speak_to_the_model() -> None:
    assert 102 not in WORDS.encode("a [SEP] b", 64)[0][:-1]
