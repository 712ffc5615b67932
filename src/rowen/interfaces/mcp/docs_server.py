"""The tools and resources of a well-known documentation server, under the same names, on Rowen's sources.

A library is identified by the names of its sources without a version: a package, or a name `library@version`.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

import mcp_types as types
from msgspec import Meta
from pydantic import Field

from rowen.errors import NotFoundError, RefusedError, UsageError
from rowen.interfaces.mcp.answers import DEFAULT_TOKENS, Quotes, cut, tokens
from rowen.interfaces.mcp.tool import ToolAnswer, ToolCall, ToolResult, ToolSpec, arguments_of, at_most
from rowen.interfaces.mcp.tools.items import SearchAnswer, search_items
from rowen.interfaces.mcp.tools.sources import (
    RemovedSource,
    SyncAnswer,
    VersionAnswer,
    find_version,
    remove_source,
    sync_soon,
)
from rowen.model.wording import inline, moment
from rowen.operations.parameters import SearchWords

if TYPE_CHECKING:
    from rowen.model.queue import Job
    from rowen.model.sources import Source

# The length of an API reference page; a longer page can be added as a source and then read in parts.
_PAGE_TOKENS = 10_000
JSON = "application/json"
# Libraries may be added and jobs may end at any time.
_LASTS_MS = 60_000
_LIBRARIES = ("docs://libraries", "libraries", "All libraries that are kept, with their versions.")
_VERSIONS = ("docs://libraries/{library}/versions", "versions", "The versions of one library that are kept.")
_JOBS = ("docs://jobs", "jobs", "What waits, runs or was done lately.")
_JOB = ("docs://jobs/{jobId}", "job", "One job.")
# A bigint has 19 digits; the imitated tool has the same limit.
_DIGITS = 18
_SUCH = "Such as docs://libraries, docs://libraries/{library}/versions, docs://jobs or docs://jobs/{jobId}."
_STATES = {"queued": "waiting", "running": "running", "completed": "done", "failed": "failed", "cancelled": "cancelled"}


async def search_docs(call: ToolCall, *, library: str, version: str | None, words: str, limit: int) -> ToolAnswer:
    """Search one library in the best version that matches."""
    names = await _sources_of(call, library, version)
    return await search_items(call, words=words, sources=names, limit=limit)


async def _sources_of(call: ToolCall, library: str, version: str | None) -> list[str]:
    """Return the source of the version, or of the highest version below it.

    Without a requested version, return all sources of the library if none of them has a version.
    """
    best = await call.rowen.sources.find_version(library, version)
    if best.source is None and version:
        best = await call.rowen.sources.find_version(library, f"<={version}")
    if best.source is not None:
        return [best.source]
    if best.unversioned and not version:
        return list(best.unversioned)
    have = ", ".join(best.available) or "none with a version"
    raise NotFoundError(f"Version {version!r} of {library!r} is not kept.", hint=f"Kept versions: {have}.")


class LibraryEntry(ToolResult):
    """One library."""

    name: str
    versions: tuple[str, ...] = ()
    items: int = 0
    checked_at: datetime | None = None


class LibraryList(ToolResult):
    """The result of `list_libraries`."""

    libraries: list[LibraryEntry]


async def list_libraries(call: ToolCall) -> ToolAnswer:
    """List all libraries with their versions."""
    by_library: dict[str, list[Source]] = defaultdict(list)
    for source in await call.rowen.sources.list():
        by_library[source.library].append(source)
    libraries = [
        LibraryEntry(
            name=name,
            versions=[source.release for source in sources if source.release],
            items=sum(source.items for source in sources),
            checked_at=max((source.last_run_at for source in sources if source.last_run_at), default=None),
        )
        for name, sources in sorted(by_library.items())
    ]
    lines = []
    for library in libraries:
        versions = f" ({inline(', '.join(library.versions))})" if library.versions else ""
        lines.append(f"- {inline(library.name)}{versions}: checked {moment(library.checked_at)}")
    return ToolAnswer("\n".join(lines) or "No libraries are kept yet.", LibraryList(libraries=libraries))


class PageNow(ToolResult):
    """The result of `fetch_url`."""

    url: str
    title: str
    text: str = Field(description="The text as Markdown, quoted.")
    truncated: bool = False


async def fetch_url(call: ToolCall, *, address: str, follow_redirects: bool) -> ToolAnswer:
    """Fetch a page now and return it, without storing it."""
    page = await call.rowen.extraction.read_page(address, reach=call.reach)
    if not follow_redirects and page.url != address:
        raise RefusedError(f"{address} redirects to {page.url}.", hint="followRedirects=true reads it.")
    text = cut(page.text, _PAGE_TOKENS)
    quotes = Quotes([text])
    head = f"# {inline(page.title or page.url)}\n{quotes.cite(page.url, f'read {moment(call.now)}')}"
    markdown = "\n\n".join([quotes.preamble, head, quotes.quote(text)])
    return ToolAnswer(markdown, PageNow.of(page, text=text, truncated=len(text) < len(page.text)))


async def scrape_docs(
    call: ToolCall,
    *,
    address: str,
    library: str,
    version: str | None,
    max_pages: int | None,
    max_depth: int | None,
    scope: str,
    follow_redirects: bool,
    preserve_hashes: bool,
) -> ToolAnswer:
    """Add the documentation of a library and read it; if it exists, refresh it."""
    if not follow_redirects:
        raise UsageError("Redirects are always followed; nothing was added.", hint="Leave followRedirects out.")
    name = f"{library}@{version}" if version else library
    try:
        source = await call.rowen.sources.get(name)
    except NotFoundError:
        options: dict[str, Any] = {
            "max_pages": max_pages,
            "max_depth": max_depth,
            "scope": "host" if scope == "hostname" else scope,
            "hash_routes": preserve_hashes or None,
        }
        options = {option: value for option, value in options.items() if value is not None}
        source = await call.rowen.sources.add(address, name=name, kind="web", options=options, reach=call.reach)
    return await sync_soon(call, source.name, full=False, wait_s=0)


async def refresh_version(call: ToolCall, *, library: str, version: str | None) -> ToolAnswer:
    """Refresh one version of a library."""
    return await sync_soon(call, await _exact(call, library, version), full=False, wait_s=0)


async def remove_docs(call: ToolCall, *, library: str, version: str | None) -> ToolAnswer:
    """Remove one version of a library."""
    source = await call.rowen.sources.get(await _exact(call, library, version))
    return await remove_source(call, name=source.name, items=source.items)


async def _exact(call: ToolCall, library: str, version: str | None) -> str:
    """Return the source of exactly this version."""
    name = library.lower()
    sources = [
        source for source in await call.rowen.sources.list() if name in (source.library.lower(), source.name.lower())
    ]
    exact = [source.name for source in sources if source.release == version]
    if not exact and not version:
        exact = [source.name for source in sources]
    if len(exact) != 1:
        have = ", ".join(source.release or "none" for source in sources) or "none"
        raise NotFoundError(f"{library!r} has no version {version!r}.", hint=f"Kept versions: {have}.")
    return exact[0]


class JobEntry(ToolResult):
    """One job."""

    id: str
    status: str
    library: str | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error: str | None = None


class JobList(ToolResult):
    """The result of the tools for jobs."""

    jobs: list[JobEntry]


async def list_jobs(call: ToolCall, *, status: str | None = None) -> ToolAnswer:
    """Return the last jobs."""
    state = _STATES.get(status) if status else None
    if status and state is None:
        return _jobs()
    return _jobs(*await call.rowen.queue.list(state=state))  # type: ignore[arg-type]


async def get_job(call: ToolCall, *, job_id: str) -> ToolAnswer:
    """Return one job."""
    return _jobs(await call.rowen.queue.get(int(job_id)))


async def cancel_job(call: ToolCall, *, job_id: str) -> ToolAnswer:
    """Cancel a job, whether it waits or runs."""
    return _jobs(await call.rowen.queue.cancel(int(job_id)))


def _jobs(*jobs: Job) -> ToolAnswer:
    names = {ours: theirs for theirs, ours in reversed(_STATES.items())}
    entries = [
        JobEntry.of(
            job,
            id=str(job.id),
            status=names.get(job.state, job.state),
            library=job.source,
            created_at=job.queued_at,
            finished_at=job.ended_at,
        )
        for job in jobs
    ]
    lines = []
    for entry in entries:
        error = f": {inline(entry.error)}" if entry.error else ""
        lines.append(
            f"- {entry.id} {entry.status} {inline(entry.library or '')} since {moment(entry.created_at)}{error}"
        )
    while len(lines) > 1 and tokens("\n".join(lines)) > DEFAULT_TOKENS:
        lines.pop()
    return ToolAnswer("\n".join(lines) or "No jobs.", JobList(jobs=entries[: len(lines)]))


_LIBRARY = Annotated[str, Meta(description="Library name.")]
_LIBRARY_VERSION = arguments_of(
    None,
    library=_LIBRARY,
    version=(Annotated[str | None, Meta(description="Library version; without it, the one that has none.")], None),
)
_JOB_ID = arguments_of(
    None,
    rename={"job_id": "jobId"},
    job_id=Annotated[str, Meta(description="The number of the job.", pattern=r"^\d{1,18}$")],
)
_STATUS: TypeAlias = Literal["queued", "running", "completed", "failed", "cancelling", "cancelled"]

# The imitated server offers its jobs only if writes are allowed.
_WRITES = {"writes": True, "goes_out": True}

DOCS_SERVER_TOOLS: tuple[ToolSpec, ...] = (
    ToolSpec(
        "search_docs",
        "Search the documentation of a library",
        "Use this to search the kept documentation of a library, in a version or range: {library: 'react', version:"
        " '18.x', query: 'effects'}. Without a version the highest is searched. Cite the URLs.",
        arguments_of(
            "sources.find_version",
            words=Annotated[SearchWords, Meta(description="What to look for in the documentation.")],
            limit=(at_most(50), 5),
            rename={"words": "query"},
        ),
        SearchAnswer,
        search_docs,
        ("sources.find_version", "items.search", "items.last_checked"),
    ),
    ToolSpec(
        "list_libraries",
        "List libraries",
        "Use this to learn which libraries are kept, in which versions, and how fresh they are.",
        arguments_of(None),
        LibraryList,
        list_libraries,
        ("sources.list",),
    ),
    ToolSpec(
        "find_version",
        "Find the right version",
        "Use this to find the kept version of a library that fits best.",
        arguments_of("sources.find_version", rename={"version": "targetVersion"}),
        VersionAnswer,
        find_version,
        ("sources.find_version",),
    ),
    ToolSpec(
        "fetch_url",
        "Read a page now",
        "Use this to read any web page as Markdown, as it is now. Nothing is kept.",
        arguments_of(
            None,
            rename={"address": "url", "follow_redirects": "followRedirects"},
            address=Annotated[str, Meta(description="The page to read as Markdown.")],
            follow_redirects=(Annotated[bool, Meta(description="Follow redirects.")], True),
        ),
        PageNow,
        fetch_url,
        ("extraction.read_page",),
        goes_out=True,
    ),
    ToolSpec(
        "scrape_docs",
        "Keep documentation",
        "Use this to keep the documentation of a library, and read it. It goes on after the answer.",
        arguments_of(
            None,
            rename={
                "address": "url",
                "max_pages": "maxPages",
                "max_depth": "maxDepth",
                "follow_redirects": "followRedirects",
                "preserve_hashes": "preserveHashes",
            },
            address=Annotated[str, Meta(description="Where the documentation begins.")],
            library=_LIBRARY,
            version=(Annotated[str | None, Meta(description="Library version; optional.")], None),
            max_pages=(Annotated[int, Meta(ge=1, description="Maximum number of pages.")] | None, None),
            max_depth=(Annotated[int, Meta(ge=0, description="Maximum number of links from the start.")] | None, None),
            scope=(
                Annotated[Literal["subpages", "hostname", "domain"], Meta(description="Which pages belong to it.")],
                "subpages",
            ),
            follow_redirects=(Annotated[bool, Meta(description="Always true here.")], True),
            preserve_hashes=(Annotated[bool, Meta(description="Treat #/path as a page of its own.")], False),
        ),
        SyncAnswer,
        scrape_docs,
        ("sources.add", "queue.enqueue", "runs.sync"),
        changes_sources=True,
        **_WRITES,
    ),
    ToolSpec(
        "refresh_version",
        "Refresh documentation",
        "Use this to bring a kept version up to date; only what changed is read.",
        _LIBRARY_VERSION,
        SyncAnswer,
        refresh_version,
        ("queue.enqueue", "runs.sync"),
        **_WRITES,
    ),
    ToolSpec(
        "list_jobs",
        "List jobs",
        "Use this to see what waits or was done.",
        arguments_of(None, status=(Annotated[_STATUS | None, Meta(description="Only jobs with this status.")], None)),
        JobList,
        list_jobs,
        ("queue.list",),
        writes=True,
    ),
    ToolSpec(
        "get_job_info",
        "Look at a job",
        "Use this to see how a job is doing.",
        _JOB_ID,
        JobList,
        get_job,
        ("queue.get",),
        writes=True,
    ),
    ToolSpec(
        "cancel_job",
        "Cancel a job",
        "Use this to take a job out of the queue, or to end it early.",
        _JOB_ID,
        JobList,
        cancel_job,
        ("queue.cancel",),
        writes=True,
    ),
    ToolSpec(
        "remove_docs",
        "Forget documentation",
        "Use this only when the user asked for it: it forgets a version of a library.",
        _LIBRARY_VERSION,
        RemovedSource,
        remove_docs,
        ("sources.remove",),
        writes=True,
        changes_sources=True,
        destroys=True,
        repeatable=False,
    ),
)


class LibraryVersions(ToolResult):
    """The versions of one library."""

    library: str
    versions: tuple[str, ...]


def docs_resources(*, jobs: bool) -> list[types.Resource]:
    """Return the lists that callers can read; `jobs` says whether jobs are included."""
    lists = (_LIBRARIES, _JOBS) if jobs else (_LIBRARIES,)
    return [types.Resource(uri=uri, name=name, description=words, mime_type=JSON) for uri, name, words in lists]


def docs_templates(*, jobs: bool) -> list[types.ResourceTemplate]:
    """Return the templates for the addresses of single libraries and, with `jobs`, of single jobs."""
    templates = (_VERSIONS, _JOB) if jobs else (_VERSIONS,)
    return [
        types.ResourceTemplate(uri_template=uri, name=name, description=words, mime_type=JSON)
        for uri, name, words in templates
    ]


async def read_docs_resource(call: ToolCall, uri: str, *, jobs: bool) -> types.ReadResourceResult:
    """Return a resource; its content is the result of the corresponding tool."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise NotFoundError(f"{uri!r} is no resource.", hint=_SUCH) from None
    result: ToolResult | None = None
    match parts.netloc, [unquote(part) for part in parts.path.strip("/").split("/") if part]:
        case "libraries", []:
            result = (await list_libraries(call)).result
        case "libraries", [name, "versions"]:
            listed = (await list_libraries(call)).result
            assert isinstance(listed, LibraryList)  # noqa: S101 (what that tool gives)
            named = (library for library in listed.libraries if library.name.lower() == name.lower())
            if (library := next(named, None)) is not None:
                result = LibraryVersions(library=library.name, versions=library.versions)
        case "jobs", [] if jobs:
            result = (await list_jobs(call)).result
        case "jobs", [number] if jobs and number.isdecimal() and len(number) <= _DIGITS:
            result = (await get_job(call, job_id=number)).result
    if result is None:
        raise NotFoundError(f"{uri!r} is no resource.", hint=_SUCH)
    contents = types.TextResourceContents(uri=uri, mime_type=JSON, text=result.model_dump_json(by_alias=True))
    return types.ReadResourceResult(contents=[contents], ttl_ms=_LASTS_MS)
