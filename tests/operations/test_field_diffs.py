"""What changed in a record, field by field."""

from collections.abc import Callable
from typing import Any

import pytest

from rowen import Complete, Fetched, FieldChange, NotFoundError
from rowen.operations.facts import fact
from tests.conftest import ScratchDatabase
from tests.portals.scripted import Scripted, page, shows

URL = "https://example.org/1"


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)


async def _harvest(r: Any, record: dict[str, Any], text: str = "Some text.") -> Any:
    shows(Fetched(page(1, text, record=record)), Complete())
    return await r.sync("scripted:one")


async def test_a_record_is_compared_with_the_one_that_it_took_the_place_of(database: ScratchDatabase) -> None:
    async with database.open(revisions_kept=2) as r:
        await _harvest(r, {"licence": "open", "files": [{"url": "a"}], "old": 1})
        with pytest.raises(NotFoundError, match="No earlier record"):
            await r.items.compare_fields(URL)
        amended = await _harvest(r, {"licence": "<closed>", "files": [{"url": "a"}, {"url": "b"}]})
        reworded = await _harvest(r, {"licence": "<closed>", "files": [{"url": "a"}, {"url": "b"}]}, "Other text.")
        found = await r.items.compare_fields(URL)
        html, text = await r.items.diff_fields(URL, form="html"), await r.items.diff_fields(URL)
        for number in range(4):
            await _harvest(r, {"licence": number})

    assert (amended.stats.amended, reworded.stats.updated) == (1, 1)
    assert sorted(found.fields, key=lambda one: one.path) == [
        FieldChange("added", "/files/1", after={"url": "b"}),
        FieldChange("changed", "/licence", "open", "<closed>"),
        FieldChange("removed", "/old", 1),
    ]
    assert {"op": "removed", "path": "/old", "before": 1} in fact(found)["fields"]
    assert (
        "<tr><th>/licence</th><td><del>&quot;open&quot;</del> <ins>&quot;&lt;closed&gt;&quot;</ins></td></tr>" in html
    )
    assert '~ /licence\t"open" → "<closed>"' in text
    assert database.query("select record->>'licence' from superseded_record order by number") == [("1",), ("2",)]


async def test_an_unchanged_record_leaves_nothing_behind(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await _harvest(r, {"licence": "open"})
        await _harvest(r, {"licence": "open"}, "Other text.")

    assert database.query("select count(*) from superseded_record") == [(0,)]
