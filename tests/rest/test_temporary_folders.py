"""What is written to a folder to be sent does not stay there, whatever becomes of the request."""

import gc
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ScratchDatabase
from tests.server.interfaces import Interface, interface

ANSWERS = [
    "/api/v1/sources/notes/statements/dump",
    "/api/v1/exports/jsonl",
    "/api/v1/exports/extractions/jsonl",
]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary folders are made; none is removed by collecting garbage."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    gc.disable()
    yield place
    gc.enable()


async def with_notes(it: Interface, folder: Path) -> None:
    folder.mkdir()
    (folder / "hay.md").write_text("# Hay")
    await it.rowen.sources.add(str(folder), name="notes")
    await it.rowen.sync("notes")


@pytest.mark.parametrize("path", ANSWERS)
@pytest.mark.parametrize("headers", [{}, {"Range": "bytes=x"}, {"Range": "bytes=900000-"}, {"If-None-Match": "*"}])
async def test_nothing_stays_of_what_was_sent(
    database: ScratchDatabase, tmp_path: Path, temporary: Path, path: str, headers: dict[str, str]
) -> None:
    async with interface(database) as it:
        await with_notes(it, tmp_path / "notes")
        answer = await it.http.get(path, headers=headers)

    assert answer.status_code in (200, 206, 400, 416)
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("path", ANSWERS)
async def test_nothing_stays_of_what_nobody_waited_for(
    database: ScratchDatabase, tmp_path: Path, temporary: Path, path: str
) -> None:
    async with interface(database) as it:
        await with_notes(it, tmp_path / "notes")
        host = (b"host", b"127.0.0.1")
        scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
        scope |= {"headers": [host], "client": ("127.0.0.1", 5000), "server": ("127.0.0.1", 8400), "scheme": "http"}
        scope |= {"http_version": "1.1", "root_path": "", "asgi": {"version": "3.0", "spec_version": "2.4"}}

        async def receive() -> dict[str, Any]:
            return {"type": "http.disconnect"}

        async def send(_: Any) -> None:
            raise OSError("the client is gone")

        with pytest.raises(Exception, match=r".*"):
            await it.interfaces.asgi(scope, receive, send)

    assert list(temporary.iterdir()) == []
