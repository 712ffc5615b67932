"""The default model's words: numbers recorded from the library that the model was trained with."""

import json
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.enrich.tokenizers import WordPiece

CASES = json.loads((Path(__file__).parent / "wordpiece_cases.json").read_text("utf-8"))
VOCABULARY = (resources.files("rowen.enrich") / "data" / "wordpiece.txt").read_text("utf-8").split("\n")[:-1]
WORDS = WordPiece(VOCABULARY)


@pytest.mark.parametrize(("text", "numbers"), CASES)
def test_texts_are_spelt_as_the_model_learnt_them(text: str, numbers: list[int]) -> None:
    assert WORDS.windows(text, 512) == [numbers]


def test_a_text_that_just_fits_is_one_part_and_a_longer_one_is_halved() -> None:
    assert [len(part) for part in WORDS.windows("hay " * 14, 16)] == [16]
    assert [len(part) for part in WORDS.windows("hay " * 15, 16)] == [2 + 8, 2 + 7]


@given(st.text(max_size=400), st.integers(3, 64))
def test_every_number_of_any_text_is_in_one_part(text: str, most: int) -> None:
    [[start, *numbers, end]] = WORDS.windows(text, 1000)

    parts = WORDS.windows(text, most)

    assert [number for part in parts for number in part[1:-1]] == numbers
    assert all(len(part) <= most and (part[0], part[-1]) == (start, end) for part in parts)
    assert all(0 <= number < len(VOCABULARY) for number in numbers)


@given(st.lists(st.sampled_from(["hay", "embedding", "unhayable", "x"]), max_size=200), st.integers(12, 64))
def test_no_word_is_parted(words: list[str], most: int) -> None:
    alone = {tuple(WORDS.windows(word, 100)[0][1:-1]) for word in words}

    parts = WORDS.windows(" ".join(words), most)

    assert parts
    for part in parts:
        spelt = " ".join(map(str, part[1:-1]))
        for word in sorted(alone, key=len, reverse=True):
            spelt = spelt.replace(" ".join(map(str, word)), "")
        assert not spelt.strip()


def test_marks_in_a_text_do_not_speak_to_the_model() -> None:
    assert 102 not in WORDS.windows("a [SEP] b", 64)[0][:-1]
