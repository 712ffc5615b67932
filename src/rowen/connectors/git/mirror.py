"""A local mirror of a remote repository that fetches no more than is needed.

The commit is fetched without history and, if the server supports it, without files; then only changed files are
fetched, in one request.
"""

import asyncio
import fcntl
import os
import re
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Container, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, NamedTuple

from rowen.connectors.base import Meter, Tools
from rowen.connectors.files.reading import displayed
from rowen.connectors.git.listing import Blob, Proof, RepositoryOptions, RepositoryScope, TreeComparison, TreeEntry
from rowen.connectors.git.program import MOST_MIRROR_BYTES, Program, Remote, configuration, folder_bytes
from rowen.errors import SourceError, SourceGoneError
from rowen.model.items import Checkpoint, Observation

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# Time limit for reading one file of a local mirror.
_READ_LIMIT_S = 60.0
# Another run locks a mirror for seconds to minutes; checking ten times a second costs next to nothing.
_LOCK_POLL_S = 0.1
_SIZES = "--batch-check=%(objectname) %(objecttype) %(objectsize)"


class Tip(NamedTuple):
    """The commit that a branch, tag or other name refers to now."""

    name: str
    commit: str


@asynccontextmanager
async def open_mirror(
    remote: Remote,
    tools: Tools,
    *,
    token: str | None = None,
    cache: Path | None = None,
    limit_s: float = 1800.0,
    most_bytes: int = MOST_MIRROR_BYTES,
) -> AsyncIterator["Mirror"]:
    """Open the mirror of a remote, in the folder `cache` or in a temporary folder."""
    program = Program(
        displayed(remote.url),
        protocol=remote.scheme,
        configuration=await configuration(remote, token, tools.settings),
        limit_s=limit_s,
        most_bytes=most_bytes,
    )
    async with AsyncExitStack() as stack:
        root = cache or Path(stack.enter_context(TemporaryDirectory(prefix="rowen-git-")))
        name = sha256(os.fsencode(remote.url)).hexdigest()[:24]
        if cache is not None:
            stack.enter_context(await _locked(cache, name))
        folder = root / f"{name}.git"
        if cache is not None and await asyncio.to_thread(folder_bytes, folder) > most_bytes:
            # A mirror that grew over many runs may be much smaller after a new fetch.
            await asyncio.to_thread(shutil.rmtree, folder)
        yield Mirror(folder, remote, program, tools.meter)


async def _locked(cache: Path, name: str) -> IO[bytes]:
    """Lock a mirror that several runs may share; closing the returned file releases the lock.

    The lock is polled, since a thread that waits for it could not be cancelled: it might get the lock after the run
    has ended.
    """
    await asyncio.to_thread(cache.mkdir, parents=True, exist_ok=True)
    file = (cache / f"{name}.lock").open("wb")
    try:
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return file
            await asyncio.sleep(_LOCK_POLL_S)
    except BaseException:
        file.close()
        raise


class Mirror:
    """A bare repository that mirrors a remote."""

    def __init__(self, folder: Path, remote: Remote, program: Program, meter: Meter) -> None:
        self._folder = folder
        self._remote = remote
        self._about = displayed(remote.url)
        self._program = program
        self.meter = meter

    async def tip(self, ref: str | None) -> Tip | None:
        """Return the commit of a branch or tag, or of the default branch; None if the repository is empty."""
        if ref and _COMMIT.fullmatch(ref):
            return Tip(ref, ref)
        names = [f"refs/heads/{ref}", f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}", ref] if ref else ["HEAD"]
        self.meter.requests += 1
        output = await self._program.run("ls-remote", "--quiet", "--", self._remote.url, *names, network=True)
        lines = (line.partition("\t") for line in output.decode("utf-8", "replace").splitlines())
        commits = {name: commit for commit, _, name in lines if _COMMIT.fullmatch(commit)}
        for name in names:
            if commit := commits.get(name):
                return Tip(name.removesuffix("^{}"), commit)
        if ref is None:
            return None
        raise SourceGoneError(f"{self._about} has no branch or tag {ref!r}.")

    async def fetch(self, tip: Tip) -> None:
        """Fetch a commit, without history and files if the server supports that."""
        if not (self._folder / "HEAD").exists():
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            kind = "sha256" if len(tip.commit) == 64 else "sha1"
            await self._program.run(
                "init", "--quiet", "--bare", f"--object-format={kind}", "--template=", str(self._folder)
            )
            await self._program.run("config", "remote.origin.url", self._remote.url, folder=self._folder)
        try:
            await self._fetch("--depth=1", "--filter=blob:none", "--", "origin", tip.commit)
        except SourceGoneError:
            raise
        except SourceError as problem:
            if "shallow" not in str(problem) and "filter" not in str(problem):
                raise
            await self._fetch("--", "origin", f"+{tip.name}:refs/rowen/tip")

    async def _fetch(self, *arguments: str, stdin: bytes = b"") -> None:
        self.meter.requests += 1
        quiet = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head")
        try:
            await self._program.run(*quiet, *arguments, folder=self._folder, stdin=stdin, network=True)
        except BaseException:
            await asyncio.shield(asyncio.to_thread(_remove_partial, self._folder))
            raise

    async def entries(self, commit: str) -> list[TreeEntry]:
        """Return the regular files of a commit, without links and submodules."""
        output = await self._program.run("ls-tree", "-r", "-z", "--full-tree", commit, folder=self._folder)
        lines = (line.partition(b"\t") for line in output.split(b"\0"))
        return [
            TreeEntry(path.decode("utf-8", "surrogateescape"), meta.split(b" ")[2].decode())
            for meta, _, path in lines
            if meta.startswith(b"100")
        ]

    async def bodies(self, blobs: Sequence[Blob], *, max_bytes: int) -> AsyncGenerator[tuple[Blob, bytes | None]]:
        """Yield each blob with its bytes, in order; with None if it is larger than `max_bytes`."""
        if not blobs:
            return
        shas = list(dict.fromkeys(blob.sha for blob in blobs))
        sizes = await self._sizes()
        if missing := [sha for sha in shas if sha not in sizes]:
            stdin = "".join(f"{sha}\n" for sha in missing).encode()
            await self._fetch("--filter=blob:none", "--stdin", "origin", stdin=stdin)
            sizes = await self._sizes()
        if absent := next((sha for sha in shas if sha not in sizes), None):
            raise SourceError(f"{self._about} did not send the blob {absent}.")
        async with self._program.open("cat-file", "--batch", folder=self._folder) as process:
            assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 (both are pipes)
            for blob in blobs:
                size_bytes = sizes[blob.sha]
                if size_bytes > max_bytes:
                    yield blob, None
                    continue
                process.stdin.write(f"{blob.sha}\n".encode())
                try:
                    async with asyncio.timeout(_READ_LIMIT_S):
                        await process.stdout.readline()
                        body = await process.stdout.readexactly(size_bytes + 1)
                except (TimeoutError, OSError, asyncio.IncompleteReadError):
                    raise SourceError(f"git stopped while it read {self._about}.") from None
                self.meter.bytes += size_bytes
                yield blob, body[:-1]

    async def _sizes(self) -> dict[str, int]:
        """Return the sizes of all blobs in the mirror; asking for a single blob could make git fetch it."""
        output = await self._program.run("cat-file", "--batch-all-objects", "--unordered", _SIZES, folder=self._folder)
        lines = (line.split(" ") for line in output.decode().splitlines())
        return {sha: int(size) for sha, kind, size in lines if kind == "blob"}


def _remove_partial(folder: Path) -> None:
    """Remove the partial files that a killed git process left behind."""
    patterns = ("objects/pack/tmp_*", "objects/tmp_*", "objects/??/tmp_*", "*.lock", "refs/rowen/*.lock")
    for partial in [path for pattern in patterns for path in folder.glob(pattern)]:
        with suppress(OSError):
            partial.unlink()


async def pull_commit(
    mirror: Mirror,
    options: RepositoryOptions,
    url_of: Callable[[str], str],
    etags: Mapping[str, str | None],
    cursor: Any,
    *,
    leaving: Container[str] = (),
) -> AsyncGenerator[Observation]:
    """Resolve the ref, and read the blobs that changed; end with a checkpoint unless the repository is empty."""
    tip = await mirror.tip(options.ref)
    if tip is None:
        return
    before = Proof.from_json(cursor)
    if before is not None and before.commit == tip.commit and before.covers(etags, leaving=leaving):
        mirror.meter.not_modified += 1
        for observation in before.observations(etags, leaving=leaving):
            yield observation
        yield Checkpoint(before.to_json())
        return
    await mirror.fetch(tip)
    blobs = RepositoryScope(options, options.path, url_of).select(await mirror.entries(tip.commit))
    comparison = TreeComparison(blobs, etags, before=before, options=options, ref=options.ref or "HEAD")
    for observation in comparison.settled():
        yield observation
    async with aclosing(mirror.bodies(comparison.stale, max_bytes=options.max_bytes)) as bodies:
        async for blob, body in bodies:
            yield comparison.too_large(blob) if body is None else comparison.take(blob, body)
    yield Checkpoint(comparison.proof(tip.commit).to_json())
