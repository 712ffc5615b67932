"""Two portals harvested and exported, as tests of exports need them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rowen.model.items import Export
from rowen.publish.formats import Format
from tests.conftest import ScratchDatabase
from tests.portals.datajson import DataJsonSite

UUID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
ODD = 'Brunnen "Ost", = 水\u200f אבג 🌾'


async def harvest(database: ScratchDatabase, **portals: DataJsonSite) -> None:
    async with database.open() as rowen:
        for name, portal in portals.items():
            if name not in {source.name for source in await rowen.sources.list()}:
                await rowen.sources.add(portal.address, name=name, kind="datajson")
            assert (await rowen.sync(name, accept_deletions=True)).status == "completed"


async def exported(database: ScratchDatabase, to: Path, form: Format = "jsonl", **how: Any) -> Export:
    async with database.open() as rowen:
        return await rowen.export(form, to, now=NOON, **how)
