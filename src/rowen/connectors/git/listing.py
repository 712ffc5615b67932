"""What a commit holds, compared with what we hold: the listing rung of all repositories.

The blob SHA of a file is its validator. A `Proof` in the cursor says which files, under which SHAs, a commit was found
to have. Only if we hold exactly those does "still the same commit" prove that there is nothing to do: a run that
was killed, a file that failed, a deletion that was held back all leave something else, and the tree is read again.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

from rowen.connectors.base import Known, remembered
from rowen.connectors.files.options import FilesOptions, Selection
from rowen.connectors.files.reading import displayed, too_large
from rowen.connectors.git.options import RepositoryOptions
from rowen.errors import SourceGoneError
from rowen.model.item import Failed, Fetched, Observation, Raw, Unchanged
from rowen.model.media import claims, media_type_of

__all__ = ["FoundBlob", "Proof", "RepositoryScope", "TreeComparison", "TreeEntry", "held_etags", "quoted"]

_LFS = b"version https://git-lfs.github.com/spec/v1\n"
# The specification of pointers: smaller than 1,024 bytes.
_LFS_BYTES = 1024
# They stand in the cursor, which every run reads: 300 kB. Further ones are tried again in each run.
_MOST_REFUSED = 1_000
_PROOF = ("commit", "digest", "refused")  # what others keep beside it is none of its business


class TreeEntry(NamedTuple):
    """A regular file in a tree; names that are not UTF-8 keep their bytes as surrogates."""

    path: str
    sha: str
    size_bytes: int | None = None


class FoundBlob(NamedTuple):
    """A file that is part of the source; its size is None where only reading it would tell."""

    url: str
    path: str
    sha: str
    size_bytes: int | None


class RefusedBlob(NamedTuple):
    """A blob that cannot be read, whenever it is tried; `keeps_copy` as in `Failed`."""

    url: str
    sha: str
    error: str
    hint: str | None
    keeps_copy: bool = True

    @property
    def failed(self) -> Failed:
        """The observation of it."""
        return Failed(self.url, self.error, self.hint, keeps_copy=self.keeps_copy)


async def held_etags(known: Known) -> dict[str, str | None]:
    """The validators of all that we hold, by URL."""
    return {held.url: held.etag async for batch in known.everything() for held in batch}


def quoted(path: str) -> str:
    """A path as a part of a URL, exact for names that are not UTF-8 as well."""
    return quote(path.encode("utf-8", "surrogateescape"), safe="/!$&'()*+,;=:@~")


class RepositoryScope:
    """Which files of a repository are part of the source, and under which URLs."""

    def __init__(self, options: RepositoryOptions, path: str, url_of: Callable[[str], str]) -> None:
        self._path = path
        self._url_of = url_of
        self._selection = Selection(
            FilesOptions(include=options.include, exclude=options.exclude, hidden=options.hidden)
        )

    def find(self, entries: Iterable[TreeEntry]) -> list[FoundBlob]:
        """The files to take; of two that lead to the same URL the first one."""
        found: dict[str, FoundBlob] = {}
        there = False
        for entry in entries:
            within = self._within(entry.path)
            there = there or within is not None
            if within is not None and _is_sound(entry.path) and self._selection.takes_member(within):
                url = self._url_of(entry.path)
                found.setdefault(url, FoundBlob(url, *entry))
        if self._path and not there:
            raise SourceGoneError(f"There is nothing at {displayed(self._path)} in the repository.")
        return list(found.values())

    def enters(self, folder: str) -> bool:
        """Whether anything below a folder may be part of the source."""
        if f"{self._path}/".startswith(f"{folder}/"):
            return True
        within = self._within(folder)
        return within is not None and self._selection.enters(within)

    def _within(self, path: str) -> str | None:
        """The path as seen from the source's root; None if it is outside."""
        if not self._path:
            return path
        if path == self._path:
            return path.rpartition("/")[2]
        return path[len(self._path) + 1 :] if path.startswith(f"{self._path}/") else None


def _is_sound(path: str) -> bool:
    """Whether a path means itself in a URL; only forged trees have others."""
    return not any(part in ("", ".", "..") for part in path.split("/"))


@dataclass(frozen=True, slots=True)
class Proof:
    """What a commit was found to hold."""

    commit: str
    digest: str
    refused: tuple[RefusedBlob, ...] = ()

    @classmethod
    def from_json(cls, value: Any) -> "Proof | None":
        """The proof in a cursor; None if there is none that can be read."""
        known = {name: value[name] for name in _PROOF if name in value} if isinstance(value, Mapping) else value
        return remembered(known, cls)

    def to_json(self) -> dict[str, Any]:
        """The proof for a cursor."""
        return {"commit": self.commit, "digest": self.digest, "refused": [list(one) for one in self.refused]}

    def covers(self, held: Mapping[str, str | None]) -> bool:
        """Whether we hold exactly what the commit has, so far as it can be read."""
        refused = {one.url for one in self.refused}
        return self.digest == _digest((url, etag) for url, etag in held.items() if url not in refused)

    def observations(self, held: Iterable[str]) -> Iterator[Observation]:
        """What there is to say when nothing changed."""
        refused = {one.url for one in self.refused}
        yield from (one.failed for one in self.refused)
        yield from (Unchanged(url) for url in held if url not in refused)


def _digest(blobs: Iterable[tuple[str, str | None]]) -> str:
    """One hash of what is held. Readers of other packages choose among the files of a commit, too."""
    lines = sorted(f"{url} {etag}" for url, etag in blobs)
    return hashlib.sha256("\n".join([*lines, *filter(None, [claims()])]).encode()).hexdigest()


class TreeComparison:
    """One look at a commit: what is the same, what has to be read, what cannot be."""

    def __init__(
        self,
        found: list[FoundBlob],
        held: Mapping[str, str | None],
        *,
        before: Proof | None,
        options: RepositoryOptions,
        ref: str,
    ) -> None:
        self.stale: list[FoundBlob] = []
        self._found = found
        self._same: list[str] = []
        self._refused: list[RefusedBlob] = []
        self._options = options
        self._ref = ref
        known = {(one.url, one.sha): one for one in before.refused} if before else {}
        for one in found:
            self._sort(one, held.get(one.url), known.get((one.url, one.sha)))

    def _sort(self, found: FoundBlob, etag: str | None, refused: RefusedBlob | None) -> None:
        if refused is not None:
            self._refused.append(refused)
        elif (found.size_bytes or 0) > self._options.max_bytes:
            self.too_large(found)
        elif etag == found.sha:
            self._same.append(found.url)
        else:
            self.stale.append(found)

    def settled(self) -> Iterator[Observation]:
        """The observations that need no reading."""
        yield from (one.failed for one in self._refused)
        yield from map(Unchanged, self._same)

    def take(self, found: FoundBlob, body: bytes) -> Observation:
        """The observation of a blob that was read."""
        if len(body) > self._options.max_bytes:
            return self.too_large(found)
        if body.startswith(_LFS) and len(body) < _LFS_BYTES:
            error = f"{displayed(found.path)} is kept in Git LFS; the repository has only a pointer to it."
            return self._refuse(RefusedBlob(found.url, found.sha, error, "Exclude it, or harvest it from where it is."))
        path = displayed(found.path)
        name = path.rpartition("/")[2]
        return Fetched(
            Raw(
                found.url,
                body,
                name,
                media_type_of(name),
                record={"path": path, "sha": found.sha, "ref": self._ref},
                language=self._options.language,
                depth=path.count("/"),
                etag=found.sha,
            )
        )

    def too_large(self, found: FoundBlob) -> Observation:
        """The observation of a blob that is not read because of its size."""
        failed = too_large(found.url, found.path, self._options.max_bytes)
        return self._refuse(RefusedBlob(found.url, found.sha, failed.error, failed.hint, failed.keeps_copy))

    def _refuse(self, refused: RefusedBlob) -> Observation:
        self._refused.append(refused)
        return refused.failed

    def proof(self, commit: str) -> Proof:
        """What the look found, for the next run; what is too much to remember is simply tried again."""
        refused = self._refused[:_MOST_REFUSED]
        told = {one.url for one in refused}
        return Proof(commit, _digest((one.url, one.sha) for one in self._found if one.url not in told), tuple(refused))
