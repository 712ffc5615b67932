"""The sieve and the guard: outcomes, checks and bounds, when one property at a time differs."""

from dataclasses import replace
from typing import Any

import pytest

from rowen.harvest import sieve
from rowen.harvest.sieve import Recipes
from rowen.harvest.sweep import Guard
from rowen.model.items import Document, Raw, Unchanged, Validators
from rowen.model.runs import Outcome
from rowen.store.items.items import ItemCheck, ItemContent, StoredItem

BODY, OTHER_BODY = b"b" * 16, b"o" * 16
NOW, BEFORE, OLD = b"n" * 16, b"e" * 16, b"w" * 16
RECIPES = Recipes(NOW, {"html": NOW, "text": NOW, "markdown": NOW}, OLD, frozenset({NOW}), 7)
DOCUMENT = Document(
    "https://example.org/1",
    "Title",
    "Some text.",
    ("tag",),
    media_type="text/html",
    links=("https://example.org/2",),
    depth=2,
    validators=Validators("etag", "Monday", BODY),
)
STORED = StoredItem(
    id=1,
    title="Title",
    language=None,
    text_language=None,
    content_hash=DOCUMENT.content_hash,
    record_hash=DOCUMENT.record_hash,
    chunker=7,
    recipe=NOW,
    etag="etag",
    last_modified="Monday",
    body_hash=BODY,
    depth=2,
    links="https://example.org/2",
    checked_apart=True,
)
RAW = Raw("https://example.org/1", b"Body", etag="etag", last_modified="Monday", depth=2)


def test_the_stored_document_needs_nothing_to_be_written() -> None:
    verdict = sieve.judge(DOCUMENT, STORED, RECIPES)

    assert verdict == sieve.Verdict(
        outcome=Outcome.UNCHANGED, write_item=False, write_chunks=False, write_check=False, revised=False
    )


@pytest.mark.parametrize(
    ("document", "outcome"),
    [
        (DOCUMENT, Outcome.UNCHANGED),
        (replace(DOCUMENT, record={"licence": "CC0"}), Outcome.AMENDED),
        (replace(DOCUMENT, text="Other text."), Outcome.UPDATED),
    ],
)
def test_a_new_chunker_recuts_an_item_with_any_other_difference(document: Document, outcome: Outcome) -> None:
    verdict = sieve.judge(document, STORED._replace(chunker=6), RECIPES)

    assert (verdict.outcome, verdict.write_item, verdict.write_chunks) == (outcome, True, True)


def test_an_amended_item_that_is_cut_as_now_keeps_its_passages() -> None:
    verdict = sieve.judge(replace(DOCUMENT, record={"licence": "CC0"}), STORED, RECIPES)

    assert (verdict.outcome, verdict.write_item, verdict.write_chunks) == (Outcome.AMENDED, True, False)


@pytest.mark.parametrize(
    "difference",
    [
        {"validators": Validators("other", "Monday", BODY)},
        {"validators": Validators("etag", "Tuesday", BODY)},
        {"validators": Validators("etag", "Monday", OTHER_BODY)},
        {"depth": 3},
        {"links": ()},
    ],
)
def test_a_check_is_written_when_any_of_its_parts_differs(difference: dict[str, Any]) -> None:
    assert sieve.judge(replace(DOCUMENT, **difference), STORED, RECIPES).write_check


def test_a_check_is_written_when_the_recipe_differs_unless_the_old_one_is_still_current() -> None:
    record = replace(DOCUMENT, validators=Validators("etag", "Monday"))
    stored = STORED._replace(body_hash=None)

    assert sieve.judge(record, stored._replace(recipe=BEFORE), RECIPES).write_check
    assert not sieve.judge(record, stored._replace(recipe=OLD), RECIPES).write_check
    assert sieve.judge(DOCUMENT, STORED._replace(recipe=OLD), RECIPES).write_check


def test_an_individually_fetched_record_keeps_the_stored_hash_with_the_mark_of_its_bytes() -> None:
    record, mark = b"r" * 32, b"m" * 8
    seen = replace(DOCUMENT, validators=Validators("etag", "Monday", record))

    assert not sieve.judge(seen, STORED._replace(body_hash=record + mark), RECIPES).write_check
    assert sieve.judge(seen, STORED._replace(body_hash=b"s" * 32 + mark), RECIPES).write_check


@pytest.mark.parametrize(
    ("recipe", "body", "outcome"),
    [
        (BEFORE, BODY, Outcome.AMENDED),
        (BEFORE, OTHER_BODY, Outcome.UPDATED),
        (NOW, BODY, Outcome.UPDATED),
    ],
)
def test_other_words_are_amended_only_when_another_reader_made_them_of_the_same_body(
    recipe: bytes, body: bytes, outcome: Outcome
) -> None:
    document = replace(DOCUMENT, text="Other text.")

    verdict = sieve.judge(document, STORED._replace(recipe=recipe, body_hash=body), RECIPES)

    assert (verdict.outcome, verdict.revised) == (outcome, True)


@pytest.mark.parametrize(("recipe", "outcome"), [(BEFORE, Outcome.AMENDED), (NOW, Outcome.UPDATED)])
def test_other_words_of_a_record_that_its_source_left_alone_are_amended_only_if_it_is_read_in_another_way(
    recipe: bytes, outcome: Outcome
) -> None:
    document = replace(DOCUMENT, text="Other text.")
    stored = STORED._replace(recipe=recipe, body_hash=None)

    assert sieve.judge(document, stored, RECIPES, same_record=True).outcome is outcome
    assert sieve.judge(document, stored, RECIPES).outcome is Outcome.UPDATED
    assert sieve.is_reread(document, stored, RECIPES) == (outcome is Outcome.AMENDED)
    assert not sieve.is_reread(DOCUMENT, stored, RECIPES)


@pytest.mark.parametrize(
    ("stored", "is_same"),
    [
        (STORED._replace(body_hash=RAW.body_hash), True),
        (STORED._replace(body_hash=OTHER_BODY), False),
        (STORED._replace(body_hash=RAW.body_hash, chunker=6), False),
        (STORED._replace(body_hash=RAW.body_hash, recipe=BEFORE), False),
        (STORED._replace(body_hash=RAW.body_hash, recipe=OLD), False),
        (None, False),
    ],
)
def test_a_body_is_not_parsed_only_if_it_was_read_and_cut_as_now(stored: StoredItem | None, is_same: bool) -> None:
    assert sieve.same_body(RAW, stored, RECIPES) is is_same


@pytest.mark.parametrize("difference", [{"etag": "other"}, {"last_modified": "Tuesday"}, {"depth": 3}])
def test_a_body_that_was_not_parsed_keeps_its_links_and_recipe_and_takes_new_validators(
    difference: dict[str, Any],
) -> None:
    raw = replace(RAW, **difference)

    assert sieve.unread_check(raw, STORED) == ItemCheck(
        1, raw.etag, raw.last_modified, raw.body_hash, raw.depth, None, NOW
    )
    assert sieve.unread_check(RAW, STORED) is None


@pytest.mark.parametrize(
    ("unchanged", "expected"),
    [
        (Unchanged(RAW.url), None),
        (Unchanged(RAW.url, Validators("etag", "Monday", BODY), 2), None),
        (Unchanged(RAW.url, depth=3), ("etag", "Monday", BODY, 3)),
        (Unchanged(RAW.url, depth=0), ("etag", "Monday", BODY, 0)),
        (Unchanged(RAW.url, Validators("other", "Monday", BODY)), ("other", "Monday", BODY, 2)),
        (Unchanged(RAW.url, Validators("etag", "Tuesday", BODY)), ("etag", "Tuesday", BODY, 2)),
        (Unchanged(RAW.url, Validators("etag", "Monday", OTHER_BODY)), ("etag", "Monday", OTHER_BODY, 2)),
    ],
)
def test_an_unchanged_item_has_a_new_check_only_if_its_validators_or_depth_differ(
    unchanged: Unchanged, expected: tuple[Any, ...] | None
) -> None:
    check = sieve.recheck(unchanged, STORED)

    assert check == (None if expected is None else ItemCheck(1, *expected, None, NOW))


@pytest.mark.parametrize(
    ("before", "now", "only_markup"),
    [
        ("See [a](1).", "See [a](2).", True),
        ("See [a](1).", "See [b](1).", False),
        ("```\na\n[x](1)\n```", "```\na\n[x](2)\n```", False),
        ("```\na\n~~~\n[x](1)\n```", "```\na\n~~~\n[x](2)\n```", False),
        ("```\na\n```\n[x](1)", "```\na\n```\n[x](2)", True),
        ("```python\na\n```", "```ruby\na\n```", False),
        ("a\nb", "a\nb\nc", False),
        ("- a\n  b", "- a\nb", False),
    ],
)
def test_only_markup_differs_outside_code(before: str, now: str, only_markup: bool) -> None:
    document = replace(DOCUMENT, text=now)

    assert sieve.only_markup_differs(document, ItemContent("Title", before, ["tag"])) is only_markup


@pytest.mark.parametrize(
    "said", [ItemContent("Other", "Some text.", ["tag"]), ItemContent("Title", "Some text.", ["other"])]
)
def test_another_title_or_tag_is_more_than_markup(said: ItemContent) -> None:
    assert not sieve.only_markup_differs(DOCUMENT, said)


@pytest.mark.parametrize(
    ("held", "spent", "bound"),
    [(1, 0, 1), (3, 0, 1), (10, 0, 5), (40, 0, 9), (100, 0, 19), (101, 0, 20), (93, 7, 12), (81, 19, 0), (50, 50, 0)],
)
def test_the_guard_bounds_the_deletions_of_a_source(held: int, spent: int, bound: int) -> None:
    guard = Guard(floor=10, share=0.2, small_share=0.5, spent=spent)

    assert guard.bound(held) == bound
    assert guard.allows(bound, of=held)
    assert not guard.allows(bound + 1, of=held)
    assert replace(guard, accepted=True).allows(held, of=held)
