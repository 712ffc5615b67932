"""A look at single files of a folder, without listing it."""

# ruff: noqa: PTH116, PTH120 -- paths stay strings, so that names which are not UTF-8 keep their exact form

import os
import stat
from collections.abc import Callable, Sequence

from rowen.connectors.files.found import NOWHERE, Batch, etag_of, too_large, unreadable
from rowen.connectors.files.selection import FilesOptions
from rowen.model.item import Gone

__all__ = ["FileLook"]

_OUTSIDE = "a link stands in its way"


class FileLook:
    """One look at some files below a root; `gone` are those that are not there any more.

    A walk enters no folder through a link unless that is wished, and neither may a look: below a folder that was
    replaced by a link there is nothing of ours.
    """

    def __init__(self, root: str, options: FilesOptions) -> None:
        self.gone: list[Gone] = []
        self._root = root
        self._real_root = os.path.realpath(root)
        self._options = options
        self._folders: dict[str, bool] = {}

    def find(self, urls: Sequence[str], path_of: Callable[[str], str]) -> Batch:
        """The files that are there, as a walk would find them; one `lstat` each, and one look at each folder."""
        batch = Batch()
        for url in urls:
            self._find(url, path_of(url), batch)
        return batch

    def _find(self, url: str, path: str, batch: Batch) -> None:
        is_root = path == self._root
        try:
            status = os.stat(path) if self._options.follow_links or is_root else os.lstat(path)
        except OSError as problem:
            if problem.errno in NOWHERE:
                self.gone.append(Gone(url, "there is no such file"))
            else:
                batch.failed.append(unreadable(url, path, problem))
            return
        if not stat.S_ISREG(status.st_mode) or not (is_root or self._is_inside(path)):
            self.gone.append(Gone(url, _OUTSIDE if stat.S_ISREG(status.st_mode) else "it is no file any more"))
        elif status.st_size > self._options.max_bytes:
            batch.failed.append(too_large(url, path, self._options.max_bytes))
        else:
            batch.add(url, etag_of(status), status.st_size)

    def _is_inside(self, path: str) -> bool:
        """Whether a walk would come to a file."""
        if self._options.follow_links == "anywhere":
            return True
        if self._options.follow_links:
            return os.path.realpath(path).startswith(f"{self._real_root.rstrip('/')}/")
        folder = os.path.dirname(path)
        if folder not in self._folders:
            within = folder[len(self._root.rstrip("/")) :]
            self._folders[folder] = os.path.realpath(folder) == self._real_root.rstrip("/") + within
        return self._folders[folder]
