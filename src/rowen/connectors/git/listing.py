"""Compares the selected files of a commit with the stored items, for all kinds of repositories.

The blob SHA of a file is its validator. A `Proof` in the cursor records the files of a commit with their SHAs. If the
stored items match the proof exactly, an unchanged commit needs no further request. After a killed run, a failed file
or a pending deletion they do not match, and the tree is read again.
"""

import hashlib
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple
from urllib.parse import quote

from pydantic import AfterValidator, ByteSize, Field

from rowen.connectors.base import Known, Options, parse_stored
from rowen.connectors.files.options import FilesOptions, Globs, Selection
from rowen.connectors.files.reading import displayed, fetched, too_large
from rowen.errors import SourceGoneError
from rowen.model.files import claims
from rowen.model.items import Failed, Observation, Unchanged

_REFERENCE = re.compile(r"(?:env|file):\S.*")
# The names that `git check-ref-format` accepts, without names that git could mistake for an option.
_REF = re.compile(r"(?!-)(?!.*(?:\.\.|@\{|//))[^\x00-\x20~^:?*\[\\\x7f]+(?<![/.])")
_LFS = b"version https://git-lfs.github.com/spec/v1\n"
# By the Git LFS specification, a pointer is smaller than 1,024 bytes.
_LFS_BYTES = 1024
# Refused blobs are stored in the cursor, which every run reads: 300 kB. Further ones are tried again in each run.
_MOST_REFUSED = 1_000
_PROOF = ("commit", "digest", "refused")  # other connectors store further fields in the same cursor


def _check_reference(value: str) -> str:
    if not _REFERENCE.fullmatch(value):
        raise ValueError("give a reference to the token, such as env:GITHUB_TOKEN; the token itself is never stored")
    return value


def _check_ref(value: str) -> str:
    if not _REF.fullmatch(value):
        raise ValueError("is no name that a branch, a tag or a commit can have")
    return value


def _check_path(value: str) -> str:
    path = value.strip("/")
    if any(part in ("", ".", "..") for part in path.split("/")) and path:
        raise ValueError("is no path inside a repository")
    return path


class RepositoryOptions(Options):
    """Options that all repositories share."""

    secret_neutral: ClassVar[frozenset[str]] = Options.secret_neutral | {"ref", "path", "include", "exclude", "hidden"}

    ref: Annotated[str, AfterValidator(_check_ref)] | None = Field(
        default=None, description="branch, tag or commit; default: the repository's default branch"
    )
    path: Annotated[str, AfterValidator(_check_path)] = Field(default="", description="only files below this path")
    include: Globs = Field(default=(), description="only these files: patterns as in .gitignore, separated by commas")
    exclude: Globs = Field(default=(), description="not these, nor anything below them; stronger than include")
    hidden: bool = Field(default=False, description="include names that start with a dot")
    max_bytes: ByteSize = Field(default=ByteSize(10_000_000), gt=0, description="maximum size of a file")
    token: Annotated[str, AfterValidator(_check_reference)] | None = Field(
        default=None, description="reference to a token: env:NAME or file:/path, never the token itself"
    )

    def reading(self) -> dict[str, Any]:
        """Return the language, the only option that affects stored items; the other options select files."""
        return {"language": self.language}


class TreeEntry(NamedTuple):
    """A regular file in a tree; a path that is not UTF-8 keeps its bytes as surrogates."""

    path: str
    sha: str
    size_bytes: int | None = None


class Blob(NamedTuple):
    """A file that is part of the source; `size_bytes` is None if the size is unknown before reading."""

    url: str
    path: str
    sha: str
    size_bytes: int | None


class RefusedBlob(NamedTuple):
    """A blob that can never be read; `keeps_copy` has the same meaning as in `Failed`."""

    url: str
    sha: str
    error: str
    hint: str | None
    keeps_copy: bool = True

    @property
    def failed(self) -> Failed:
        """Return the observation of the blob."""
        return Failed(self.url, self.error, self.hint, keeps_copy=self.keeps_copy)


async def stored_etags(known: Known) -> tuple[dict[str, str | None], frozenset[str]]:
    """Return the validators of all stored items by URL, and the URLs whose deletion is pending."""
    etags: dict[str, str | None] = {}
    leaving: set[str] = set()
    async for batch in known.everything():
        etags.update((item.url, item.etag) for item in batch)
        leaving.update(item.url for item in batch if item.is_leaving)
    return etags, frozenset(leaving)


def quoted(path: str) -> str:
    """Return a path quoted for a URL; the bytes of a path that is not UTF-8 are preserved."""
    return quote(path.encode("utf-8", "surrogateescape"), safe="/!$&'()*+,;=:@~")


class RepositoryScope:
    """The files of a repository that are part of the source, and their URLs."""

    def __init__(self, options: RepositoryOptions, path: str, url_of: Callable[[str], str]) -> None:
        self._path = path
        self._url_of = url_of
        self._selection = Selection(
            FilesOptions(include=options.include, exclude=options.exclude, hidden=options.hidden)
        )

    def select(self, entries: Iterable[TreeEntry]) -> list[Blob]:
        """Return the files that belong to the source; of several files with the same URL, only the first."""
        blobs: dict[str, Blob] = {}
        exists = False
        for entry in entries:
            within = self._within(entry.path)
            exists = exists or within is not None
            # Only forged trees have paths with empty or dotted parts, which a URL would resolve.
            is_sound = not any(part in ("", ".", "..") for part in entry.path.split("/"))
            if within is not None and is_sound and self._selection.takes_member(within):
                url = self._url_of(entry.path)
                blobs.setdefault(url, Blob(url, *entry))
        if self._path and not exists:
            raise SourceGoneError(f"There is nothing at {displayed(self._path)} in the repository.")
        return list(blobs.values())

    def enters(self, folder: str) -> bool:
        """Return whether files below `folder` may belong to the source."""
        if f"{self._path}/".startswith(f"{folder}/"):
            return True
        within = self._within(folder)
        return within is not None and self._selection.enters(within)

    def _within(self, path: str) -> str | None:
        """Return the path relative to the source's root; None if the path is outside the root."""
        if not self._path:
            return path
        if path == self._path:
            return path.rpartition("/")[2]
        return path[len(self._path) + 1 :] if path.startswith(f"{self._path}/") else None


@dataclass(frozen=True, slots=True)
class Proof:
    """Records the readable files of a commit as a digest, and lists the files that cannot be read."""

    commit: str
    digest: str
    refused: tuple[RefusedBlob, ...] = ()

    @classmethod
    def from_json(cls, value: Any) -> "Proof | None":
        """Return the proof in a cursor; None if the cursor has no readable proof."""
        own = {name: value[name] for name in _PROOF if name in value} if isinstance(value, Mapping) else value
        return parse_stored(own, cls)

    def to_json(self) -> dict[str, Any]:
        """Return the proof as JSON for a cursor."""
        return {"commit": self.commit, "digest": self.digest, "refused": [list(blob) for blob in self.refused]}

    def covers(self, etags: Mapping[str, str | None], *, leaving: Container[str] = ()) -> bool:
        """Return whether exactly the readable files of the commit are stored, apart from pending deletions."""
        return self.digest == _digest((url, etags[url]) for url in self._present(etags, leaving))

    def observations(self, urls: Iterable[str], *, leaving: Container[str] = ()) -> Iterator[Observation]:
        """Yield the observations for an unchanged commit."""
        yield from (blob.failed for blob in self.refused)
        yield from map(Unchanged, self._present(urls, leaving))

    def _present(self, urls: Iterable[str], leaving: Container[str]) -> Iterator[str]:
        refused = {blob.url for blob in self.refused}
        return (url for url in urls if url not in refused and url not in leaving)


def _digest(blobs: Iterable[tuple[str, str | None]]) -> str:
    """Return a hash of the stored files and of the content readers of plug-ins, which also decide what is stored."""
    lines = sorted(f"{url} {etag}" for url, etag in blobs)
    return hashlib.sha256("\n".join([*lines, *filter(None, [claims()])]).encode()).hexdigest()


class TreeComparison:
    """Compares the files of a commit with the stored items; `stale` lists the files to read."""

    def __init__(
        self,
        blobs: list[Blob],
        etags: Mapping[str, str | None],
        *,
        before: Proof | None,
        options: RepositoryOptions,
        ref: str,
    ) -> None:
        self.stale: list[Blob] = []
        self._blobs = blobs
        self._same: list[str] = []
        self._refused: list[RefusedBlob] = []
        self._options = options
        self._ref = ref
        refused_before = {(blob.url, blob.sha): blob for blob in before.refused} if before else {}
        for blob in blobs:
            if (refused := refused_before.get((blob.url, blob.sha))) is not None:
                self._refused.append(refused)
            elif (blob.size_bytes or 0) > options.max_bytes:
                self.too_large(blob)
            elif etags.get(blob.url) == blob.sha:
                self._same.append(blob.url)
            else:
                self.stale.append(blob)

    def settled(self) -> Iterator[Observation]:
        """Yield the observations that do not require reading a file."""
        yield from (blob.failed for blob in self._refused)
        yield from map(Unchanged, self._same)

    def take(self, blob: Blob, body: bytes) -> Observation:
        """Return the observation of a blob after reading it."""
        if len(body) > self._options.max_bytes:
            return self.too_large(blob)
        path = displayed(blob.path)
        if body.startswith(_LFS) and len(body) < _LFS_BYTES:
            error = f"{path} is stored in Git LFS; the repository has only a pointer to it."
            return self._refuse(RefusedBlob(blob.url, blob.sha, error, "Exclude it, or harvest it from its own place."))
        language = self._options.language
        return fetched(blob.url, blob.path, body, etag=blob.sha, language=language, sha=blob.sha, ref=self._ref)

    def too_large(self, blob: Blob) -> Observation:
        """Return the observation of a blob that is not read because it is too large."""
        failed = too_large(blob.url, blob.path, self._options.max_bytes)
        return self._refuse(RefusedBlob(blob.url, blob.sha, failed.error, failed.hint, failed.keeps_copy))

    def _refuse(self, refused: RefusedBlob) -> Observation:
        self._refused.append(refused)
        return refused.failed

    def proof(self, commit: str) -> Proof:
        """Return the proof for the next run; refused blobs beyond a limit are left out, and tried again."""
        refused = self._refused[:_MOST_REFUSED]
        urls = {blob.url for blob in refused}
        return Proof(
            commit, _digest((blob.url, blob.sha) for blob in self._blobs if blob.url not in urls), tuple(refused)
        )
