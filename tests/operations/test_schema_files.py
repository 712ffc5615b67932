"""Schemas that go and come: removed while nothing rests on them, and exchanged as folders of files."""

import json
from pathlib import Path
from typing import Any

import pytest

from rowen.errors import NotFoundError, RefusedError, UsageError
from tests.conftest import ScratchDatabase
from tests.harvest.shop import LAMP, market, stock

THEIRS = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "ProductPage",
    "type": "object",
    "properties": {"name": {"type": "string"}, "price": {"type": "string"}},
    "required": ["name", "price"],
}


async def test_a_version_that_nothing_rests_on_is_removed_and_the_one_before_is_the_latest_again(
    database: ScratchDatabase,
) -> None:
    async with database.open() as r:
        await r.schemas.add("lamp@1.9.0", LAMP)
        await r.schemas.add("lamp@1.10.0", {**LAMP, "required": []})

        removed = await r.schemas.remove("lamp@1.10.0")

        assert (removed.schema, removed.sources, removed.versions) == ("lamp@1.10.0", (), 0)
        assert (await r.schemas.get("lamp@latest")).version == "1.9.0"
        with pytest.raises(NotFoundError, match=r"no schema lamp@1\.10\.0"):
            await r.schemas.remove("lamp@1.10.0")
        with pytest.raises(RefusedError, match="comes with the program"):
            await r.schemas.remove("product@1.0.0")
        with pytest.raises(UsageError, match="no single version"):
            await r.schemas.remove("lamp@1")


async def test_a_version_in_use_is_removed_only_with_its_facts_and_the_next_version_reads_them_again_for_free(
    database: ScratchDatabase,
) -> None:
    with market(2) as (shop, model):
        async with database.open(**model.settings) as r:
            await stock(r, shop)
            await r.sync("shop")
            await r.schemas.add("lamp@1.1.0", LAMP | {"title": "Lamp"})
            await r.extraction.attach("shop", "lamp@1.1.0")
            await r.extraction.extract_source("shop")
            # The data did not change, so the versions in force still rest on the older schema.
            with pytest.raises(RefusedError, match=r"lamp@1\.0\.0 is in use: 2 versions of facts") as refused:
                await r.schemas.remove("lamp@1.0.0")
            with pytest.raises(RefusedError, match=r"'shop' carries it"):
                await r.schemas.remove("lamp@1.1.0")
            assert "--with-facts" in str(refused.value.hint)
            calls = model.calls

            removed = await r.schemas.remove("lamp@1.0.0", with_facts=True)
            gone = await r.extraction.list("lamp")
            await r.extraction.extract_source("shop")
            back = await r.extraction.list("lamp")
            await r.schemas.remove("lamp@1.1.0", with_facts=True)

            assert (removed.versions, removed.sources, len(gone)) == (2, (), 0)
            assert ([one.schema for one in back], model.calls) == (["lamp@1.1.0"] * 2, calls)
            assert await r.extraction.list_attached("shop") == []
            assert [one.ref for one in await r.schemas.list("lamp")] == []


def folder(root: Path, files: dict[str, Any]) -> Path:
    for name, value in files.items():
        path = root / "schemas" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value))
    return root / "schemas"


async def test_a_folder_of_another_program_comes_in_with_an_index_beside_it_and_goes_out_so(
    database: ScratchDatabase, tmp_path: Path
) -> None:
    theirs = folder(
        tmp_path,
        {
            "registry.json": {"product": "1.0.0", "lamp": "1.0.0"},
            "product/1.0.0.json": THEIRS,
            "lamp/1.0.0.json": LAMP,
            "lamp/1.1.0.json": LAMP | {"title": "Lamp"},
            "README.md": "What they are.",
        },
    )
    async with database.open() as r:
        added = await r.schemas.add_files(theirs, prefix="theirs_")
        again = await r.schemas.add_files(theirs, prefix="theirs_")
        assert [one.ref for one in added] == ["theirs_lamp@1.0.0", "theirs_lamp@1.1.0", "theirs_product@1.0.0"]
        assert len(again) == 3
        assert (await r.schemas.get("product")).bundled
        await r.schemas.export(tmp_path / "out", names=("theirs_lamp", "theirs_product"))

        await r.extraction.attach((await r.sources.add(str(tmp_path), name="docs")).name, "product@1.0.0")
        with pytest.raises(RefusedError, match=r"product@1\.0\.0 exists already"):
            await r.schemas.add_files(theirs)
        assert await r.schemas.list("lamp") == []

    index = json.loads((tmp_path / "out" / "registry.json").read_text())
    assert index == {"theirs_lamp": "1.1.0", "theirs_product": "1.0.0"}
    assert json.loads((tmp_path / "out" / "theirs_product" / "1.0.0.json").read_text()) == THEIRS


async def test_one_bad_file_of_a_folder_is_named_and_nothing_of_it_is_kept(
    database: ScratchDatabase, tmp_path: Path
) -> None:
    bad = folder(tmp_path, {"a/1.0.0.json": LAMP, "b/1.0.0.json": {"type": "array"}})
    async with database.open() as r:
        with pytest.raises(UsageError, match=r"b/1\.0\.0\.json: .* Nothing was added"):
            await r.schemas.add_files(bad)
        assert await r.schemas.list("a") == []
