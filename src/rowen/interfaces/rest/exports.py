"""Exports: items as JSON or CSV, sent while they are read, or a whole snapshot in a tar archive."""

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta
from starlette.responses import Response, StreamingResponse

from rowen.interfaces.rest.answers import TemporaryFolder
from rowen.interfaces.rest.derived import CostlyRoute, RouteCall, RouteGroup, custom
from rowen.interfaces.rest.shapes import Responses
from rowen.model.datasets import check_record_kinds

router = RouteGroup(tags=["exports"], route_class=CostlyRoute)

# Large enough to save disk accesses, small enough for many concurrent downloads.
_PIECE_BYTES = 256 * 1024
_BLOCK = tarfile.BLOCKSIZE

_EXAMPLE = '{"source": "guide", "title": "Haymaking"}'
_LINES: Responses = {
    200: {
        "content": {
            "application/jsonl": {"example": f"{_EXAMPLE}\n"},
            "application/json": {"example": [{"source": "guide", "title": "Haymaking"}]},
            "text/csv": {"example": "source,title\r\nguide,Haymaking\r\n"},
        }
    }
}
_MEDIA_TYPES = {"jsonl": "application/jsonl", "json": "application/json", "csv": "text/csv; charset=utf-8"}
_TAR: Responses = {200: {"content": {"application/x-tar": {"schema": {"type": "string", "format": "binary"}}}}}


@router.derive("GET /exports/items.{form}", "exports.stream", answer=custom(_LINES), without=("excel",))
async def export_lines(call: RouteCall) -> Response:
    """Return items as JSON lines, one JSON array or CSV, of one moment, sent while they are read."""
    for name in call.arguments.get("sources", ()):
        await call.rowen.sources.get(name, counted=False)
    check_record_kinds(call.arguments.get("record_kinds", ()))
    pieces = call.rowen.exports.stream(**call.arguments)
    return StreamingResponse(pieces, media_type=_MEDIA_TYPES[call.arguments["form"]])


_FactsForm = Annotated[Literal["jsonl", "csv", "parquet"], Meta(description="Format of the files.")]


@router.derive(
    "GET /exports/extractions/{form}",
    "exports.export_extractions",
    answer=custom(_TAR),
    without=("form",),
    adds={"form": (_FactsForm, ...)},
)
async def export_extractions(call: RouteCall) -> Response:
    """Return the extracted facts in force as a tar archive, with a file for each schema."""
    form = call.added["form"]
    name = f"rowen-facts-{form}"
    with TemporaryFolder("export") as folder:
        await call.rowen.exports.export_extractions(form, folder.path / name, **call.arguments)
        return _packed(folder, name)


@router.derive("GET /exports/{form}", "exports.export", answer=custom(_TAR))
async def export_snapshot(call: RouteCall) -> Response:
    """Return a snapshot of all items as a tar archive: the files of `rowen export`, with manifest and report.

    It is written before it is sent: the first byte of a large one takes its time.
    """
    name = f"rowen-{call.arguments['form']}"
    with TemporaryFolder("export") as folder:
        await call.rowen.export(to=folder.path / name, **call.arguments)
        return _packed(folder, name)


def _packed(folder: TemporaryFolder, name: str) -> Response:
    """Return the response with a folder as an archive; the folder is inside a temporary folder."""
    headers = {"Content-Disposition": f'attachment; filename="{name}.tar"'}
    return folder.sent_as(
        StreamingResponse(packed(folder.path / name), media_type="application/x-tar", headers=headers)
    )


def packed(folder: Path) -> Iterator[bytes]:
    """Yield a folder as a tar archive in pieces."""
    for path in sorted(folder.iterdir()):
        info = tarfile.TarInfo(f"{folder.name}/{path.name}")
        facts = path.stat()
        info.size, info.mtime = facts.st_size, int(facts.st_mtime)
        yield info.tobuf(tarfile.PAX_FORMAT)
        with path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                yield piece
        yield b"\0" * (-facts.st_size % _BLOCK)
    yield b"\0" * (2 * _BLOCK)
