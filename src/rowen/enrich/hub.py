"""Download sentence models from a model hub into the data folder, with the checksum of each file.

Hubs serve a file at `{hub}/{owner}/{model}/resolve/{revision}/{path}`. A model is moved into place after all its files
have been fetched and validated. No credentials are sent.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from rowen.enrich.model_folder import (
    LARGEST_JSON,
    LARGEST_WEIGHTS,
    MANIFEST,
    WEIGHTS,
    data_names,
    pooling_file,
    read_folder,
)
from rowen.errors import (
    BadAnswerError,
    BodyTooLargeError,
    ConfigurationError,
    EmbeddingError,
    FetchError,
    NotFoundError,
    UsageError,
)
from rowen.model.models import FetchedModel
from rowen.net.target import parse

if TYPE_CHECKING:
    from rowen.net.client import Client
    from rowen.net.response import Response, Stream
from rowen.settings import Settings

# The first character is a letter or digit, which excludes `..` and hidden folders. Hubs limit names to 96 characters.
_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
_NAME = re.compile(rf"({_PART})/({_PART})(?:@({_PART}))?")
_SHA256 = re.compile(r'(?:W/)?"?([0-9a-fA-F]{64})"?')
_COMMIT = re.compile(r"([0-9a-f]{40})")
# Quantised weights are preferred.
_WEIGHTS = tuple(f"{place}{name}" for name in WEIGHTS for place in ("onnx/", ""))
_TOKENIZERS = ("tokenizer.json", "vocab.txt")
_DECLARATIONS = (
    *("config.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"),
)
# The time for the largest weights at 10 Mbit/s. A server that sends nothing is abandoned much earlier.
_WEIGHTS_LIMIT_S = 3600.0
_PARTIAL = ".partial-"
# No running download leaves its folder unchanged for so long, since each file is limited to an hour.
_ABANDONED_S = 86_400


class _HubName(NamedTuple):
    owner: str
    model: str
    revision: str

    def __str__(self) -> str:
        return f"{self.owner}/{self.model}"

    def folder(self, home: Path) -> Path:
        return home.expanduser().absolute() / "models" / self.owner / self.model


def hub_address(settings: Settings) -> str:
    """Return the address of the hub from the settings; raise `ConfigurationError` if none is configured."""
    if not settings.model_hub:
        raise ConfigurationError(
            "No model hub is named. Nothing was fetched.",
            hint="ROWEN_MODEL_HUB names its address, such as https://models.example.org.",
        )
    if parse(settings.model_hub).login:
        raise ConfigurationError("ROWEN_MODEL_HUB contains a password. Nothing was fetched.", hint="Leave it out.")
    return settings.model_hub.rstrip("/")


def is_hub_name(model: str) -> bool:
    """Return whether a model name has the form used by hubs: `owner/model`."""
    return _NAME.fullmatch(model) is not None and "@" not in model


def fetched_folder(model: str, home: Path) -> Path | None:
    """Return the folder of a downloaded model; None if no model of this name was downloaded."""
    if not is_hub_name(model):
        return None
    folder = _named(model).folder(home)
    return folder if folder.is_dir() else None


async def fetch_model(reference: str, client: Client, settings: Settings) -> FetchedModel:
    """Download a model, `owner/model` or `owner/model@revision`; an older copy is replaced."""
    name, hub = _named(reference), hub_address(settings)
    target = name.folder(settings.home)
    with _new_folder(target) as folder:
        download = _Download(client, f"{hub}/{name}", folder, name.revision)
        await download.everything()
        model = await asyncio.to_thread(read_folder, folder)
        await asyncio.to_thread(model.spelling)
        fetched = FetchedModel(str(name), download.revision, str(target), download.size_bytes, download.files)
        manifest = {"name": fetched.name, "hub": hub, "revision": fetched.revision, "files": fetched.files}
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
    return fetched


def _named(reference: str) -> _HubName:
    match = _NAME.fullmatch(reference)
    if match is None:
        raise UsageError(
            f"{reference!r} is no name of a model. Nothing was fetched.", hint="owner/model[@revision] is one."
        )
    return _HubName(match[1], match[2], match[3] or "main")


@dataclass(slots=True)
class _Download:
    """The download of one model into a folder."""

    client: Client
    url: str
    folder: Path
    revision: str
    size_bytes: int = 0
    files: dict[str, str] = field(default_factory=dict)

    async def everything(self) -> None:
        """Download all files, the small ones first: weights cannot be used without a tokenizer."""
        await self._one_of(_TOKENIZERS, "tokenizer", LARGEST_JSON)
        for path in _DECLARATIONS:
            await self._take(path, LARGEST_JSON)
        await self._take(pooling_file(self.folder), LARGEST_JSON)
        weights = await self._one_of(_WEIGHTS, "weights in ONNX", LARGEST_WEIGHTS)
        for name in data_names(self.folder / weights):
            if re.fullmatch(_PART, name):
                beside = str(Path(weights).with_name(name))
                await self._one_of((beside,), "weights beside its graph", LARGEST_WEIGHTS)

    async def _one_of(self, paths: tuple[str, ...], what: str, most_bytes: int) -> str:
        for path in paths:
            if await self._take(path, most_bytes):
                return path
        raise NotFoundError(
            f"{self.url} at {self.revision} has no {what}: {', '.join(paths)} is not there. Nothing was kept.",
            hint="Check the name. docs/embeddings.md says what a model consists of.",
        )

    async def _take(self, path: str, most_bytes: int) -> bool:
        """Download a file; return False if it does not exist."""
        if path in self.files:
            return True
        url = f"{self.url}/resolve/{self.revision}/{quote(path)}"
        limit_s = max(_WEIGHTS_LIMIT_S, self.client.settings.total_limit_s)
        async with self.client.stream(url, max_bytes=most_bytes, limit_s=limit_s) as answer:
            if answer.head.status == 404:
                return False
            if not answer.head.ok:
                is_private = answer.head.status in (401, 403)
                hint = "There is no such model, or it is not public; no credentials are sent." if is_private else None
                raise FetchError(f"{url} answered with status {answer.head.status}. Nothing was kept.", hint=hint)
            # All further files are read from the same commit, even if the model is changed meanwhile.
            self.revision = _header(answer.head, "X-Repo-Commit", _COMMIT) or self.revision
            digest = await self._write(path, answer, most_bytes)
        expected = _header(answer.head, "X-Linked-ETag", _SHA256)
        if expected not in (None, digest):
            raise BadAnswerError(
                f"{url} has not the checksum that the hub tells: {digest} instead of {expected}. Nothing was kept.",
                hint="Try again; if the error persists, a proxy between you and the hub changes files.",
            )
        self.files[path] = digest
        return True

    async def _write(self, path: str, answer: Stream, most_bytes: int) -> str:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        try:
            with target.open("wb") as file:
                async for piece in answer:
                    self.size_bytes += file.write(piece)
                    digest.update(piece)
                file.flush()
                os.fsync(file.fileno())
        except BodyTooLargeError:
            raise BodyTooLargeError(
                f"{path} of {self.url} is larger than {most_bytes >> 20:,} MB. Nothing was kept."
            ) from None
        return digest.hexdigest()


def _header(head: Response, name: str, form: re.Pattern[str]) -> str | None:
    """Return a header's value if it has the expected form, else None; search redirects as well.

    A hub sends the header with its redirect to the storage of a large file.
    """
    for headers in (*(hop.headers for hop in head.redirects), head.headers):
        if match := form.fullmatch(headers.get(name, "")):
            return match[1].lower()
    return None


@contextmanager
def _new_folder(target: Path) -> Iterator[Path]:
    """Yield a new folder, which replaces `target` on success and is removed after an error."""
    models = target.parent.parent
    try:
        models.mkdir(mode=0o700, parents=True, exist_ok=True)
        for abandoned in models.glob(f"{_PARTIAL}*"):
            if time.time() - abandoned.stat().st_mtime > _ABANDONED_S:
                shutil.rmtree(abandoned, ignore_errors=True)
        partial = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=models))
        try:
            fresh = partial / target.name
            fresh.mkdir()
            yield fresh
            target.parent.mkdir(exist_ok=True)
            if target.exists():
                target.rename(partial / ".old")
            fresh.rename(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as problem:
        raise EmbeddingError(
            f"{target} could not be written: {problem.strerror or problem}. Nothing of it was kept.",
            hint="Check the free space and the permissions of ROWEN_HOME.",
        ) from problem
