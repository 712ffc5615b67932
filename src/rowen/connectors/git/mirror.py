"""A repository of our own, filled from a remote with no more than what is asked for.

The commit comes without history and, where the server can, without files; of the files only those that changed are
fetched, all at once.
"""

import asyncio
import fcntl
import os
import re
import shutil
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, NamedTuple

from rowen.connectors.base import Meter, Tools
from rowen.connectors.files.reading import displayed
from rowen.connectors.git.listing import FoundBlob, TreeEntry
from rowen.connectors.git.program import MOST_MIRROR_BYTES, Program, folder_bytes
from rowen.connectors.git.remote import Remote, configuration
from rowen.errors import SourceError, SourceGoneError

__all__ = ["Mirror", "Tip", "open_mirror"]

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# For one file of a mirror on this machine's disk.
_READ_LIMIT_S = 60.0
# Another run holds a mirror for seconds to minutes; to ask ten times a second costs nothing.
_LOCK_POLL_S = 0.1
_SIZES = "--batch-check=%(objectname) %(objecttype) %(objectsize)"


class Tip(NamedTuple):
    """What a name stands for now."""

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
    """The mirror of a remote, in a cache folder, or one that is forgotten afterwards."""
    told = await configuration(remote, token, tools.settings)
    program = Program(
        displayed(remote.url), protocol=remote.scheme, configuration=told, limit_s=limit_s, most_bytes=most_bytes
    )
    async with AsyncExitStack() as stack:
        root = cache or Path(stack.enter_context(TemporaryDirectory(prefix="rowen-git-")))
        name = sha256(os.fsencode(remote.url)).hexdigest()[:24]
        if cache is not None:
            stack.enter_context(await _locked(cache, name))
        folder = root / f"{name}.git"
        if cache is not None and await asyncio.to_thread(folder_bytes, folder) > most_bytes:
            # What has grown over many runs may be much smaller if it is fetched anew.
            await asyncio.to_thread(shutil.rmtree, folder)
        yield Mirror(folder, remote, program, tools.meter)


async def _locked(cache: Path, name: str) -> IO[bytes]:
    """The right to a mirror that other runs may share; closing the file gives it back.

    A thread that waits for it could not be cancelled: it would get the lock when nobody wants it any more.
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
    """A bare repository beside a remote."""

    def __init__(self, folder: Path, remote: Remote, program: Program, meter: Meter) -> None:
        self._folder = folder
        self._remote = remote
        self._about = displayed(remote.url)
        self._program = program
        self.meter = meter

    async def tip(self, ref: str | None) -> Tip | None:
        """The commit of a branch or tag, or of the remote's own choice; None if the repository is empty."""
        if ref and _COMMIT.fullmatch(ref):
            return Tip(ref, ref)
        names = [f"refs/heads/{ref}", f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}", ref] if ref else ["HEAD"]
        self.meter.requests += 1
        output = await self._program.run("ls-remote", "--quiet", "--", self._remote.url, *names, network=True)
        commits = dict(_advertised(output))
        for name in names:
            if commit := commits.get(name):
                return Tip(name.removesuffix("^{}"), commit)
        if ref is None:
            return None
        raise SourceGoneError(f"{self._about} has no branch or tag {ref!r}.")

    async def fetch(self, tip: Tip) -> None:
        """Bring a commit here, without history and files where the server can leave them out."""
        if not (self._folder / "HEAD").exists():
            await self._create(tip)
        thin = ("--depth=1", "--filter=blob:none")
        try:
            await self._fetch(*thin, "--", "origin", tip.commit)
        except SourceGoneError:
            raise
        except SourceError as problem:
            if "shallow" not in str(problem) and "filter" not in str(problem):
                raise
            await self._fetch("--", "origin", f"+{tip.name}:refs/rowen/tip")

    async def _create(self, tip: Tip) -> None:
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        kind = "sha256" if len(tip.commit) == 64 else "sha1"
        await self._program.run(
            "init", "--quiet", "--bare", f"--object-format={kind}", "--template=", str(self._folder)
        )
        await self._program.run("config", "remote.origin.url", self._remote.url, folder=self._folder)

    async def _fetch(self, *arguments: str, told: bytes = b"") -> None:
        self.meter.requests += 1
        quiet = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head")
        try:
            await self._program.run(*quiet, *arguments, folder=self._folder, told=told, network=True)
        except BaseException:
            await asyncio.shield(asyncio.to_thread(_sweep_up, self._folder))
            raise

    async def entries(self, commit: str) -> list[TreeEntry]:
        """The regular files of a commit; links and submodules are none."""
        output = await self._program.run("ls-tree", "-r", "-z", "--full-tree", commit, folder=self._folder)
        return list(_regular(output))

    async def bodies(
        self, wanted: Sequence[FoundBlob], *, max_bytes: int
    ) -> AsyncGenerator[tuple[FoundBlob, bytes | None]]:
        """The files' bytes, in order; None for one that is larger than allowed."""
        if not wanted:
            return
        sizes = await self._present(wanted)
        async with self._program.open("cat-file", "--batch", folder=self._folder) as process:
            for found in wanted:
                size_bytes = sizes[found.sha]
                yield found, await self._body(process, found.sha, size_bytes) if size_bytes <= max_bytes else None

    async def _body(self, process: Process, sha: str, size_bytes: int) -> bytes:
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 (both are pipes)
        process.stdin.write(f"{sha}\n".encode())
        try:
            async with asyncio.timeout(_READ_LIMIT_S):
                await process.stdout.readline()
                body = await process.stdout.readexactly(size_bytes + 1)
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            raise SourceError(f"git stopped while it read {self._about}.") from None
        self.meter.bytes += size_bytes
        return body[:-1]

    async def _present(self, wanted: Iterable[FoundBlob]) -> dict[str, int]:
        """Bring the blobs here that are missing; returns the sizes of all."""
        shas = list(dict.fromkeys(found.sha for found in wanted))
        sizes = await self._sizes()
        if missing := [sha for sha in shas if sha not in sizes]:
            told = "".join(f"{sha}\n" for sha in missing).encode()
            await self._fetch("--filter=blob:none", "--stdin", "origin", told=told)
            sizes = await self._sizes()
        if absent := next((sha for sha in shas if sha not in sizes), None):
            raise SourceError(f"{self._about} did not send the blob {absent}.")
        return sizes

    async def _sizes(self) -> dict[str, int]:
        """The sizes of all blobs that are here; asking for a single one could make git fetch it."""
        output = await self._program.run("cat-file", "--batch-all-objects", "--unordered", _SIZES, folder=self._folder)
        lines = (line.split(" ") for line in output.decode().splitlines())
        return {sha: int(size) for sha, kind, size in lines if kind == "blob"}


def _sweep_up(folder: Path) -> None:
    """Remove what a git that was ended has left half-written; it would never look at it again."""
    for half in (*folder.glob("objects/pack/tmp_*"), *folder.glob("objects/tmp_*"), *folder.glob("objects/??/tmp_*")):
        with suppress(OSError):
            half.unlink()
    for locked in (*folder.glob("*.lock"), *folder.glob("refs/rowen/*.lock")):
        with suppress(OSError):
            locked.unlink()


def _advertised(output: bytes) -> Iterator[tuple[str, str]]:
    for line in output.decode("utf-8", "replace").splitlines():
        commit, _, name = line.partition("\t")
        if _COMMIT.fullmatch(commit):
            yield name, commit


def _regular(output: bytes) -> Iterator[TreeEntry]:
    for line in output.split(b"\0"):
        meta, _, path = line.partition(b"\t")
        if meta.startswith(b"100"):
            yield TreeEntry(path.decode("utf-8", "surrogateescape"), meta.split(b" ")[2].decode())
