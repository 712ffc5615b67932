"""Which passages an edit touches: a rule for all inputs, so hypothesis looks for exceptions."""

from hypothesis import given
from hypothesis import strategies as st

from rowen.harvest.passages import first_edit, plan_edit
from rowen.model.hashes import text_hash
from rowen.model.passages import Chunk
from rowen.store.items.passages import StoredPassage

texts = st.lists(st.sampled_from("abcdefgh"), max_size=12)


def chunks_of(letters: list[str]) -> list[Chunk]:
    return [Chunk(letter) for letter in letters]


def apply(stored: list[StoredPassage], chunks: list[Chunk]) -> tuple[list[StoredPassage], int]:
    """What the table would hold afterwards, in the order of positions, and how many rows were written."""
    edit = plan_edit(1, stored, chunks, None)
    moved = dict(edit.move)
    rows = [row._replace(position=moved.get(row.id, row.position)) for row in stored if row.id not in edit.delete]
    fresh = max((row.id for row in stored), default=0) + 1
    for number, new in enumerate(edit.insert):
        chunk = new.chunk
        exact = text_hash(chunk.text)
        rows.append(
            StoredPassage(
                fresh + number, new.position, exact, chunk.text_hash, chunk.heading, chunk.anchor, new.language
            )
        )
    return sorted(rows, key=lambda row: row.position), len(edit.insert) + len(edit.move)


@given(st.lists(texts, min_size=1, max_size=6))
def test_any_series_of_edits_leaves_the_new_passages_in_order(versions: list[list[str]]) -> None:
    rows: list[StoredPassage] = []
    for version in versions:
        rows, _ = apply(rows, chunks_of(version))

        assert [row.exact_hash for row in rows] == [text_hash(chunk.text) for chunk in chunks_of(version)]
        assert len({row.position for row in rows}) == len(rows)
    assert len(rows) == len(chunks_of(versions[-1]))


@given(texts)
def test_the_same_passages_write_nothing(letters: list[str]) -> None:
    rows, _ = apply([], chunks_of(letters))

    assert apply(rows, chunks_of(letters)) == (rows, 0)


@given(st.lists(st.text(min_size=1, max_size=3), unique=True, max_size=12), st.integers(0, 12))
def test_a_new_passage_between_others_writes_one_row(letters: list[str], place: int) -> None:
    rows, _ = apply([], chunks_of(letters))
    edited = [*letters[:place], "a new passage", *letters[place:]]

    assert apply(rows, chunks_of(edited))[1] == 1


def test_a_passage_whose_link_leads_elsewhere_is_written_although_its_words_are_the_same() -> None:
    before, after = chunks_of(["See [this](a/1).", "End."]), chunks_of(["See [this](a/2).", "End."])
    rows, _ = apply([], before)

    edited, written = apply(rows, after)

    assert before[0].text_hash == after[0].text_hash
    assert (written, [row.exact_hash for row in edited]) == (1, [text_hash(chunk.text) for chunk in after])


def test_a_thousand_insertions_at_one_place_still_fit() -> None:
    chunks = chunks_of(["first", "last"])
    rows, _ = apply([], chunks)
    for number in range(1000):
        chunks[1:1] = chunks_of([f"passage {number}"])
        rows, _ = apply(rows, chunks)

    assert [row.exact_hash for row in rows] == [text_hash(chunk.text) for chunk in chunks]


def test_a_new_item_gets_gaps() -> None:
    positions = [new.position for new in first_edit(1, chunks_of(["a", "b"]), None).insert]

    assert positions[1] - positions[0] > 1000


def test_another_heading_makes_another_passage_row() -> None:
    rows, _ = apply([], [Chunk("text", ("One",))])

    assert apply(rows, [Chunk("text", ("Two",))])[1] == 1
