"""Asking a registry: which release is meant, and what it says of it."""

import json
from typing import Any, NamedTuple, Protocol

from rowen.connectors.packages.address import PackageAddress
from rowen.connectors.packages.memory import PackageCursor
from rowen.connectors.packages.release import Offer, Release, plain_text, table
from rowen.errors import SourceError, SourceGoneError, UsageError
from rowen.model.hashes import body_hash
from rowen.model.versions import VersionSpec
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.response import Response
from rowen.net.target import redact

__all__ = ["FoundRelease", "Index", "Lookup"]

_GONE = frozenset({404, 410})
_HINT = "Check the name; another registry is named with --option registry=URL."


class Index(Protocol):
    """The answers of one kind of registry."""

    def __init__(self, base: str) -> None: ...

    def project(self, name: str) -> str:
        """Where all releases are told."""
        ...

    def release(self, name: str, version: str) -> str:
        """Where one release is told."""
        ...

    def is_answer(self, told: dict[str, Any]) -> bool:
        """Whether this is an answer of such a registry."""
        ...

    def offer(self, told: dict[str, Any]) -> Offer:
        """The releases in an answer for all."""
        ...

    def read(self, told: dict[str, Any], version: str) -> Release | None:
        """One release; None if the answer does not tell of it."""
        ...


class FoundRelease(NamedTuple):
    """A release, and the answer that led to it."""

    release: Release
    at: str
    etag: str | None
    last_modified: str | None
    body: str


class Lookup:
    """Finds the release that an address means. What was remembered of the registry's answer spares its body."""

    def __init__(
        self,
        client: Client,
        index: Index,
        address: PackageAddress,
        *,
        credentials: Credentials | None,
        before: PackageCursor,
    ) -> None:
        self._client = client
        self._index = index
        self._address = address
        self._credentials = credentials
        self._before = before

    async def find(self, *, prereleases: bool) -> FoundRelease | None:
        """The release; None if the registry still says what it said last time."""
        name, spec = self._address.name, self._spec()
        if spec.names_one:
            url = self._index.release(name, self._address.wanted)
            response = await self._ask(url)
            if response.status not in _GONE:
                return self._one(url, response)
        url = self._index.project(name)
        response = await self._ask(url)
        if response.status in _GONE:
            raise SourceGoneError(f"{redact(url)}: there is no package {name!r}.", hint=_HINT)
        if self._is_same(url, response):
            return None
        told = self._told(url, response)
        version = self._choose(self._index.offer(told), spec, prereleases)
        release = self._index.read(told, version) or await self._read(version)
        return _found(release, url, response)

    def _spec(self) -> VersionSpec:
        try:
            return VersionSpec.parse(self._address.wanted)
        except ValueError as problem:
            raise UsageError(f"{self._address.wanted!r} names no version: {problem}.") from None

    def _choose(self, offer: Offer, spec: VersionSpec, prereleases: bool) -> str:
        wanted = self._address.wanted
        if wanted in offer.tags:
            return offer.tags[wanted]
        chosen = None if wanted or prereleases else offer.latest
        chosen = chosen or spec.best(offer.versions, pre=prereleases)
        if chosen is None:
            newest = offer.latest or VersionSpec().best(offer.versions) or "none at all"
            raise SourceGoneError(
                f"{self._address.name} has no release that {wanted or 'latest'!r} means; the latest is {newest}."
            )
        return chosen

    async def _read(self, version: str) -> Release:
        """A release that the answer for all of them does not tell enough of."""
        url = self._index.release(self._address.name, version)
        release = self._index.read(self._told(url, await self._ask(url)), version)
        if release is None:
            raise SourceError(f"{redact(url)} told of another release than {version}.")
        return release

    def _one(self, url: str, response: Response) -> FoundRelease | None:
        if self._is_same(url, response):
            return None
        told = self._told(url, response)
        version = plain_text(told.get("version")) or plain_text(table(told.get("info")).get("version"))
        release = self._index.read(told, version) if version else None
        if release is None:
            raise SourceError(f"{redact(url)} does not tell of a release.", hint=_HINT)
        return _found(release, url, response)

    async def _ask(self, url: str) -> Response:
        known = self._before if url == self._before.at else PackageCursor()
        return await self._client.get(
            url,
            etag=known.etag,
            last_modified=known.last_modified,
            accept="application/json",
            credentials=self._credentials,
        )

    def _is_same(self, url: str, response: Response) -> bool:
        if response.not_modified:
            return True
        return response.ok and url == self._before.at and body_hash(response.body).hex() == self._before.body

    def _told(self, url: str, response: Response) -> dict[str, Any]:
        if not response.ok:
            raise SourceError(f"{redact(url)} answered with status {response.status}.")
        try:
            told = json.loads(response.body)
        except (ValueError, RecursionError):
            told = None
        if not isinstance(told, dict) or not self._index.is_answer(told):
            raise SourceError(f"{redact(url)} did not answer as a package registry does.", hint=_HINT)
        return told


def _found(release: Release, url: str, response: Response) -> FoundRelease:
    return FoundRelease(release, url, response.etag, response.last_modified, body_hash(response.body).hex())
