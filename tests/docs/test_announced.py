"""The pages on announced documents and on what they state: their commands do what they say."""

import json
import shlex
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, cli  # noqa: F401 (a fixture)
from tests.docs.markdown import ROOT, blocks, steps
from tests.portals.council import CouncilSite, Paper
from tests.portals.triple_store import TripleStore


@pytest.fixture
def council() -> Iterator[CouncilSite]:
    with closing(CouncilSite()) as site:
        yield site


@pytest.fixture
def store() -> Iterator[TripleStore]:
    with closing(TripleStore()) as site:
        yield site


def commands(page: str, **addresses: str) -> Iterator[list[str]]:
    [block] = blocks(ROOT / "docs" / page, "console")
    for step in steps(block):
        command = step.command
        for told, real in addresses.items():
            command = command.replace(f"https://{told}.example", real)
        yield shlex.split(command)[1:]


def test_a_council_is_followed_and_handed_on_by_the_commands_of_both_pages(
    cli: Cli,  # noqa: F811
    council: CouncilSite,
    store: TripleStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    local = {"ROWEN_ALLOW_ADDRESSES": "127.0.0.0/8", "ROWEN_HOST_DELAY_S": "0", "ROWEN_PROBE": "false"}
    cli.environment |= {**local, "STORE_KEY": "hidden"}
    council.leaves["/feed"] = council.leaves.pop("/root")
    council.leaves["/root"] = council.leaves["/feed"]
    council.publish("/a", Paper("Cameras", "decision list"))
    council.publish("/b", Paper("Library", "agenda"))
    shown = []
    told = [*commands("announced.md", council=council.url), *commands("statements.md", store=store.url)]
    for words in told:
        done = cli(*words)
        assert done.code == 0, (words, done.err)
        shown.append(done.out)

    assert shown[4].count("stored") == 2
    assert "10 statements of 1 agenda, 1 decision list" in shown[5]
    assert len((tmp_path / "papers.nq").read_text().splitlines()) == 10
    [delta] = (tmp_path / "deltas").iterdir()
    assert [len(change["inserts"]) for change in json.loads(delta.read_text())] == [5, 5]
    assert (len(store.statements()), set(store.keys)) == (10, {"Bearer hidden"})
