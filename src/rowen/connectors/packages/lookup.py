"""Looks up a release: finds the configured registry and resolves the version; defines the cursor of a package."""

import asyncio
import json
import re
import subprocess
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, TypedDict

from rowen.connectors.base import parse_stored
from rowen.connectors.packages.indexes import Index, Release, plain_text, table
from rowen.connectors.packages.options import PackageAddress
from rowen.errors import ConfigurationError, SourceError, SourceGoneError, UsageError
from rowen.model.hashes import body_hash
from rowen.model.items import Cursor
from rowen.model.url import Address
from rowen.model.versions import VersionSpec
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.response import Response
from rowen.net.target import redact
from rowen.programs import environment, find, isolated_python, run

_GONE = (404, 410)
_HINT = "Check the name; set another registry by --option registry=URL."

# pip and npm only print a setting; a program that takes longer hangs.
PATIENCE_S = 30.0
_LINE = re.compile(r"^(?P<key>\S*index-url)='(?P<url>[^']*)'$", re.MULTILINE)
_PIP = "from pip._internal.cli.main import main; main(['--disable-pip-version-check', 'config', 'list'])"
_PIP_DEFAULT = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
# Variables that locate the configuration of pip and npm, and that npm needs to start.
_KEPT = ("APPDATA", "HOME", "XDG_CONFIG_DIRS", "XDG_CONFIG_HOME")
_PREFIXES = ("PIP_", "npm_config_", "NPM_CONFIG_")
# In pip, the environment takes precedence over the command's section, and that over the global section.
_PIP_KEYS = (":env:.index-url", "install.index-url", "global.index-url")


async def registry_of(address: PackageAddress) -> str:
    """Return the registry URL configured for pip or npm; it may contain a login, and is never stored."""
    program, query = ("pip", _pip_index) if address.ecosystem == "pypi" else ("npm", _npm_registry)
    url = await asyncio.to_thread(query, address.name)
    if url is not None and Address.of(url).is_web:
        return url
    raise ConfigurationError(
        f"The registry of packages such as {address.name!r} is unknown: {program} does not report it.",
        hint="Set the registry by --option registry=URL.",
    )


def _pip_index(name: str) -> str | None:
    values = dict(_LINE.findall(_output(*isolated_python(_PIP)) or ""))
    return next((values[key] for key in _PIP_KEYS if key in values), None) or _output(*isolated_python(_PIP_DEFAULT))


def _npm_registry(name: str) -> str | None:
    npm = find("npm")
    if npm is None:
        return None
    scope = name.partition("/")[0] if name.startswith("@") else None
    own = _output(npm, "config", "get", f"{scope}:registry") if scope else None
    return own if own and own != "undefined" else _output(npm, "config", "get", "registry")


def _output(*command: str) -> str | None:
    """Return the output of a program, run in a neutral folder without a project's `.npmrc`; None if it fails."""
    try:
        done = run(
            command,
            environment=environment(*_KEPT, prefixes=_PREFIXES),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return (done.stdout.strip() or None) if done.returncode == 0 else None


class DocsCursor(TypedDict):
    """The result of a walk over a site: whether it found any pages, and the cursor of the walk."""

    reached: bool
    cursor: Any


@dataclass(slots=True)
class PackageCursor:
    """The cursor of a package.

    `at` is the URL of the registry's response and `body` the hash of that response. Its validators are stored here and
    not with an item, since everything read from the response depends on them. `docs` is the documentation URL that the
    package declares; `root` is the URL where the walk over it starts, once that is decided. `sites` holds the cursors
    of the walks.
    """

    at: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    body: str | None = None
    version: str | None = None
    archive: str | None = None
    items: list[str] = field(default_factory=list)
    docs: str | None = None
    root: str | None = None
    changelog: str | None = None
    sites: dict[str, DocsCursor] = field(default_factory=dict)

    @classmethod
    def of(cls, cursor: Cursor) -> "PackageCursor":
        """Return the stored cursor; an empty cursor if none is stored or it cannot be read."""
        return parse_stored(cursor, cls) or cls()

    def to_cursor(self) -> dict[str, Any]:
        """Return the cursor as JSON."""
        return asdict(self)


class ResolvedRelease(NamedTuple):
    """A release, with the URL, validators and body hash of the response that it was read from."""

    release: Release
    at: str
    etag: str | None
    last_modified: str | None
    body: str

    @classmethod
    def of(cls, release: Release, url: str, response: Response) -> "ResolvedRelease":
        """Return the release with the data of the response that it was read from."""
        return cls(release, url, response.etag, response.last_modified, body_hash(response.body).hex())


@dataclass(frozen=True, slots=True)
class Lookup:
    """Resolves the release that an address names; a response that is the same as in the last run is not read."""

    client: Client
    index: Index
    address: PackageAddress
    credentials: Credentials | None
    before: PackageCursor

    async def resolve(self, *, prereleases: bool) -> ResolvedRelease | None:
        """Return the release; None if the registry's response is the same as in the last run."""
        name, wanted = self.address.name, self.address.wanted
        try:
            spec = VersionSpec.parse(wanted)
        except ValueError as problem:
            raise UsageError(f"{wanted!r} names no version: {problem}.") from None
        if spec.names_one:
            url = self.index.release(name, wanted)
            response = await self._get(url)
            if response.status not in _GONE:
                if self._is_same(url, response):
                    return None
                answer = self._answer(url, response)
                named = plain_text(answer.get("version")) or plain_text(table(answer.get("info")).get("version"))
                release = self.index.read(answer, named) if named else None
                if release is None:
                    raise SourceError(f"{redact(url)} does not describe a release.", hint=_HINT)
                return ResolvedRelease.of(release, url, response)
        url = self.index.project(name)
        response = await self._get(url)
        if response.status in _GONE:
            raise SourceGoneError(f"{redact(url)}: there is no package {name!r}.", hint=_HINT)
        if self._is_same(url, response):
            return None
        answer = self._answer(url, response)
        offer = self.index.offer(answer)
        chosen = offer.tags.get(wanted) or (None if wanted or prereleases else offer.latest)
        version = chosen or spec.best(offer.versions, pre=prereleases)
        if version is None:
            newest = offer.latest or VersionSpec().best(offer.versions) or "none at all"
            raise SourceGoneError(f"{name} has no release that {wanted or 'latest'!r} means; the latest is {newest}.")
        release = self.index.read(answer, version)
        if release is None:
            own_url = self.index.release(name, version)
            release = self.index.read(self._answer(own_url, await self._get(own_url)), version)
            if release is None:
                raise SourceError(f"{redact(own_url)} describes another release than {version}.")
        return ResolvedRelease.of(release, url, response)

    async def _get(self, url: str) -> Response:
        known = self.before if url == self.before.at else PackageCursor()
        return await self.client.get(
            url,
            etag=known.etag,
            last_modified=known.last_modified,
            accept="application/json",
            credentials=self.credentials,
        )

    def _is_same(self, url: str, response: Response) -> bool:
        if response.not_modified:
            return True
        return response.ok and url == self.before.at and body_hash(response.body).hex() == self.before.body

    def _answer(self, url: str, response: Response) -> dict[str, Any]:
        if not response.ok:
            raise SourceError(f"{redact(url)} answered with status {response.status}.")
        try:
            answer = json.loads(response.body)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or not self.index.is_answer(answer):
            raise SourceError(f"{redact(url)} did not answer as a package registry does.", hint=_HINT)
        return answer
