"""rowen demo: offline, in a place of its own, gone without a trace."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowen.interfaces.cli.commands.demo import side_by_side
from rowen.interfaces.cli.demo_farm import CHANGES, demo_world, lay_out, next_day
from rowen.model.runs import RunStats
from tests.cli.conftest import Cli
from tests.conftest import ScratchDatabase


@pytest.fixture
def somewhere() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="rowen-cli-") as folder:
        Path(folder).chmod(0o755)
        yield folder


def test_the_demo_compares_run_statistics_and_leaves_nothing(somewhere: str) -> None:
    done = Cli(Path(somewhere), {})("demo", TMPDIR=somewhere)

    assert done.code == 0, done.err
    folder, _, rest = done.out.partition("\n5. ")
    site, _, portal = rest.partition("\n6. ")
    rows = _rows(folder)
    assert rows["created"] == ["14", "2", "–"]
    assert rows["updated"] == ["–", "1", "–"]
    assert rows["deleted"] == ["–", "2", "–"]
    assert rows["unchanged"] == ["–", "11", "14"]
    assert rows["avoided: files not parsed"] == ["–", "11", "–"]
    assert rows["avoided: files not opened"] == ["–", "–", "14"]
    assert _rows(site)["unchanged"] == ["–", "5", "8"]
    assert _rows(site)["avoided: pages not stored"] == ["–", "5", "–"]
    counts = {name: _rows(portal, width=20)[name] for name in ("created", "updated", "amended", "deleted", "requests")}
    assert counts == {
        "created": ["48", "1", "–"],
        "updated": ["–", "1", "–"],
        "amended": ["–", "1", "–"],
        "deleted": ["–", "1", "–"],
        "requests": ["4", "4", "2"],
    }
    assert "The nine hens" in done.out
    assert "Bartleby" in done.out
    assert "rowen sync ./folder" in done.out
    assert "\x1b" not in done.out
    assert list(Path(somewhere).iterdir()) == []


def _rows(told: str, *, width: int = 30) -> dict[str, list[str]]:
    return {line[:width].strip(): line[width:].split() for line in told.splitlines() if line.startswith("   ")}


def test_the_demo_leaves_the_database_of_the_settings_alone(somewhere: str, database: ScratchDatabase) -> None:
    cli = Cli(Path(somewhere), {"ROWEN_DATABASE_URL": database.conninfo})

    done = cli("demo", "--json", TMPDIR=somewhere)

    assert done.code == 0, done.err
    assert [fact["run"] for fact in done.facts if "status" in fact] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert database.query("select count(*) from source") == [(0,)]


def test_the_next_day_makes_the_announced_changes(tmp_path: Path) -> None:
    field = tmp_path / "field"
    lay_out(field)
    before = {path: path.read_bytes() for path in field.rglob("*") if path.is_file()}

    next_day(field)

    after = {path: path.read_bytes() for path in field.rglob("*") if path.is_file()}
    assert len(CHANGES) == 5
    assert {path.name for path in after.keys() - before.keys()} == {"the-goat-incidents.txt", "treaty.md"}
    assert {path.name for path in before.keys() - after.keys()} == {"the-goat-incident.txt", "plum-chutney.md"}
    assert [path.name for path in before.keys() & after.keys() if before[path] != after[path]] == ["hens.md"]


def test_counts_that_did_not_occur_have_no_line() -> None:
    lines = side_by_side([RunStats(created=2, bytes=1500, seconds=0.2), RunStats(unchanged=2, seconds=0.1)], ("a", "b"))

    labels = [line[0][0].strip() for line in lines]
    assert labels == ["", "created", "unchanged", "read", "time"]


async def test_the_demo_world_is_read_changed_read_again_and_searchable(
    database: ScratchDatabase, tmp_path: Path
) -> None:
    async with database.open(host_delay_s=0.0) as r, demo_world(r, tmp_path / "hill"):
        kinds = {change.kind for change in await r.changes()}
        sources = {source.name: source.items for source in await r.sources.list()}
        again = await r.sync("shop")

    assert {"created", "updated", "amended", "deleted"} <= kinds
    assert sources.keys() == {"farm", "shop", "valley"}
    assert all(sources.values())
    assert (again.status, again.stats.rows_written) == ("completed", 0)
