"""A cursor may be any JSON: what a connector cannot read of it is dropped, and the source is looked at as a whole."""

import json
import os
from collections.abc import Callable
from contextlib import closing
from random import Random
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from rowen import Rowen
from rowen.connectors.catalog.cursor import CatalogCursor
from rowen.connectors.packages import PyPI
from tests.conftest import ScratchDatabase
from tests.hostile.test_hostile_records import KINDS
from tests.logical import index_of
from tests.portals.github import Portal as GitHubPortal
from tests.portals.packages import PythonIndex
from tests.portals.site import Site
from tests.portals.stac import StaticStac

SEED = int(os.environ.get("ROWEN_FUZZ_SEED", "0"))
TRIES = 6 if float(os.environ.get("ROWEN_FUZZ_SECONDS", "0")) < 60 else 100
LEAVES: list[Any] = [
    *(None, True, False, 0, -1, 10**30, 1.5, -1e308, "", "x", "9999-12-31T23:59:59-23:59", "0000-00-00"),
    *([], {}, [[]], [None], ["x"], {"x": "x"}, {"": None}, [1, [2, [3]]], "http://[::1", "\u202e", "a" * 10_000),
]


def spoiled(cursor: Any, chance: Random) -> Any:
    """The cursor with another value in one place, or with a field more or less."""
    cursor = json.loads(json.dumps(cursor))
    spots = [spot for spot in _spots(cursor) if chance.random() < 0.9] or [(None, None)]
    within, name = chance.choice(spots)
    if within is None or chance.random() < 0.1:
        return chance.choice(LEAVES)
    if chance.random() < 0.1:
        del within[name]
    else:
        within[name] = chance.choice(LEAVES)
    if isinstance(cursor, dict) and chance.random() < 0.3:
        cursor["place"] = chance.choice([*LEAVES, {"after": 5}, {"set": "x", "token": 7}, {"url": 7}, ["x", 5]])
    return cursor


def _spots(value: Any) -> list[tuple[Any, Any]]:
    pairs = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    return [spot for name, inner in pairs for spot in ((value, name), *_spots(inner))]


def set_cursor(database: ScratchDatabase, cursor: Any) -> None:
    database.query("update source set cursor = %s returning id", Jsonb(cursor))


async def survives(r: Rowen, database: ScratchDatabase) -> None:
    """Whatever the cursor is, one more run at the latest leaves what a rebuild would leave."""
    clean = index_of(database)
    [(cursor,)] = database.query("select cursor from source")
    assert cursor is not None
    chance = Random(SEED)
    for number in range(TRIES + len(LEAVES[:4])):
        odd = LEAVES[number] if number < len(LEAVES[:4]) else spoiled(cursor, chance)
        set_cursor(database, odd)
        first = await r.sync("source")
        second = await r.sync("source") if first.status != "completed" else first

        said = f"{json.dumps(odd)[:2000]}, seed {SEED}: {first.error}"
        assert "connector of kind" not in (first.error or ""), said
        assert second.status == "completed", said
        assert index_of(database) == clean, said


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("sitemap", "github")])
async def test_a_portal_is_harvested_whatever_its_cursor_is(database: ScratchDatabase, kind: str) -> None:
    with closing(KINDS[kind].portal()) as portal:
        KINDS[kind].fill(portal)
        async with database.open() as r:
            await r.sources.add(portal.address, name="source")
            await r.sync("source")
            await survives(r, database)


def _site() -> Site:
    site = Site()
    site.grow(7)
    return site


def _tree() -> StaticStac:
    tree = StaticStac()
    tree.grow(4)
    return tree


WORLDS: dict[str, tuple[Callable[[], Any], str, dict[str, Any]]] = {
    "web": (_site, "url", {"robots": False}),
    "static stac": (_tree, "address", {}),
}


@pytest.mark.parametrize("kind", WORLDS)
async def test_a_site_is_walked_whatever_its_cursor_is(database: ScratchDatabase, kind: str) -> None:
    make, address, options = WORLDS[kind]
    with closing(make()) as world:
        async with database.open() as r:
            await r.sources.add(getattr(world, address), name="source", options=options)
            await r.sync("source")
            await survives(r, database)


async def test_a_repository_on_github_is_read_whatever_its_cursor_is(database: ScratchDatabase) -> None:
    with closing(GitHubPortal()) as portal:
        portal.repository.put("README.md", b"# Hay\n\nDry grass.")
        portal.repository.issues.append({"number": 1, "title": "Wet hay", "body": "It rained."})
        async with database.open() as r:
            options = {"api_url": f"{portal.web}/api/v3", "issues": True, "delay_s": 0}
            await r.sources.add(portal.address, name="source", options=options)
            await r.sync("source")
            await survives(r, database)


async def test_a_package_is_read_whatever_its_cursor_is(
    database: ScratchDatabase, kinds: Callable[[Any], None]
) -> None:
    kinds(PyPI)
    with closing(PythonIndex()) as index:
        index.publish("hay", "1.0", description="Dry grass.", project_urls={"Documentation": f"{index.url}/docs/"})
        index.put("/docs/", "Docs", "How to make hay.")
        async with database.open() as r:
            await r.sources.add("pypi:hay", name="source", options={"registry": index.url, "robots": False})
            await r.sync("source")
            await survives(r, database)


async def test_a_connector_that_fails_over_its_cursor_does_not_fail_for_ever(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = CatalogCursor.of

    def of(cls: Any, cursor: Any, version: int) -> CatalogCursor:
        return real(cursor, version) if cursor is None else 1 / 0  # type: ignore[return-value]

    monkeypatch.setattr(CatalogCursor, "of", classmethod(of))
    kind = KINDS["ckan"]
    with closing(kind.portal()) as portal:
        kind.fill(portal)
        async with database.open() as r:
            await r.sources.add(portal.address, name="source")
            runs = [await r.sync("source") for _ in range(3)]

    assert [run.status for run in runs] == ["completed", "failed", "completed"]
    assert "reads the source from its beginning" in (runs[1].error or "")
