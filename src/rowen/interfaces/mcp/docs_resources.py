"""The resources that clients of a well-known documentation server read: libraries with their versions, and jobs."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import mcp_types as types

from rowen.errors import NotFoundError
from rowen.interfaces.mcp.docs_server import (
    JobArguments,
    LibraryList,
    ListJobsArguments,
    ListLibrariesArguments,
    job_told,
    jobs_listed,
    libraries_listed,
)
from rowen.interfaces.mcp.tool import ToolCall, ToolResult

__all__ = ["docs_resources", "docs_templates", "read_docs_resource"]

JSON = "application/json"
# Libraries come and jobs end at any time.
_LASTS_MS = 60_000
_LIBRARIES = ("docs://libraries", "libraries", "All libraries that are kept, with their versions.")
_VERSIONS = ("docs://libraries/{library}/versions", "versions", "The versions of one library that are kept.")
_JOBS = ("docs://jobs", "jobs", "What waits, runs or was done lately.")
_JOB = ("docs://jobs/{jobId}", "job", "One job.")
# A bigint has 19 digits; the tool takes no more than this either.
_DIGITS = 18
_SUCH = "Such as docs://libraries, docs://libraries/{library}/versions, docs://jobs or docs://jobs/{jobId}."


class LibraryVersions(ToolResult):
    """The versions of one library."""

    library: str
    versions: tuple[str, ...]


def docs_resources(*, jobs: bool) -> list[types.Resource]:
    """What there is to read; jobs are for those who may begin some."""
    shown = (_LIBRARIES, _JOBS) if jobs else (_LIBRARIES,)
    return [types.Resource(uri=uri, name=name, description=words, mime_type=JSON) for uri, name, words in shown]


def docs_templates(*, jobs: bool) -> list[types.ResourceTemplate]:
    """The addresses of single ones."""
    shown = (_VERSIONS, _JOB) if jobs else (_VERSIONS,)
    return [
        types.ResourceTemplate(uri_template=uri, name=name, description=words, mime_type=JSON)
        for uri, name, words in shown
    ]


async def read_docs_resource(call: ToolCall, uri: str, *, jobs: bool) -> types.ReadResourceResult:
    """One of them, as the tool of the same purpose tells it."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise NotFoundError(f"{uri!r} is no resource.", hint=_SUCH) from None
    path = [unquote(part) for part in parts.path.strip("/").split("/") if part]
    told = await _read(call, parts.netloc, path, jobs=jobs)
    if told is None:
        raise NotFoundError(f"{uri!r} is no resource.", hint=_SUCH)
    contents = types.TextResourceContents(uri=uri, mime_type=JSON, text=told.model_dump_json(by_alias=True))
    return types.ReadResourceResult(contents=[contents], ttl_ms=_LASTS_MS)


async def _read(call: ToolCall, room: str, path: list[str], *, jobs: bool) -> ToolResult | None:
    match room, path:
        case "libraries", []:
            return (await libraries_listed(call, ListLibrariesArguments())).result
        case "libraries", [library, "versions"]:
            return await _versions(call, library)
        case "jobs", [] if jobs:
            return (await jobs_listed(call, ListJobsArguments())).result
        case "jobs", [number] if jobs and number.isdecimal() and len(number) <= _DIGITS:
            return (await job_told(call, JobArguments(jobId=number))).result
    return None


async def _versions(call: ToolCall, library: str) -> LibraryVersions | None:
    listed = (await libraries_listed(call, ListLibrariesArguments())).result
    assert isinstance(listed, LibraryList)  # noqa: S101 (what that tool gives)
    found = next((one for one in listed.libraries if one.name.lower() == library.lower()), None)
    return None if found is None else LibraryVersions(library=found.name, versions=found.versions)
