"""Folders, single files and archives on this computer."""

# ruff: noqa: PTH100, PTH112, PTH113, PTH116, PTH119, PTH120 -- paths stay strings, so that names which are not UTF-8 keep their exact form

import asyncio
import os
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import ClassVar
from urllib.parse import unquote_to_bytes

from rowen.connectors.base import Known, Options, Tools
from rowen.connectors.files.archives import Archive, is_tar, is_zip, zip_observations
from rowen.connectors.files.folders import FolderWalk
from rowen.connectors.files.options import FilesOptions, Selection
from rowen.connectors.files.reading import (
    MISSING,
    Batch,
    ListedFile,
    displayed,
    etag_of,
    fetched,
    observe,
    read_file,
    too_large,
    unreadable,
)
from rowen.connectors.files.tars import tar_observations
from rowen.errors import ItemError, SourceError, SourceGoneError, UsageError
from rowen.model.files import media_type_of
from rowen.model.items import Complete, Failed, Gone, Incomplete, Observation
from rowen.model.url import Address, file_url

_GONE_HINT = "Is a disk not mounted?"


class Files:
    """A connector for a folder, a single file, or a zip or tar archive."""

    kind: ClassVar[str] = "files"
    Options: ClassVar[type[Options]] = FilesOptions

    def __init__(self, url: str, options: FilesOptions, tools: Tools) -> None:
        self._url = url
        self._path = _path_of(url)
        self._options = options
        self._tools = tools

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """Return the `file:` URL of a folder, an archive or a readable file; None for a bare git repository."""
        place = Address.of(address)
        if not address or not place.is_file:
            return None
        try:
            path = "/" + os.path.abspath(place.path).lstrip("/")
            mode = os.stat(path).st_mode
        except (OSError, ValueError) as problem:
            # If the first segment of an address may be a host name, other kinds decide.
            first, slash, _ = place.text.partition("/")
            is_relative = bool(slash) and "." not in first and ":" not in first
            if place.scheme or place.text.startswith((".", "/", "~")) or is_relative:
                reason = (problem.strerror if isinstance(problem, OSError) else None) or str(problem)
                raise UsageError(f"{address!r} cannot be read: {reason}.", hint="Check the path.") from None
            return None
        if stat.S_ISDIR(mode):
            is_repository = os.path.isfile(f"{path}/HEAD") and os.path.isdir(f"{path}/objects")
            return None if is_repository else file_url(os.fsencode(path))
        is_readable = is_zip(path) or is_tar(path) or media_type_of(os.path.basename(path)) is not None
        return file_url(os.fsencode(path)) if stat.S_ISREG(mode) and is_readable else None

    async def pull(self, known: Known) -> AsyncIterator[Observation]:
        """List the files, and read the files whose validators differ from the stored ones."""
        status = await asyncio.to_thread(self._root)
        if stat.S_ISDIR(status.st_mode):
            listing = self._folder(known)
        elif is_zip(self._path) or is_tar(self._path):
            archive = Archive(self._path, self._url, self._options, Selection(self._options), self._tools)
            listing = zip_observations(archive, known) if is_zip(self._path) else tar_observations(archive, known)
        else:
            listing = self._file(known, status)
        async with aclosing(listing) as groups:
            async for group in groups:
                for observation in group:
                    yield observation

    async def look(self, known: Known, urls: Sequence[str]) -> AsyncGenerator[Observation]:
        """Check the files with these URLs; for an archive yield nothing, since it can only be read as a whole."""
        status = await asyncio.to_thread(self._root)
        if stat.S_ISREG(status.st_mode) and (is_zip(self._path) or is_tar(self._path)):
            return
        batch, gone = await asyncio.to_thread(self._find, urls)
        for missing in gone:
            yield missing
        async with aclosing(observe(iter([batch]), known, self._tools.meter, read=self._read)) as groups:
            async for group in groups:
                for observation in group:
                    yield observation

    def _root(self) -> os.stat_result:
        try:
            status = os.stat(self._path)
        except OSError as problem:
            error = SourceGoneError if problem.errno in MISSING else SourceError
            raise error(f"{displayed(self._path)}: {problem.strerror}.", hint=_GONE_HINT) from None
        if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
            raise SourceGoneError(f"{displayed(self._path)} is neither a folder nor a file any more.", hint=_GONE_HINT)
        return status

    async def _folder(self, known: Known) -> AsyncGenerator[Sequence[Observation], None]:
        if await known.look_up([self._url]):
            raise self._exchanged("a file", "a folder")
        selection = Selection(self._options)
        walk = await asyncio.to_thread(FolderWalk, self._path, self._url, self._options, selection)
        async for observations in observe(iter(walk), known, self._tools.meter, read=self._read):
            yield observations
        done = Complete(generated=walk.generated)
        yield [done if walk.complete else Incomplete("Some folders could not be listed.")]

    async def _file(self, known: Known, status: os.stat_result) -> AsyncGenerator[Sequence[Observation], None]:
        if known.count and not await known.look_up([self._url]):
            raise self._exchanged("a folder", "a file")
        batch = Batch()
        if status.st_size > self._options.max_bytes:
            batch.failed.append(too_large(self._url, self._path, self._options.max_bytes))
        else:
            batch.add(self._url, etag_of(status), status.st_size)
        seen = False
        async for observations in observe(iter([batch]), known, self._tools.meter, read=self._read):
            seen = seen or bool(observations)
            yield observations
        if not seen:
            raise SourceGoneError(f"{displayed(self._path)} vanished before it was read.", hint=_GONE_HINT)
        yield [Complete()]

    def _exchanged(self, once: str, now: str) -> SourceGoneError:
        return SourceGoneError(
            f"{displayed(self._path)} was {once} and is {now} now.",
            hint="If this is intended, remove the source and add it again.",
        )

    def _read(self, file: ListedFile) -> Observation | None:
        url, path, options = file.url, _path_of(file.url), self._options
        follow = bool(options.follow_links) or path == self._path
        try:
            read = read_file(path, self._tools, limit_bytes=options.max_bytes, follow=follow)
        except ItemError as problem:
            return Failed(url, f"{displayed(path)} {problem}.", hint=problem.hint)
        except OSError as problem:
            return None if problem.errno in MISSING else unreadable(url, path, problem)
        if read is None:
            return None
        if len(read.body) > options.max_bytes:
            return too_large(url, path, options.max_bytes)
        within = path[len(self._path.rstrip("/")) + 1 :] or os.path.basename(path)
        return fetched(url, within, read.body, etag=read.etag, language=options.language)

    def _find(self, urls: Sequence[str]) -> tuple[Batch, list[Gone]]:
        """Look up single files by their URLs; a file below a symbolic link that is not followed counts as missing."""
        batch, gone = Batch(), []
        follow, root = self._options.follow_links, self._path.rstrip("/")
        real_root = os.path.realpath(self._path)
        folders: dict[str, bool] = {}

        def is_inside(path: str) -> bool:
            if follow == "anywhere":
                return True
            if follow:
                return os.path.realpath(path).startswith(f"{real_root.rstrip('/')}/")
            folder = os.path.dirname(path)
            if folder not in folders:
                folders[folder] = os.path.realpath(folder) == real_root.rstrip("/") + folder[len(root) :]
            return folders[folder]

        for url in urls:
            path = _path_of(url)
            is_root = path == self._path
            try:
                status = os.stat(path) if follow or is_root else os.lstat(path)
            except OSError as problem:
                if problem.errno in MISSING:
                    gone.append(Gone(url, "there is no such file"))
                else:
                    batch.failed.append(unreadable(url, path, problem))
                continue
            if not stat.S_ISREG(status.st_mode):
                gone.append(Gone(url, "it is no file any more"))
            elif not (is_root or is_inside(path)):
                gone.append(Gone(url, "it lies behind a link"))
            elif status.st_size > self._options.max_bytes:
                batch.failed.append(too_large(url, path, self._options.max_bytes))
            else:
                batch.add(url, etag_of(status), status.st_size)
        return batch, gone


def _path_of(url: str) -> str:
    """Return the path in the `file:` URL of a source or an item."""
    path = os.fsdecode(unquote_to_bytes(url.removeprefix("file:")))
    if path.startswith("//"):
        path = path.removeprefix("//").removeprefix("localhost")
    return path
