"""Folders, single files and archives on this computer."""

# ruff: noqa: PTH100, PTH112, PTH113, PTH116, PTH119 -- paths stay strings, so that names which are not UTF-8 keep their exact form

import asyncio
import os
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import ClassVar
from urllib.parse import unquote_to_bytes

from rowen.connectors.base import Known, Options, Tools
from rowen.connectors.files.archives import Archive, is_tar, is_zip
from rowen.connectors.files.file_look import FileLook
from rowen.connectors.files.folders import FolderWalk
from rowen.connectors.files.found import (
    NOWHERE,
    Batch,
    FoundFile,
    etag_of,
    fetched,
    observe,
    shown,
    too_large,
    unreadable,
)
from rowen.connectors.files.reading import read_file
from rowen.connectors.files.selection import FilesOptions, Selection
from rowen.connectors.files.tars import tar_observations
from rowen.connectors.files.zips import zip_observations
from rowen.errors import ItemError, SourceError, SourceGoneError, UsageError
from rowen.model.address import Address
from rowen.model.item import Complete, Failed, Incomplete, Observation
from rowen.model.media import media_type_of
from rowen.model.url import file_url

__all__ = ["Files"]

_GONE_HINT = "Is a disk not mounted?"


class Files:
    """Reads a folder, a single file, or a zip or tar archive."""

    kind: ClassVar[str] = "files"
    Options: ClassVar[type[Options]] = FilesOptions

    def __init__(self, url: str, options: FilesOptions, tools: Tools) -> None:
        self._url = url
        self._path = _path_of(url)
        self._options = options
        self._tools = tools
        self._selection = Selection(options)

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """The `file:` URL of a path or URL that leads to a folder, an archive or a readable file.

        A bare repository is left to the kind that reads what is in it.
        """
        place = Address.of(address)
        if not address or not place.is_file:
            return None
        try:
            path = "/" + os.path.abspath(place.path).lstrip("/")
            mode = os.stat(path).st_mode
        except (OSError, ValueError) as problem:
            if _is_path(place):
                raise UsageError(f"{address!r} cannot be read: {_reason(problem)}.", hint="Check the path.") from None
            return None
        if stat.S_ISDIR(mode) and os.path.isfile(f"{path}/HEAD") and os.path.isdir(f"{path}/objects"):
            return None
        if stat.S_ISDIR(mode) or (stat.S_ISREG(mode) and _is_readable(path)):
            return file_url(os.fsencode(path))
        return None

    async def pull(self, known: Known) -> AsyncIterator[Observation]:
        """Walk, and read what looks different from what we hold."""
        status = await asyncio.to_thread(self._root)
        async with aclosing(self._observations(known, status)) as groups:
            async for group in groups:
                for observation in group:
                    yield observation

    async def look(self, known: Known, urls: Sequence[str]) -> AsyncGenerator[Observation]:
        """Look at some files of a folder, or at the one that is the source; an archive is looked at as a whole."""
        status = await asyncio.to_thread(self._root)
        if stat.S_ISREG(status.st_mode) and (is_zip(self._path) or is_tar(self._path)):
            return
        files = FileLook(self._path, self._options)
        batch = await asyncio.to_thread(files.find, urls, _path_of)
        for gone in files.gone:
            yield gone
        async with aclosing(observe(iter([batch]), known, self._tools.meter, read=self._read)) as groups:
            async for group in groups:
                for observation in group:
                    yield observation

    def _observations(self, known: Known, status: os.stat_result) -> AsyncGenerator[Sequence[Observation], None]:
        if stat.S_ISDIR(status.st_mode):
            return self._folder(known)
        archive = Archive(self._path, self._url, self._options, self._selection, self._tools)
        if is_zip(self._path):
            return zip_observations(archive, known)
        if is_tar(self._path):
            return tar_observations(archive, known)
        return self._file(known, status)

    def _root(self) -> os.stat_result:
        try:
            status = os.stat(self._path)
        except OSError as problem:
            error = SourceGoneError if problem.errno in NOWHERE else SourceError
            raise error(f"{shown(self._path)}: {problem.strerror}.", hint=_GONE_HINT) from None
        if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
            raise SourceGoneError(f"{shown(self._path)} is neither a folder nor a file any more.", hint=_GONE_HINT)
        return status

    async def _folder(self, known: Known) -> AsyncGenerator[Sequence[Observation], None]:
        if await known.look_up([self._url]):
            raise self._exchanged("a file", "a folder")
        walk = await asyncio.to_thread(FolderWalk, self._path, self._url, self._options, self._selection)
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
            raise SourceGoneError(f"{shown(self._path)} vanished before it was read.", hint=_GONE_HINT)
        yield [Complete()]

    def _exchanged(self, once: str, now: str) -> SourceGoneError:
        return SourceGoneError(
            f"{shown(self._path)} was {once} and is {now} now.",
            hint="If this is meant, remove the source and add it again.",
        )

    def _read(self, found: FoundFile) -> Observation | None:
        path = _path_of(found.url)
        try:
            return self._read_body(found.url, path)
        except ItemError as problem:
            return Failed(found.url, f"{shown(path)} {problem}.", hint=problem.hint)
        except OSError as problem:
            return None if problem.errno in NOWHERE else unreadable(found.url, path, problem)

    def _read_body(self, url: str, path: str) -> Observation | None:
        options = self._options
        follow = bool(options.follow_links) or path == self._path
        read = read_file(path, self._tools, limit_bytes=options.max_bytes, follow=follow)
        if read is None:
            return None
        if len(read.body) > options.max_bytes:
            return too_large(url, path, options.max_bytes)
        within = path[len(self._path.rstrip("/")) + 1 :] or os.path.basename(path)
        return fetched(url, within, read.body, etag=read.etag, language=options.language)


def _path_of(url: str) -> str:
    """The path in the URL of a source or of one of its items, which is always a `file:` URL."""
    path = os.fsdecode(unquote_to_bytes(url.removeprefix("file:")))
    if path.startswith("//"):
        path = path.removeprefix("//").removeprefix("localhost")
    return path


def _is_readable(path: str) -> bool:
    return is_zip(path) or is_tar(path) or media_type_of(os.path.basename(path)) is not None


def _is_path(place: Address) -> bool:
    """Whether an address can only mean a path: no host's name in front."""
    if place.scheme or place.text.startswith((".", "/", "~")):
        return True
    first, slash, _ = place.text.partition("/")
    return bool(slash) and "." not in first and ":" not in first


def _reason(problem: OSError | ValueError) -> str:
    return (problem.strerror if isinstance(problem, OSError) else None) or str(problem)
