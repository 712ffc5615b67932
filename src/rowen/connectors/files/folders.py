"""A walk over a folder in a stable order.

Only the names of files are held in memory, even for a million files. Paths are plain strings; names that are not UTF-8
keep the form that the system returns. A walk over an unchanged folder costs little more than one `lstat` for each
file.
"""

# ruff: noqa: PTH116 -- a `Path` for each file would cost more than its `lstat`

import os
import re
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from stat import S_ISREG

from rowen.connectors.files.gitignore import Chain, ignored, rules_above, rules_of
from rowen.connectors.files.options import FilesOptions, Selection
from rowen.connectors.files.reading import BATCH_ITEMS, MISSING, Batch, displayed, etag_of, too_large, unreadable
from rowen.errors import SourceError, SourceGoneError
from rowen.model.files import Built, is_mark, media_type_of
from rowen.model.url import file_url

_PLAIN = re.compile(r"[A-Za-z0-9!$&'()*+,;=:@~._-]+").fullmatch


@dataclass(frozen=True, slots=True)
class _OpenFolder:
    """A folder to visit. `path` and `url` end in a slash; `ancestors` is filled only if links are followed."""

    path: str
    url: str
    rules: Chain = ()
    ancestors: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True)
class _Names:
    """The names in a folder. `git` holds `.git` and `.gitignore`; `marks` holds names of documentation generators."""

    files: list[str]
    folders: list[str]
    git: set[str]
    marks: set[str]


class FolderWalk:
    """One walk over a folder: files sorted by name, and each subfolder at the position of its name.

    `complete` is false if a folder could not be listed. `generated` counts the omitted files and folders of
    documentation generators.
    """

    def __init__(self, path: str, url: str, options: FilesOptions, selection: Selection) -> None:
        self.complete = True
        self.generated = 0
        self._batch = Batch()
        self._root = _OpenFolder(path.rstrip("/") + "/", url.rstrip("/") + "/")
        self._real_root = os.path.realpath(path).rstrip("/") + "/"
        self._options = options
        self._selection = selection

    def __iter__(self) -> Iterator[Batch]:
        identity = self._identity()
        visits = [self._visit(self._root)]
        while visits:
            for step in visits[-1]:
                if isinstance(step, _OpenFolder):
                    visits.append(self._visit(step))
                    break
                yield step
            else:
                visits.pop()
        yield self._batch
        if self._identity() != identity:
            raise SourceError(f"{displayed(self._root.path)} became another folder while it was read.")

    def _identity(self) -> tuple[int, int]:
        try:
            status = os.stat(self._root.path)
        except OSError as problem:
            raise SourceGoneError(
                f"{displayed(self._root.path)} is not there any more: {problem.strerror}.",
                hint="Is a disk not mounted?",
            ) from None
        return status.st_dev, status.st_ino

    def _visit(self, folder: _OpenFolder) -> Iterator[Batch | _OpenFolder]:
        """Yield files in the order of their names, in batches, and each folder at the position of its name."""
        ancestors: tuple[tuple[int, int], ...] = ()
        try:
            if self._options.follow_links:
                status = os.stat(folder.path)
                identity = status.st_dev, status.st_ino
                if identity in folder.ancestors:  # a link to a folder above
                    return
                ancestors = (*folder.ancestors, identity)
            names = self._list(folder)
            rules: Chain = ()
            if self._options.gitignore:
                above = rules_above(folder.path) if folder is self._root else folder.rules
                rules = rules_of(folder.path, above, repository=".git" in names.git, own=".gitignore" in names.git)
        except OSError as problem:
            if problem.errno in MISSING:
                return
            if folder is self._root:
                raise SourceError(
                    f"{displayed(folder.path)} could not be listed: {problem.strerror}.",
                    hint="Give Rowen permission to read it.",
                ) from None
            self.complete = False
            self._batch.failed.append(unreadable(folder.url.rstrip("/"), folder.path, problem))
            return
        self._select(folder, names, rules)
        files = sorted(names.files)
        start = 0
        for name in sorted(names.folders):
            end = bisect(files, name, lo=start)
            yield from self._batches(folder, files, start, end)
            yield _OpenFolder(f"{folder.path}{name}/", f"{folder.url}{_quoted(name)}/", rules, ancestors)
            start = end
        yield from self._batches(folder, files, start, len(files))

    def _list(self, folder: _OpenFolder) -> _Names:
        names = _Names([], [], set(), set())
        skips_dotted, follow = self._selection.skips_dotted, self._options.follow_links
        with os.scandir(folder.path) as entries:
            for entry in entries:
                name = entry.name
                if name[0] == ".":
                    if name == ".git" or (name == ".gitignore" and entry.is_file(follow_symlinks=False)):
                        names.git.add(name)
                    if skips_dotted(name):
                        continue
                if is_mark(name):
                    names.marks.add(name)
                if entry.is_file(follow_symlinks=False):
                    if media_type_of(name) is not None:
                        names.files.append(name)
                elif entry.is_dir(follow_symlinks=False):
                    names.folders.append(name)
                elif follow and entry.is_symlink():
                    # The target must lie inside the root, unless links may lead anywhere.
                    if follow != "anywhere" and not f"{os.path.realpath(entry.path)}/".startswith(self._real_root):
                        continue
                    try:
                        if entry.is_dir():
                            names.folders.append(name)
                        elif entry.is_file() and media_type_of(name) is not None:
                            names.files.append(name)
                    except OSError as problem:
                        if problem.errno not in MISSING:
                            raise
        return names

    def _select(self, folder: _OpenFolder, names: _Names, rules: Chain) -> None:
        """Remove the names that `.gitignore` rules, patterns and generated documentation exclude."""
        path, start = folder.path, len(self._root.path)
        if names.marks and not self._options.generated and (built := Built(names.marks)):
            before = len(names.files) + len(names.folders)
            names.files = [name for name in names.files if not built.leaves_out(name)]
            names.folders = [name for name in names.folders if not built.leaves_out(name, is_folder=True)]
            self.generated += before - len(names.files) - len(names.folders)
        if rules:
            names.files = [name for name in names.files if not ignored(path + name, rules, folder=False)]
            names.folders = [name for name in names.folders if not ignored(path + name, rules, folder=True)]
        if self._selection.by_path:
            takes, enters, within = self._selection.takes, self._selection.enters, path[start:]
            names.files = [name for name in names.files if takes(within + name)]
            names.folders = [name for name in names.folders if enters(within + name)]

    def _batches(self, folder: _OpenFolder, files: list[str], start: int, end: int) -> Iterator[Batch]:
        status_of = os.stat if self._options.follow_links else os.lstat
        max_bytes = int(self._options.max_bytes)
        for at in range(start, end, BATCH_ITEMS):
            batch, names = self._batch, files[at : min(at + BATCH_ITEMS, end)]
            quoted = str if _PLAIN("".join(names)) else _quoted
            for name in names:
                path = folder.path + name
                url = folder.url + quoted(name)
                try:
                    status = status_of(path)
                except OSError as problem:
                    if problem.errno not in MISSING:
                        batch.failed.append(unreadable(url, path, problem))
                    continue
                if status.st_size > max_bytes:
                    batch.failed.append(too_large(url, path, max_bytes))
                elif S_ISREG(status.st_mode):
                    batch.add(url, etag_of(status), status.st_size)
            if batch.full:
                self._batch = Batch()
                yield batch


def _quoted(name: str) -> str:
    return file_url(os.fsencode("/" + name)).removeprefix("file:///")
