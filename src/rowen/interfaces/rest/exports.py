"""Exports: items as they are read, as JSON or CSV; or a whole snapshot, in a tar archive."""

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi import Path as InPath
from starlette.responses import Response, StreamingResponse

from rowen.interfaces.rest.access import Service, takes
from rowen.interfaces.rest.costly import CostlyRoute
from rowen.interfaces.rest.examples import Responses
from rowen.interfaces.rest.temporary import TemporaryFolder
from rowen.model.datasets import RECORD_KINDS, check_record_kinds

__all__ = ["router"]

router = APIRouter(tags=["exports"], route_class=CostlyRoute)

# Large enough that the disk is not asked for every packet, small enough for many at once.
_PIECE_BYTES = 256 * 1024
_BLOCK = tarfile.BLOCKSIZE

Only = Annotated[tuple[str, ...], Query(description="only these sources")]
OfKind = Annotated[
    tuple[str, ...], Query(description=f"only records of catalogs that describe one of: {', '.join(RECORD_KINDS)}")
]
Most = Annotated[int | None, Query(ge=1, le=2**62, description="at most so many items")]
Form = Annotated[Literal["parquet", "jsonl", "json", "csv", "sqlite"], InPath(description="the format of the files")]
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


@router.get("/exports/items.{form}", response_class=Response, responses=_LINES, dependencies=takes("exports.stream"))
async def export_lines(
    form: Annotated[Literal["jsonl", "json", "csv"], InPath(description="JSON lines, one JSON array, or CSV")],
    rowen: Service,
    source: Only = (),
    limit: Most = None,
    record_kind: OfKind = (),
) -> Response:
    """Items as JSON lines, as one JSON array or as CSV, of one moment, sent while they are read."""
    for name in source:
        await rowen.sources.get(name, counted=False)
    check_record_kinds(record_kind)
    pieces = rowen.exports.stream(form=form, sources=source, limit=limit, record_kinds=record_kind)
    return StreamingResponse(pieces, media_type=_MEDIA_TYPES[form])


@router.get(
    "/exports/extractions/{form}",
    response_class=Response,
    responses=_TAR,
    dependencies=takes("exports.export_extractions"),
)
async def export_extractions(
    form: Annotated[Literal["jsonl", "csv", "parquet"], InPath(description="the format of the files")],
    rowen: Service,
    source: Only = (),
    schema: Annotated[str | None, Query(description="only as this schema")] = None,
    excel: Annotated[bool, Query(description="CSV that spreadsheets read rightly")] = False,
) -> Response:
    """The facts in force as a tar archive, a file for each schema."""
    name = f"rowen-facts-{form}"
    with TemporaryFolder("export") as folder:
        await rowen.exports.export_extractions(form, folder.path / name, schema=schema, sources=source, excel=excel)
        return _packed(folder, name)


@router.get("/exports/{form}", response_class=Response, responses=_TAR, dependencies=takes("exports.export"))
async def export_snapshot(
    form: Form,
    rowen: Service,
    source: Only = (),
    excel: Annotated[bool, Query(description="CSV that spreadsheets read rightly")] = False,
    withdrawn: Annotated[bool, Query(description="also the last copies of deleted items")] = False,
    joint: Annotated[bool, Query(description="Parquet: also one file of all sources")] = False,
    since: Annotated[int | None, Query(ge=0, description="also what changed after this change number")] = None,
    limit: Most = None,
    record_kind: OfKind = (),
) -> Response:
    """A snapshot of all items as a tar archive: the files of `rowen export`, with manifest, coverage and report.

    It is written before it is sent: the first byte of a large one takes its time.
    """
    name = f"rowen-{form}"
    with TemporaryFolder("export") as folder:
        await rowen.export(
            form,
            folder.path / name,
            sources=source,
            excel=excel,
            withdrawn=withdrawn,
            joint=joint,
            since=since,
            limit=limit,
            record_kinds=record_kind,
        )
        return _packed(folder, name)


def _packed(folder: TemporaryFolder, name: str) -> Response:
    """A folder within a temporary one as an answer."""
    headers = {"Content-Disposition": f'attachment; filename="{name}.tar"'}
    return folder.sent_as(
        StreamingResponse(packed(folder.path / name), media_type="application/x-tar", headers=headers)
    )


def packed(folder: Path) -> Iterator[bytes]:
    """A folder as a tar archive, piece by piece."""
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
