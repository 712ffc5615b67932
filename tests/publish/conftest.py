"""Two portals that list one dataset twice, and a place for exports."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.portals.datajson import DataJsonSite
from tests.publish.snapshots import ODD, UUID


@pytest.fixture
def city() -> Iterator[DataJsonSite]:
    with closing(DataJsonSite()) as site:
        site.add(
            UUID, "Wells", issued="2020-01-01", license="CC0", spatial="Here", landingPage="https://city.example/w"
        )
        site.add("odd", ODD, description=f"=1+1\nZweite Zeile, {ODD}", keyword=["a;b", "ä"], distribution=[])
        yield site


@pytest.fixture
def nation() -> Iterator[DataJsonSite]:
    with closing(DataJsonSite()) as site:
        site.add(UUID, "Wells of the nation", issued="2021-01-01", temporal="2001/2002")
        yield site


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "exports"
