"""Aggregators at the terminal: apply, sync of many, twins in get."""

import json
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.cli.conftest import Cli
from tests.portals.datajson import DataJsonSite

UUID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"


@pytest.fixture
def city() -> Iterator[DataJsonSite]:
    with closing(DataJsonSite()) as site:
        site.add(UUID, "Wells", issued="2020-01-01")
        yield site


@pytest.fixture
def nation() -> Iterator[DataJsonSite]:
    with closing(DataJsonSite()) as site:
        site.add(UUID, "Wells of the nation", issued="2021-01-01")
        yield site


@pytest.fixture
def portals(cli: Cli, city: DataJsonSite, nation: DataJsonSite) -> Cli:
    cli.environment |= {"ROWEN_ALLOW_ADDRESSES": "127.0.0.0/8", "ROWEN_HOST_DELAY_S": "0", "ROWEN_FETCH_TRIES": "1"}
    entry = '[[source]]\nname = "{}"\nurl = "{}"\nkind = "datajson"\n'
    cli.write({"portals.toml": entry.format("city", city.address) + entry.format("nation", nation.address)})
    return cli


def test_apply_prints_a_diff_and_then_nothing(portals: Cli, city: DataJsonSite) -> None:
    dry = portals("apply", "portals.toml", "--dry-run")
    first = portals("apply", "portals.toml")
    again = portals("apply", "portals.toml")
    facts = portals("apply", "portals.toml", "--json").facts

    assert dry.out == first.out
    assert f"city\tadded\tdatajson\t{city.address}" in first.out.splitlines()
    assert "Would be: 2 added. Nothing was written." in dry.err
    assert "2 added. Next: `rowen sync`." in first.err
    assert (again.code, again.out, again.err) == (0, "", "2 unchanged.\n")
    assert [(fact["source"], fact["deed"]) for fact in facts] == [("city", "unchanged"), ("nation", "unchanged")]


def test_apply_prints_each_changed_option(portals: Cli) -> None:
    portals("apply", "portals.toml")
    text = (portals.folder / "portals.toml").read_text()
    portals.write({"portals.toml": text.replace('"city"', '"city"\nlanguage = "de"\nevery = "1d"', 1)})

    done = portals("apply", "portals.toml")

    assert done.out == "city\tchanged\tlanguage: default → de, schedule: default → every 1d\n"


def test_a_wrong_file_gives_2_and_names_the_line(portals: Cli) -> None:
    portals.write({"portals.toml": '\n\n[[source]]\nname = "x"\nurl = "https://x.example"\nkind = "gopher"\n'})

    done = portals("apply", "portals.toml", "--json")

    assert done.code == 2
    assert "line 3, entry 1 (x): There is no kind 'gopher'." in done.error["error"]
    assert portals("apply", "missing.toml").code == 4


def test_sync_of_many_sources_prints_each_and_a_summary(portals: Cli, nation: DataJsonSite) -> None:
    portals("apply", "portals.toml")
    nation.down = True

    done = portals("sync")

    assert done.code == 1
    assert sorted(line.split()[0] for line in done.out.splitlines()) == ["city", "nation"]
    assert done.err.splitlines()[-1] == "2 sources: 1 completed, 1 failed; 1 created."


def test_get_names_the_other_portals_and_the_original(portals: Cli, city: DataJsonSite, nation: DataJsonSite) -> None:
    portals("apply", "portals.toml")
    portals("sync")
    copy = f"{nation.address}#/{UUID}"

    done, fact = portals("get", copy), json.loads(portals("get", copy, "--json").out)

    assert done.err == f"Also listed by city ({city.address}#/{UUID}). The original is that of city.\n"
    assert fact["original"] == f"{city.address}#/{UUID}"
    assert fact["also_listed_by"] == [{"source": "city", "url": f"{city.address}#/{UUID}"}]
