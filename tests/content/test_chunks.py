import random
import time
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.content import chunks as chunks_module
from rowen.content.chunks import split

WORDS = [f"{chr(97 + i % 26)}{i:x}{'lorem'[i % 5]}" for i in range(400)]


def paragraph(rng: random.Random, words: int = 40) -> str:
    return " ".join(rng.choices(WORDS, k=words)) + "."


def page(seed: int, paragraphs: int = 60) -> list[str]:
    """A page of sections, lists and code, as blocks."""
    rng = random.Random(seed)
    blocks = ["# Title"]
    for number in range(paragraphs):
        match rng.randrange(8):
            case 0:
                blocks.append(f"## Section {number} {rng.choice(WORDS)}")
            case 1:
                blocks.append("\n".join(f"- {paragraph(rng, 8)}" for _ in range(rng.randint(2, 12))))
            case 2:
                blocks.append("```python\n" + "\n".join(paragraph(rng, 5) for _ in range(rng.randint(2, 60))) + "\n```")
            case _:
                blocks.append(paragraph(rng, rng.randint(10, 90)))
    return blocks


def changed(before: list[str], after: list[str]) -> int:
    known = {chunk.text_hash for chunk in split("\n\n".join(before))}
    return sum(chunk.text_hash not in known for chunk in split("\n\n".join(after)))


def lines_of(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def test_an_empty_text_has_no_chunks():
    assert split("") == []
    assert split(" \n\n\t\n") == []


@pytest.mark.parametrize("text", ["# Title\n\nOne.\n\n\nTwo.", "  One.\n\n- two\n- three", "Title\n---\n\nOne."])
def test_a_short_text_is_one_chunk_exactly_as_it_is(text: str):
    (chunk,) = split(f"\n \n{text}\n\t\n")

    assert chunk.text == text


def test_a_chunk_knows_the_headings_above_it():
    text = "\n\n".join(["# Guide", "## Install", "i" * 900, "### Linux", "l" * 900, "## Use", "u" * 900])

    paths = [chunk.heading for chunk in split(text)]

    assert paths == [("Guide", "Install"), ("Guide", "Install", "Linux"), ("Guide", "Use")]


def test_headings_are_plain_words():
    text = "## The *quick* [brown](http://fox) `jump` \\# #\n\ntext"

    assert split(text)[0].heading == ("The quick brown jump #",)


def test_an_anchor_is_the_id_of_the_nearest_heading_or_its_slug():
    text = "\n\n".join(["# What's new?", "a" * 1400, "## API {#reference}", "b" * 1400, "# What's new?", "c" * 1400])

    chunks = split(text)

    assert [chunk.anchor for chunk in chunks] == ["whats-new", "reference", "whats-new-1"]
    assert chunks[1].heading == ("What's new?", "API")


def test_text_before_any_heading_has_neither_path_nor_anchor():
    (chunk,) = split("just text")

    assert (chunk.heading, chunk.anchor) == ((), None)


def test_an_underlined_heading_is_a_heading():
    text = "Title\n=====\n\n" + "a" * 1400 + "\n\nPart\n----\n\n" + "b" * 1400

    assert [chunk.heading for chunk in split(text)] == [("Title",), ("Title", "Part")]


def test_a_hash_inside_a_fence_is_no_heading():
    text = "# Real\n\n```sh\n# comment\n```\n\n~~~\n```\n# other\n~~~\n\nend"

    (chunk,) = split(text)

    assert chunk.heading == ("Real",)


def test_a_heading_stays_with_its_text():
    rng = random.Random(3)
    text = "\n\n".join(f"## Part {i}\n\n{'x' * rng.randint(300, 1490)}" for i in range(60))

    chunks = split(text)

    assert len(chunks) >= 30
    for chunk in chunks:
        assert not chunk.text.rsplit("\n\n", 1)[-1].startswith("## ")


def test_a_long_fence_is_closed_and_opened_again_in_every_chunk():
    code = "\n".join(f"value_{i} = compute({i})" for i in range(300))

    chunks = split(f"```python\n{code}\n```")

    assert len(chunks) > 3
    for chunk in chunks:
        assert chunk.text.startswith("```python\n")
        assert chunk.text.endswith("\n```")
    assert "\n".join(chunk.text[10:-4] for chunk in chunks) == code


def test_a_long_table_repeats_its_head_in_every_chunk():
    head = "| name | value |\n|---|---|"
    rows = [f"| name {i} | value {i} |" for i in range(300)]

    chunks = split("\n".join([head, *rows]))

    assert len(chunks) > 3
    assert all(chunk.text.startswith(head + "\n| name") for chunk in chunks)
    assert [row for chunk in chunks for row in chunk.text.split("\n")[2:]] == rows


def test_code_is_cut_before_definitions():
    functions = [
        f"def function_{i}(argument):\n    # step\n\n" + "    work()\n" * 20 + "    return 1" for i in range(20)
    ]

    chunks = split("```python\n" + "\n\n\n".join(functions) + "\n```")

    assert len(chunks) > 1
    assert all(chunk.text.startswith("```python\ndef ") for chunk in chunks)


def test_a_code_block_inside_a_list_does_not_end_the_list():
    text = "- one\n\n  ```\n  # no heading\n\n  code\n  ```\n\n- two\n\nafter"

    (chunk,) = split(text)

    assert chunk.heading == ()


def test_a_single_line_is_cut_between_sentences_then_words_then_anywhere():
    sentences = " ".join(f"Sentence number {i} stands here." for i in range(200))
    words = " ".join(f"word{i}" for i in range(800))

    assert all(chunk.text.endswith(".") for chunk in split(sentences))
    assert {word for chunk in split(words) for word in chunk.text.split()} == set(words.split())
    assert "".join(chunk.text for chunk in split("x" * 10_000)) == "x" * 10_000


def test_an_endless_heading_is_cut_and_its_path_stays_short():
    chunks = split("# " + "word " * 5_000 + "\n\ntext")

    assert chunks
    assert all(len(chunk.text) <= 1500 for chunk in chunks)
    assert all(len(title) <= 200 for chunk in chunks for title in chunk.heading)


def test_consecutive_headings_longer_than_a_chunk_are_cut_between_sections():
    text = "\n".join(f"{'#' * (1 + i % 3)} heading number {i}" for i in range(400))

    chunks = split(text)

    assert all(len(chunk.text) <= 1500 for chunk in chunks)
    assert sum(len(chunk.text) < 200 for chunk in chunks) <= len(chunks) // 10


def test_blocks_that_begin_alike_are_not_peeled_off_one_by_one():
    text = "\n\n".join("The following parameters are accepted by this function: " + str(i) for i in range(5_000))

    lengths = [len(chunk.text) for chunk in split(text)]

    assert sum(lengths) / len(lengths) > 500


@pytest.mark.parametrize(
    "text",
    [
        "x" * 3_000_000,
        "word " * 600_000,
        "same line\n" * 100_000,
        "same block\n\n" * 50_000,
        "## h\n" * 50_000,
        "\n".join(f"{'#' * (1 + i % 6)} h {i}" for i in range(50_000)),
        "- item\n" * 100_000,
        "| a | b |\n" * 100_000,
        "a | b\n---|---\n" * 50_000,
        "```\n" * 100_000,
        "a" + " " * 3_000_000 + "b",
        "```py\n" + "\n".join(" " * i + "x" for i in range(2_000)) + "\n```",
    ],
    ids=lambda text: repr(text[:12]),
)
def test_hostile_texts_cost_no_more_than_their_length(text: str):
    start = time.process_time()

    chunks = split(text)

    # A bound against quadratic cost, which would take minutes; not a measure of speed.
    assert time.process_time() - start < 20
    assert all(len(chunk.text) <= 1500 for chunk in chunks)


MARKDOWN = st.lists(
    st.sampled_from(
        ["# h", "## h {#x}", "t\n===", "```", "~~~ py", "| a | b |", "|---|---|", "- i", "  - j", "1. n", "", ""]
    )
    | st.text(alphabet="ab .#|`-=*\t1é漢", max_size=80)
    | st.text(max_size=200),
    max_size=40,
).map("\n".join)


@given(MARKDOWN, st.integers(60, 400), st.integers(0, 50))
def test_no_chunk_is_too_long_and_no_line_is_lost(text: str, max_chars: int, min_chars: int):
    chunks = split(text, max_chars=max_chars, min_chars=min_chars)

    together = "".join("".join(chunk.text.split()) for chunk in chunks)
    assert [chunk for chunk in chunks if not 0 < len(chunk.text) <= max_chars] == []
    for line in lines_of(text):
        if len(line) < max_chars // 4 and not line.startswith(("`", "~")):
            assert "".join(line.split()) in together


@given(MARKDOWN)
def test_a_text_that_fits_is_cut_no_differently_for_being_short(text: str):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks_module, "_may_begin_with_heading", lambda _: True)
        the_long_way = split(text)

    assert split(text) == the_long_way


@given(MARKDOWN)
def test_the_same_text_gives_the_same_chunks(text: str):
    assert split(text) == split(text)


def test_cuts_do_not_depend_on_what_stands_far_above():
    blocks = page(7, 200)

    alone = split("\n\n".join(blocks))
    shifted = split("\n\n".join(["# Another page before", "Some text.", *blocks]))

    known = {chunk.text_hash for chunk in alone}
    assert sum(chunk.text_hash not in known for chunk in shifted) <= 3


@pytest.mark.parametrize("edit", ["reword", "grow", "insert", "delete"])
def test_an_edited_paragraph_changes_one_or_two_chunks(edit: str):
    rng = random.Random(crc32(edit.encode()))
    counts = []
    for seed in range(60):
        blocks = page(seed)
        at = rng.choice([i for i, block in enumerate(blocks) if block[0].isalpha()])
        match edit:
            case "reword":
                after = [*blocks[:at], blocks[at].replace(" ", " reworded ", 1), *blocks[at + 1 :]]
            case "grow":
                after = [*blocks[:at], blocks[at] + " " + paragraph(rng), *blocks[at + 1 :]]
            case "insert":
                after = [*blocks[:at], paragraph(rng), *blocks[at:]]
            case _:
                after = [*blocks[:at], *blocks[at + 1 :]]
        counts.append(changed(blocks, after))

    assert sum(counts) / len(counts) <= 1.7
    assert max(counts) <= 6
