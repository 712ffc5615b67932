"""The files of a repository: request the commit conditionally, then its tree, then the new blobs."""

import asyncio
import hashlib
import re
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Container, Iterable
from contextlib import aclosing
from typing import Any, NamedTuple, TypeVar

from rowen.concurrency import end
from rowen.connectors.git.listing import Blob, Proof, RepositoryScope, TreeComparison, TreeEntry, quoted
from rowen.connectors.github.api import AT_ONCE, RAW, SHA, GitHubApi, RateLimitedError, decoded
from rowen.connectors.github.options import GitHubOptions, RepositoryAddress
from rowen.errors import BodyTooLargeError, CircuitOpenError, SourceError, SourceGoneError
from rowen.model.items import Checkpoint, Failed, Incomplete, Observation, Skipped
from rowen.model.url import segment

T = TypeVar("T")
R = TypeVar("R")

# Each nested folder is a nested call. Deeper folders make the listing incomplete.
_DEEPEST = 100
MOST_TREES = 10_000
"""Maximum requests for one commit: a tree may contain other trees many times, and the API allows 5,000 an hour."""

_COMMIT = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_EMPTY, _UNKNOWN = 409, (404, 422)


class Head(NamedTuple):
    """The commit that the ref of the source points to now."""

    ref: str
    path: str
    commit: str
    etag: str | None


class RepositoryFiles:
    """The files of the repository, without wiki, issues, discussions and releases."""

    name = "files"

    def __init__(
        self, api: GitHubApi, address: RepositoryAddress, options: GitHubOptions, *, leaving: Container[str] = ()
    ) -> None:
        self._api = api
        self._address = address
        self._options = options
        self._leaving = leaving
        self._limit: RateLimitedError | None = None

    async def pull(self, etags: dict[str, str | None], cursor: Any) -> AsyncGenerator[Observation]:
        """Request the commit, and its tree only if the commit changed."""
        before = Proof.from_json(cursor)
        head = await self._head(cursor if before else {})
        if head is None:
            return
        if before is not None and before.commit == head.commit and before.covers(etags, leaving=self._leaving):
            for observation in before.observations(etags, leaving=self._leaving):
                yield observation
            yield Checkpoint({**before.to_json(), "ref": head.ref, "etag": head.etag})
            return
        base = f"{self._address.repository}/blob/{quoted(head.ref)}/"
        scope = RepositoryScope(self._options, head.path, lambda path: base + quoted(path))
        trees = Trees(self._api, scope)
        blobs = scope.select(await trees.entries(head.commit))
        comparison = TreeComparison(blobs, etags, before=before, options=self._options, ref=head.ref)
        for observation in comparison.settled():
            yield observation
        read = in_order(comparison.stale, lambda blob: self._observe(comparison, head, blob))
        async with aclosing(read) as results:
            async for result in results:
                if result is not None:
                    yield result
        if self._limit is not None:
            yield Incomplete(f"{self._limit} {self._limit.hint}")
        elif not trees.whole:
            yield Incomplete("GitHub did not list all files.")
        else:
            yield Checkpoint({**comparison.proof(head.commit).to_json(), "ref": head.ref, "etag": head.etag})

    async def _head(self, cursor: dict[str, Any]) -> Head | None:
        """Return the commit to read; None if the repository is empty."""
        last = cursor.get("ref")
        places = [(self._options.ref, "")] if self._options.ref else self._address.places()
        for ref, tail in sorted(places, key=lambda place: place[0] != last):
            path = self._options.path or tail
            etag = cursor.get("etag") if ref == last else None
            also = (_EMPTY, *_UNKNOWN)
            response = await self._api.get(f"commits/{segment(ref)}", etag=etag, accept=SHA, also=also)
            if response.status == _EMPTY:
                return None
            if response.not_modified:
                return Head(ref, path, cursor["commit"], etag)
            if response.ok:
                commit = response.body.strip()
                if not _COMMIT.fullmatch(commit):
                    raise SourceError(
                        f"{response.url} answered with something that is no commit ({response.media_type}).",
                        hint="Check the option api_url.",
                    )
                return Head(ref, path, commit.decode(), response.etag)
        raise SourceGoneError(
            f"{self._address.url} does not exist, or access is not allowed.",
            hint="Check the name and the ref; a private repository needs the option token.",
        )

    async def _observe(self, comparison: TreeComparison, head: Head, blob: Blob) -> Observation | None:
        """Return the observation of a blob; None once the rate limit is exceeded."""
        if self._limit is not None:
            return None
        try:
            limit = int(self._options.max_bytes)
            body = b""
            if blob.size_bytes != 0:
                body = await self._api.raw(head.commit, quoted(blob.path), max_bytes=limit) or b""
            if blob.size_bytes != 0 and not _is_blob(body, blob.sha):
                response = await self._api.get(f"git/blobs/{segment(blob.sha)}", accept=RAW, max_bytes=limit)
                body = response.body
                if not _is_blob(body, blob.sha):
                    raise SourceError(f"GitHub sent something else than the blob {blob.sha} of {blob.url}.")
            return comparison.take(blob, body)
        except RateLimitedError as problem:
            self._limit = problem
            return None
        except BodyTooLargeError:
            return comparison.too_large(blob)
        except CircuitOpenError as problem:
            return Skipped(blob.url, str(problem))
        except SourceError as problem:
            return Failed(blob.url, str(problem), problem.hint)


def _is_blob(body: bytes, sha: str) -> bool:
    """Return whether a body belongs to the blob `sha`, which is the hash of its content."""
    hashed = hashlib.sha256() if len(sha) == 64 else hashlib.sha1(usedforsecurity=False)
    hashed.update(b"blob %d\0" % len(body))
    hashed.update(body)
    return hashed.hexdigest() == sha


async def in_order(jobs: Iterable[T], work: Callable[[T], Awaitable[R]]) -> AsyncGenerator[R]:
    """Yield the results of `work` in the order of `jobs`; a few jobs run at the same time."""

    async def do(job: T) -> R:
        return await work(job)

    running: deque[asyncio.Task[R]] = deque()
    try:
        for job in jobs:
            running.append(asyncio.create_task(do(job)))
            if len(running) >= AT_ONCE:
                yield await running.popleft()
        while running:
            yield await running.popleft()
    finally:
        await end(running)


class Trees:
    """Lists a commit's files, folder by folder if a response is truncated; `whole` is false if files are missing."""

    def __init__(self, api: GitHubApi, scope: RepositoryScope) -> None:
        self.whole = True
        self._requests = 0
        self._api = api
        self._scope = scope

    async def entries(self, tree: str, folder: str = "", depth: int = 0) -> list[TreeEntry]:
        """Return the files below a tree, in the order of the responses."""
        rows, truncated = await self._rows(tree, "?recursive=1")
        if not truncated:
            return self._files(rows, folder)
        rows, truncated = await self._rows(tree)
        self.whole = self.whole and not truncated and depth < _DEEPEST
        files = self._files(rows, folder)
        for row in rows:
            path = _path(row, folder)
            if path and row.get("type") == "tree" and depth < _DEEPEST and self._scope.enters(path):
                files += await self.entries(str(row.get("sha")), f"{path}/", depth + 1)
        return files

    async def _rows(self, tree: str, query: str = "") -> tuple[list[Any], bool]:
        self._requests += 1
        if self._requests > MOST_TREES:
            raise SourceError(
                f"The repository has more than {MOST_TREES:,} folders that GitHub does not list together.",
                hint="Select a part of it by the options path, include and exclude.",
            )
        response = await self._api.get(f"git/trees/{segment(tree)}{query}")
        answer = decoded(response)
        if not isinstance(answer, dict) or not isinstance(answer.get("tree"), list):
            raise SourceError(f"{response.url} answered with something that is no tree.")
        return answer["tree"], bool(answer.get("truncated"))

    def _files(self, rows: list[Any], folder: str) -> list[TreeEntry]:
        """Return the files among the rows, without links and submodules; an unreadable row clears `whole`."""
        files = []
        for row in rows:
            path, size = _path(row, folder), row.get("size") if isinstance(row, dict) else None
            if path is None or not isinstance(row.get("sha"), str):
                self.whole = False
            elif row.get("type") == "blob" and str(row.get("mode")).startswith("100"):
                files.append(TreeEntry(path, row["sha"], size if isinstance(size, int) else None))
        return files


def _path(row: Any, folder: str) -> str | None:
    path = row.get("path") if isinstance(row, dict) else None
    if not isinstance(path, str) or not path:
        return None
    try:
        path.encode()
    except UnicodeEncodeError:
        return None
    return folder + path
