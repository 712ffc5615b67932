"""Vectors join the machine: after any harm a refreshed index has those of a rebuilt one, and each was paid for once."""

import asyncio
import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from rowen.harvest import embed as flow
from tests.conftest import House, Server
from tests.portals.embedder import Provider
from tests.portals.folder import Folder
from tests.refresh.machine import PROFILE, RefreshEqualsRebuild

BATCH = 2
LONG = "ROWEN_TEST_EXAMPLES" in os.environ


def vectors_of(house: House) -> dict[bytes, str]:
    """Text hash → vector of all passages."""
    rows = house.query("select distinct text_hash, vector::text from chunk left join embedding using (text_hash)")
    assert all(vector is not None for _, vector in rows)
    return dict(rows)


def filled(folder: Folder) -> Folder:
    """A folder with enough passages for many batches."""
    for number in range(16):
        (folder.root / f"field {number}.md").write_text(f"# Field {number}\n\nHere grows row {number}.\n")
    return folder


async def embed(house: House) -> None:
    async with house.open() as r:
        report = await r.embed()
        assert report is not None
        assert (report.pending, report.error) == (0, None)


class EmbeddedFolders(RefreshEqualsRebuild):
    """Folders whose passages a provider embeds, two at a time; it is down now and then."""

    provider: ClassVar[Provider]

    def __init__(self) -> None:
        super().__init__()
        self.harm = 0
        self.provider.received.clear()
        self.provider.down = False

    @rule(down=st.booleans())
    def the_provider_goes_or_comes(self, down: bool) -> None:
        self.provider.down = down

    @rule(statement=st.integers(20, 120), after=st.booleans())
    def a_run_is_killed(self, statement: int, after: bool) -> None:
        self.harm += 1
        super().a_run_is_killed(statement=statement, after=after)

    @rule(statement=st.integers(20, 110))
    def a_statement_fails(self, statement: int) -> None:
        self.harm += 1
        super().a_statement_fails(statement=statement)

    @precondition(lambda self: self.server.embedded is not None)
    @rule(statement=st.integers(20, 110))
    def the_database_is_killed(self, statement: int) -> None:
        self.harm += 1
        super().the_database_is_killed(statement=statement)

    def _refresh_equals_rebuild(self) -> None:
        self.provider.down = False
        self.world.heal()
        self._sync(accept_deletions=True, clean=True)
        asyncio.run(embed(self.house))
        paid_again = sum(self.provider.repeated().values()) - len(self.provider.repeated())
        assert paid_again <= self.harm * BATCH, (self.harm, self.provider.repeated())

        super()._refresh_equals_rebuild()
        rebuilt = self.last_house
        asyncio.run(embed(rebuilt))
        assert vectors_of(self.house) == vectors_of(rebuilt)


def test_refreshing_embeddings_equals_rebuilding_them_and_pays_once(
    server: Server, new_house: Callable[[], House], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = count()
    provider = Provider()
    machine = EmbeddedFolders
    machine.provider, machine.server = provider, server

    def remembered() -> House:
        machine.last_house = new_house()  # type: ignore[attr-defined]
        return machine.last_house  # type: ignore[attr-defined, no-any-return]

    machine.new_house = staticmethod(remembered)
    machine.new_world = staticmethod(lambda: filled(Folder(tmp_path / f"world {next(numbers)}")))
    for name, value in provider.settings.items():
        monkeypatch.setenv(f"ROWEN_{name.upper()}", value)
    monkeypatch.setenv("ROWEN_EMBEDDER_BATCH", str(BATCH))
    monkeypatch.setenv("ROWEN_EMBEDDER_CONCURRENCY", "1")
    monkeypatch.setattr(flow, "LONGEST_PAUSE_S", 0.01)
    try:
        run_state_machine_as_test(
            machine, settings=PROFILE if LONG else settings(PROFILE, max_examples=4, stateful_step_count=8)
        )
    finally:
        provider.close()
