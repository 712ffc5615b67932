"""What a run remembers of the items that it holds: little memory for each, and no question asked twice."""

import tracemalloc
from collections.abc import AsyncGenerator, Callable
from typing import Any, ClassVar, Self

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rowen import Complete, Known, Observation, Unchanged
from rowen.harvest import known
from rowen.harvest.known import KnownIds
from tests.conftest import ScratchDatabase
from tests.portals.scripted import Scripted

ITEMS = 20_000
ADDRESS = "https://data.example.org/dataset/a-name-of-usual-length-{}"
FILL = f"""
insert into item (source_id, key, url, title, text, tags, record, content_hash, record_hash, chunker)
select 1, sha256(url::bytea), url, 'Field', 'Hay.', '{{}}', '{{}}', '', '', 1
  from generate_series(1, {ITEMS}) n cross join lateral (select replace('{ADDRESS}', '{{}}', n::text)) of(url)
"""


class Whole(Scripted):
    """Reads all that is held, and says that none of it has changed; notes what that left in memory."""

    asks: ClassVar[bool]
    remembered_bytes: ClassVar[int]

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        urls = [ADDRESS.format(number) for number in range(1, ITEMS + 1)]
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            if Whole.asks:
                for start in range(0, ITEMS, 2_000):
                    await known.look_up(urls[start : start + 2_000])
            else:
                async for batch in known.everything():
                    del batch
            Whole.remembered_bytes = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        for url in urls:
            yield Unchanged(url)
        yield Complete()


@pytest.mark.parametrize("asks", [False, True], ids=["everything", "look_up"])
async def test_an_unchanged_source_takes_some_bytes_an_item_and_no_question_twice(
    database: ScratchDatabase,
    kinds: Callable[[Any], None],
    statements: list[str],
    monkeypatch: pytest.MonkeyPatch,
    asks: bool,
) -> None:
    kinds(Whole)
    monkeypatch.setattr(known, "_RECENT", 1_000)
    Whole.asks = asks
    async with database.open() as r:
        await r.sources.add("scripted:one")
        database.execute(FILL)
        statements.clear()
        run = await r.sync("scripted:one")

    asked = [statement for statement in statements if "key = any" in statement]
    assert (run.stats.unchanged, run.stats.failed, run.stats.rows_written) == (ITEMS, 0, 0)
    assert len(asked) == (ITEMS // 2_000 if asks else 0)
    # A URL of this length and its id take 170 bytes in a dict. Reading leaves some 100 kB whatever there is.
    assert Whole.remembered_bytes < 30 * ITEMS + 100_000


class Url(str):
    """A URL whose hash the test chooses."""

    __slots__ = ("hashed",)

    def __new__(cls, name: str, hashed: int) -> Self:
        made = super().__new__(cls, name)
        made.hashed = hashed  # type: ignore[attr-defined]
        return made

    def __hash__(self) -> int:
        return int(self.hashed)  # type: ignore[attr-defined]

    __eq__ = str.__eq__


NUMBERS = st.integers(min_value=0, max_value=4) | st.integers(min_value=-(2**63), max_value=2**63 - 1)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=40), st.integers(min_value=0, max_value=500))
@example([(-1, 0), (0, 1), (0, 0)], 0)
def test_an_id_is_returned_if_its_hash_is_unique(entries: list[tuple[int, int]], count: int) -> None:
    # CPython has no hash of -1.
    pairs = [(-2 if hashed == -1 else hashed, item_id) for hashed, item_id in entries]
    known = KnownIds(count)
    known.add_all((Url(str(at), hashed), item_id) for at, (hashed, item_id) in enumerate(pairs))

    ids: dict[int, set[int]] = {}
    for hashed, item_id in pairs:
        ids.setdefault(hash(Url("", hashed)), set()).add(item_id)
    told = known.take([Url("any", hashed) for hashed, _ in pairs]) if pairs else []

    assert told == [next(iter(those)) if len(those := ids[hash(Url("", hashed))]) == 1 else None for hashed, _ in pairs]


def test_a_recent_id_is_returned_once_and_a_hashed_one_repeatedly() -> None:
    known = KnownIds(10)
    known.add_all([("old", 1)])
    known.recent["new"] = 2

    assert known.take(["old", "new", "unknown"]) == [1, 2, None]
    assert known.take(["old", "new"]) == [1, None]
