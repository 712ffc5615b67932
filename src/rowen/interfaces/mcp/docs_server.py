"""The names and arguments that users of a well-known documentation server have in their prompts, over the same copies.

A library is what its sources are called without a version: a package, or a name of the form `library@version`.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from rowen.errors import NotFoundError, RefusedError, UsageError
from rowen.interfaces.mcp.budget import DEFAULT_TOKENS, cut, tokens
from rowen.interfaces.mcp.tool import Arguments, ToolAnswer, ToolCall, ToolResult, ToolSpec
from rowen.interfaces.mcp.tools.finding import SearchAnswer, SearchArguments, found_in
from rowen.interfaces.mcp.tools.listing import FindVersionArguments, VersionAnswer, version_found
from rowen.interfaces.mcp.tools.writing import RemovedSource, RemoveSourceArguments, SyncAnswer, removed, synced_soon
from rowen.interfaces.mcp.words import Quotes
from rowen.model.wording import inline, moment

if TYPE_CHECKING:
    from rowen.model.queue import Job
    from rowen.model.sources import Source

__all__ = ["DOCS_SERVER_TOOLS"]

# A page of an API reference; what is longer is read in parts once it is kept.
_PAGE_TOKENS = 10_000
_STATES = {"queued": "waiting", "running": "running", "completed": "done", "failed": "failed", "cancelled": "cancelled"}


class SearchDocsArguments(Arguments):
    """What `search_docs` takes."""

    library: str = Field(description="Library name.")
    version: str | None = Field(default=None, description="Library version, exact or a range such as 5.x; optional.")
    query: str = Field(description="What to look for in the documentation.")
    limit: int = Field(default=5, ge=1, le=50, description="Maximum number of results.")


async def docs_searched(call: ToolCall, asked: SearchDocsArguments) -> ToolAnswer:
    """Search one library, in the version that is meant."""
    names = await _sources_of(call, asked.library, asked.version)
    return await found_in(call, SearchArguments(query=asked.query, sources=names, limit=asked.limit))


async def _sources_of(call: ToolCall, library: str, version: str | None) -> list[str]:
    """The source of the version that is meant: it, or else the last one before it; without versions, what there is."""
    found = await call.rowen.sources.find_version(library, version)
    if found.source is None and version:
        found = await call.rowen.sources.find_version(library, f"<={version}")
    if found.source is not None:
        return [found.source]
    if found.unversioned and not version:
        return list(found.unversioned)
    have = ", ".join(found.available) or "none with a version"
    raise NotFoundError(f"Version {version!r} of {library!r} is not kept.", hint=f"Kept versions: {have}.")


class ListLibrariesArguments(Arguments):
    """What `list_libraries` takes."""


class LibraryEntry(ToolResult):
    """One library."""

    name: str
    versions: tuple[str, ...] = ()
    items: int = 0
    checked_at: datetime | None = None


class LibraryList(ToolResult):
    """What `list_libraries` gives."""

    libraries: list[LibraryEntry]


async def libraries_listed(call: ToolCall, _: ListLibrariesArguments) -> ToolAnswer:
    """All libraries with their versions."""
    held: dict[str, list[Source]] = defaultdict(list)
    for source in await call.rowen.sources.list():
        held[source.library].append(source)
    found = [
        LibraryEntry(
            name=name,
            versions=[one.release for one in sources if one.release],
            items=sum(one.items for one in sources),
            checked_at=max((one.last_run_at for one in sources if one.last_run_at), default=None),
        )
        for name, sources in sorted(held.items())
    ]
    lines = [
        f"- {inline(one.name)}"
        + (f" ({inline(', '.join(one.versions))})" if one.versions else "")
        + f": checked {moment(one.checked_at)}"
        for one in found
    ]
    return ToolAnswer("\n".join(lines) or "No libraries are kept yet.", LibraryList(libraries=found))


class FindDocsVersionArguments(Arguments):
    """What `find_version` takes under these names."""

    library: str = Field(description="Library name.", min_length=1)
    target_version: str | None = Field(
        default=None, alias="targetVersion", description="Version to match, exact or a range; optional."
    )


async def docs_version_found(call: ToolCall, asked: FindDocsVersionArguments) -> ToolAnswer:
    """The best match for a version."""
    return await version_found(call, FindVersionArguments(library=asked.library, version=asked.target_version))


class FetchUrlArguments(Arguments):
    """What `fetch_url` takes."""

    url: str = Field(description="The page to read as Markdown.")
    follow_redirects: bool = Field(default=True, alias="followRedirects", description="Follow redirects.")


class PageNow(ToolResult):
    """What `fetch_url` gives."""

    url: str
    title: str
    text: str = Field(description="The text as Markdown, quoted.")
    truncated: bool = False


async def url_fetched(call: ToolCall, asked: FetchUrlArguments) -> ToolAnswer:
    """A page as it is now; nothing is kept of it."""
    page = await call.rowen.extraction.read_page(asked.url, reach=call.reach)
    if not asked.follow_redirects and page.url != asked.url:
        raise RefusedError(f"{asked.url} redirects to {page.url}.", hint="followRedirects=true reads it.")
    text = cut(page.text, _PAGE_TOKENS)
    quotes = Quotes([text])
    head = f"# {inline(page.title or page.url)}\n{quotes.cite(page.url, f'read {moment(call.now)}')}"
    told = "\n\n".join([quotes.preamble, head, quotes.quote(text)])
    return ToolAnswer(told, PageNow(url=page.url, title=page.title, text=text, truncated=len(text) < len(page.text)))


class ScrapeDocsArguments(Arguments):
    """What `scrape_docs` takes."""

    url: str = Field(description="Where the documentation begins.")
    library: str = Field(description="Library name.")
    version: str | None = Field(default=None, description="Library version; optional.")
    max_pages: int | None = Field(default=None, alias="maxPages", ge=1, description="At most so many pages.")
    max_depth: int | None = Field(default=None, alias="maxDepth", ge=0, description="At most so many links away.")
    scope: Literal["subpages", "hostname", "domain"] = Field(default="subpages", description="What belongs to it.")
    follow_redirects: bool = Field(default=True, alias="followRedirects", description="Always true here.")
    preserve_hashes: bool = Field(default=False, alias="preserveHashes", description="#/path is a page of its own.")


async def docs_scraped(call: ToolCall, asked: ScrapeDocsArguments) -> ToolAnswer:
    """Keep documentation from now on, and read it; what is kept already is only refreshed."""
    if not asked.follow_redirects:
        raise UsageError("Redirects are always followed; nothing was added.", hint="Leave followRedirects out.")
    name = f"{asked.library}@{asked.version}" if asked.version else asked.library
    try:
        source = await call.rowen.sources.get(name)
    except NotFoundError:
        options: dict[str, Any] = {"max_pages": asked.max_pages, "max_depth": asked.max_depth}
        options |= {"scope": "host" if asked.scope == "hostname" else asked.scope}
        options |= {"hash_routes": asked.preserve_hashes or None}
        given = {option: value for option, value in options.items() if value is not None}
        source = await call.rowen.sources.add(asked.url, name=name, kind="web", options=given, reach=call.reach)
    return await synced_soon(call, source.name, full=False, wait_s=0)


class LibraryVersionArguments(Arguments):
    """What `refresh_version` and `remove_docs` take."""

    library: str = Field(description="Library name.")
    version: str | None = Field(default=None, description="Library version; without it, the one that has none.")


async def version_refreshed(call: ToolCall, asked: LibraryVersionArguments) -> ToolAnswer:
    """Read what changed in one version of a library."""
    return await synced_soon(call, await _exact(call, asked), full=False, wait_s=0)


async def docs_removed(call: ToolCall, asked: LibraryVersionArguments) -> ToolAnswer:
    """Forget one version of a library."""
    source = await call.rowen.sources.get(await _exact(call, asked))
    return await removed(call, RemoveSourceArguments(name=source.name, items=source.items))


async def _exact(call: ToolCall, asked: LibraryVersionArguments) -> str:
    """The source of exactly this version."""
    named = asked.library.lower()
    held = [one for one in await call.rowen.sources.list() if named in (one.library.lower(), one.name.lower())]
    found = [one.name for one in held if one.release == asked.version] or [
        one.name for one in held if not asked.version
    ]
    if len(found) != 1:
        have = ", ".join(one.release or "none" for one in held) or "none"
        raise NotFoundError(f"{asked.library!r} has no version {asked.version!r}.", hint=f"Kept versions: {have}.")
    return found[0]


class ListJobsArguments(Arguments):
    """What `list_jobs` takes."""

    status: Literal["queued", "running", "completed", "failed", "cancelling", "cancelled"] | None = Field(
        default=None, description="Only jobs with this status."
    )


class JobArguments(Arguments):
    """What `get_job_info` and `cancel_job` take."""

    job_id: str = Field(alias="jobId", description="The number of the job.", pattern=r"^\d{1,18}$")


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
    """What the tools for jobs give."""

    jobs: list[JobEntry]


async def jobs_listed(call: ToolCall, asked: ListJobsArguments) -> ToolAnswer:
    """The last jobs."""
    state = _STATES.get(asked.status) if asked.status else None
    if asked.status and state is None:
        return _jobs([])
    return _jobs([_job(one) for one in await call.rowen.queue.list(state=state)])  # type: ignore[arg-type]


async def job_told(call: ToolCall, asked: JobArguments) -> ToolAnswer:
    """One job."""
    return _jobs([_job(await call.rowen.queue.get(int(asked.job_id)))])


async def job_cancelled(call: ToolCall, asked: JobArguments) -> ToolAnswer:
    """Take a job out of the queue, or end it."""
    return _jobs([_job(await call.rowen.queue.cancel(int(asked.job_id)))])


def _job(job: Job) -> JobEntry:
    status = next((theirs for theirs, ours in _STATES.items() if ours == job.state), job.state)
    times = {"created_at": job.queued_at, "started_at": job.started_at, "finished_at": job.ended_at}
    return JobEntry(id=str(job.id), status=status, library=job.source, error=job.error, **times)


def _jobs(found: list[JobEntry]) -> ToolAnswer:
    lines = [
        f"- {one.id} {one.status} {inline(one.library or '')} since {moment(one.created_at)}"
        + (f": {inline(one.error)}" if one.error else "")
        for one in found
    ]
    while len(lines) > 1 and tokens("\n".join(lines)) > DEFAULT_TOKENS:
        lines.pop()
    return ToolAnswer("\n".join(lines) or "No jobs.", JobList(jobs=found[: len(lines)]))


def _tool(
    name: str, title: str, description: str, takes: Any, gives: Any, run: Any, operations: tuple[str, ...], **more: bool
) -> ToolSpec:
    return ToolSpec(name, title, description, takes, gives, run, operations, **more)


# The server whose names these are offers its jobs only where it may be written to.
_WRITES = {"writes": True, "goes_out": True}

DOCS_SERVER_TOOLS: tuple[ToolSpec, ...] = (
    _tool(
        "search_docs",
        "Search the documentation of a library",
        "Use this to search the kept documentation of a library, in a version or range: {library: 'react', version:"
        " '18.x', query: 'effects'}. Without a version the highest is searched. Cite the URLs.",
        SearchDocsArguments,
        SearchAnswer,
        docs_searched,
        ("sources.find_version", "items.search", "items.last_checked"),
    ),
    _tool(
        "list_libraries",
        "List libraries",
        "Use this to learn which libraries are kept, in which versions, and how fresh they are.",
        ListLibrariesArguments,
        LibraryList,
        libraries_listed,
        ("sources.list",),
    ),
    _tool(
        "find_version",
        "Find the right version",
        "Use this to find the kept version of a library that fits best.",
        FindDocsVersionArguments,
        VersionAnswer,
        docs_version_found,
        ("sources.find_version",),
    ),
    _tool(
        "fetch_url",
        "Read a page now",
        "Use this to read any web page as Markdown, as it is now. Nothing is kept.",
        FetchUrlArguments,
        PageNow,
        url_fetched,
        ("extraction.read_page",),
        goes_out=True,
    ),
    _tool(
        "scrape_docs",
        "Keep documentation",
        "Use this to keep the documentation of a library, and read it. It goes on after the answer.",
        ScrapeDocsArguments,
        SyncAnswer,
        docs_scraped,
        ("sources.add", "queue.enqueue", "runs.sync"),
        changes_sources=True,
        **_WRITES,
    ),
    _tool(
        "refresh_version",
        "Refresh documentation",
        "Use this to bring a kept version up to date; only what changed is read.",
        LibraryVersionArguments,
        SyncAnswer,
        version_refreshed,
        ("queue.enqueue", "runs.sync"),
        **_WRITES,
    ),
    _tool(
        "list_jobs",
        "List jobs",
        "Use this to see what waits or was done.",
        ListJobsArguments,
        JobList,
        jobs_listed,
        ("queue.list",),
        writes=True,
    ),
    _tool(
        "get_job_info",
        "Look at a job",
        "Use this to see how a job is doing.",
        JobArguments,
        JobList,
        job_told,
        ("queue.get",),
        writes=True,
    ),
    _tool(
        "cancel_job",
        "Cancel a job",
        "Use this to take a job out of the queue, or to end it early.",
        JobArguments,
        JobList,
        job_cancelled,
        ("queue.cancel",),
        writes=True,
    ),
    _tool(
        "remove_docs",
        "Forget documentation",
        "Use this only when the user asked for it: it forgets a version of a library.",
        LibraryVersionArguments,
        RemovedSource,
        docs_removed,
        ("sources.remove",),
        writes=True,
        changes_sources=True,
        destroys=True,
        repeatable=False,
    ),
)
