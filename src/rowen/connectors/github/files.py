"""The files of a repository: a conditional request for the commit, a tree, and the blobs that are new."""

import asyncio
import hashlib
import re
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Any, NamedTuple, TypeVar

from rowen.connectors.git.listing import FoundBlob, Proof, RepositoryScope, TreeComparison, quoted
from rowen.connectors.github.address import RepositoryAddress
from rowen.connectors.github.api import AT_ONCE, RAW, SHA, GitHubApi, RateLimitedError
from rowen.connectors.github.options import GitHubOptions
from rowen.connectors.github.trees import Trees
from rowen.errors import BodyTooLargeError, CircuitOpenError, SourceError, SourceGoneError
from rowen.model.item import Checkpoint, Failed, Incomplete, Observation, Skipped
from rowen.model.url import segment
from rowen.net.response import Response

__all__ = ["RepositoryFiles"]

T = TypeVar("T")
R = TypeVar("R")

_COMMIT = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_EMPTY, _UNKNOWN = 409, (404, 422)


class Head(NamedTuple):
    """What the source's ref stands for now."""

    ref: str
    path: str
    commit: str
    etag: str | None


class RepositoryFiles:
    """The part of a source that is in the repository itself."""

    name = "files"

    def __init__(self, api: GitHubApi, address: RepositoryAddress, options: GitHubOptions) -> None:
        self._api = api
        self._address = address
        self._options = options
        self._limit: RateLimitedError | None = None

    async def pull(self, held: dict[str, str | None], cursor: Any) -> AsyncGenerator[Observation]:
        """Look at the commit, and only if it is another one at its tree."""
        before = Proof.from_json(cursor)
        head = await self._head(cursor if before else {})
        if head is None:
            return
        if before is not None and before.commit == head.commit and before.covers(held):
            for observation in before.observations(held):
                yield observation
            yield Checkpoint({**before.to_json(), "ref": head.ref, "etag": head.etag})
            return
        async with aclosing(self._changes(head, held, before)) as changes:
            async for observation in changes:
                yield observation

    async def _head(self, cursor: dict[str, Any]) -> Head | None:
        """The commit to read; None if the repository is empty."""
        for ref, path in self._places(cursor.get("ref")):
            etag = cursor.get("etag") if ref == cursor.get("ref") else None
            also = (_EMPTY, *_UNKNOWN)
            response = await self._api.get(f"commits/{segment(ref)}", etag=etag, accept=SHA, also=also)
            if response.status == _EMPTY:
                return None
            if response.not_modified:
                return Head(ref, path, cursor["commit"], etag)
            if response.ok:
                return Head(ref, path, _commit(response), response.etag)
        raise SourceGoneError(
            f"{self._address.url} is not there, or not for us to see.",
            hint="Check the name and the ref; a private repository needs the option token.",
        )

    def _places(self, last: str | None) -> list[tuple[str, str]]:
        """Where the source may be, beginning with where it was last."""
        ref, path = self._options.ref, self._options.path
        places = [(ref, "")] if ref else self._address.places()
        return [(ref, path or tail) for ref, tail in sorted(places, key=lambda place: place[0] != last)]

    async def _changes(
        self, head: Head, held: dict[str, str | None], before: Proof | None
    ) -> AsyncGenerator[Observation]:
        base = f"{self._address.repository}/blob/{quoted(head.ref)}/"
        scope = RepositoryScope(self._options, head.path, lambda path: base + quoted(path))
        trees = Trees(self._api, scope)
        found = scope.find(await trees.entries(head.commit))
        look = TreeComparison(found, held, before=before, options=self._options, ref=head.ref)
        for observation in look.settled():
            yield observation
        async with aclosing(in_order(look.stale, lambda one: self._observe(look, head, one))) as observations:
            async for seen in observations:
                if seen is not None:
                    yield seen
        if self._limit is not None:
            yield Incomplete(f"{self._limit} {self._limit.hint}")
        elif not trees.whole:
            yield Incomplete("GitHub did not list all files.")
        else:
            yield Checkpoint({**look.proof(head.commit).to_json(), "ref": head.ref, "etag": head.etag})

    async def _observe(self, look: TreeComparison, head: Head, found: FoundBlob) -> Observation | None:
        """The observation of a blob; None once GitHub answers no more."""
        if self._limit is not None:
            return None
        try:
            return look.take(found, await self._body(head, found))
        except RateLimitedError as problem:
            self._limit = problem
            return None
        except BodyTooLargeError:
            return look.too_large(found)
        except CircuitOpenError as problem:
            return Skipped(found.url, str(problem))
        except SourceError as problem:
            return Failed(found.url, str(problem), problem.hint)

    async def _body(self, head: Head, found: FoundBlob) -> bytes:
        if found.size_bytes == 0:
            return b""
        limit = int(self._options.max_bytes)
        body = await self._api.raw(head.commit, quoted(found.path), max_bytes=limit)
        if body is not None and _is_blob(body, found.sha):
            return body
        response = await self._api.get(f"git/blobs/{segment(found.sha)}", accept=RAW, max_bytes=limit)
        if not _is_blob(response.body, found.sha):
            raise SourceError(f"GitHub sent something else than the blob {found.sha} of {found.url}.")
        return response.body


def _commit(response: Response) -> str:
    body = response.body.strip()
    if not _COMMIT.fullmatch(body):
        raise SourceError(
            f"{response.url} answered with something that is no commit ({response.media_type}).",
            hint="Is the option api_url right?",
        )
    return body.decode()


def _is_blob(body: bytes, sha: str) -> bool:
    """Whether a body is the blob that was asked for: its name is the hash of its content."""
    hashed = hashlib.sha256() if len(sha) == 64 else hashlib.sha1(usedforsecurity=False)
    hashed.update(b"blob %d\0" % len(body))
    hashed.update(body)
    return hashed.hexdigest() == sha


async def in_order(jobs: Iterable[T], work: Callable[[T], Awaitable[R]]) -> AsyncGenerator[R]:
    """The results of some work, a few jobs at the same time, in the order of the jobs."""

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
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
