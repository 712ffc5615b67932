"""A file says which facts are extracted from its sources: told in the diff, written once."""

from pathlib import Path
from typing import Any

import pytest

from rowen.errors import UsageError
from rowen.model.sources import AppliedSource
from tests.conftest import ScratchDatabase

SHOP = """
[[source]]
name = "shop"
url = "https://shop.example/"
kind = "web"
"""
PLAIN = SHOP + 'schemas = ["product@1"]\n'
RICH = """
[[source.schemas]]
schema = "product@1"
when = ["price<100"]
only_urls = ["*/lamps/*"]
rules = { price = ".amount | number" }
learn = true
grounding = "null"

[[source.schemas]]
schema = "article"
"""
AS_TOLD = {
    "schema": "product@1.0.0",
    "when": ["price < 100"],
    "only_urls": ["*/lamps/*"],
    "rules": {"price": ".amount | number"},
    "learn": True,
    "grounding": "null",
}


async def applied(database: ScratchDatabase, folder: Path, text: str, **how: Any) -> AppliedSource:
    path = folder / "shops.toml"
    path.write_text(text)
    async with database.open() as r:
        [one] = await r.sources.apply(path, **how)
    return one


def rows(database: ScratchDatabase) -> list[tuple[Any, ...]]:
    return database.query(
        "select source.xmin::text, held.xmin::text, held.* from source left join source_schema held"
        " on source_id = source.id order by held.name"
    )


async def test_a_file_declares_schemas_and_the_second_time_nothing_is_written(
    database: ScratchDatabase, tmp_path: Path
) -> None:
    dry = await applied(database, tmp_path, PLAIN, dry_run=True)
    assert rows(database) == []
    first = await applied(database, tmp_path, PLAIN)
    written = rows(database)
    second = await applied(database, tmp_path, PLAIN)

    assert first == dry
    assert (first.action, first.changes) == ("added", {"schemas": ([], ["product@1.0.0"])})
    assert (second.action, rows(database)) == ("unchanged", written)


async def test_what_is_carried_becomes_what_the_file_says_and_what_was_learned_stays(
    database: ScratchDatabase, tmp_path: Path
) -> None:
    await applied(database, tmp_path, PLAIN)
    source = rows(database)[0][0]
    rich = await applied(database, tmp_path, SHOP + RICH)
    database.execute("""update source_schema set rules = rules || '{"name": {"at": "h1", "by": "model"}}'""")
    written = rows(database)
    again = await applied(database, tmp_path, SHOP + RICH)
    assert (rich.action, rich.changes) == ("changed", {"schemas": (["product@1.0.0"], ["article@1.0.0", AS_TOLD])})
    assert (again.action, rows(database), written[0][0]) == ("unchanged", written, source)

    more = await applied(database, tmp_path, SHOP + RICH.replace(".amount", ".price"))
    [(rules,)] = database.query("select rules from source_schema where name = 'product'")
    assert more.changes["schemas"][1][1]["rules"] == {"price": ".price | number"}
    assert {name: rule["by"] for name, rule in rules.items()} == {"price": "user", "name": "model"}


async def test_without_the_word_schemas_stay_and_an_empty_list_takes_them_away(
    database: ScratchDatabase, tmp_path: Path
) -> None:
    await applied(database, tmp_path, SHOP + RICH)
    silent = await applied(database, tmp_path, SHOP)
    assert (silent.action, len(rows(database))) == ("unchanged", 2)

    paused = await applied(database, tmp_path, SHOP + "schemas = []\nenabled = false\n")
    assert paused.action == "changed"
    assert paused.changes == {"schemas": (["article@1.0.0", AS_TOLD], []), "state": ("active", "paused")}
    assert database.query("select state, (select count(*) from source_schema) from source") == [("paused", 0)]


@pytest.mark.parametrize(
    ("said", "words", "error"),
    [
        ('schemas = "product@1"', "schemas must be a list", UsageError),
        ("schemas = [1]", "must be a text or a table", UsageError),
        ('schemas = ["product@1", "product@1.0.0"]', "'product' twice", UsageError),
        ('schemas = [{ schema = "product", wen = ["price<1"] }]', "no key 'wen'", UsageError),
        ('schemas = [{ schema = "product", when = "price<1" }]', "when of a schema must be a list", UsageError),
        ('schemas = [{ schema = "product", rules = { price = "[" } }]', "cannot be read", UsageError),
        ('schemas = [{ schema = "product", only_urls = [""] }]', "no pattern for URLs", UsageError),
        ('schemas = [{ when = ["price<1"] }]', "a schema needs its name", UsageError),
        ('schemas = ["../x"]', "../x", UsageError),
        ('schemas = ["lamp@7"]', "There is no schema lamp@7", UsageError),
        ('schemas = [{ schema = "product", when = ["prize<1"] }]', "has no field 'prize'", UsageError),
    ],
)
async def test_what_is_wrong_with_a_schema_is_told_and_nothing_is_written(
    database: ScratchDatabase, tmp_path: Path, said: str, words: str, error: type[Exception]
) -> None:
    with pytest.raises(error) as problem:
        await applied(database, tmp_path, f"{SHOP}{said}\n")
    assert words in str(problem.value)
    assert "Nothing was changed." in str(problem.value)
    assert rows(database) == []
