"""A package: its page, its changelog and its documentation, at one release."""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import ClassVar, NamedTuple

from rowen.connectors.base import Held, Known, Options, Tools
from rowen.connectors.packages.address import Ecosystem, PackageAddress, recognise
from rowen.connectors.packages.archive import File, PackageFiles, download
from rowen.connectors.packages.configured import registry_of
from rowen.connectors.packages.links import changelog_of, docs_of
from rowen.connectors.packages.lookup import FoundRelease, Index, Lookup
from rowen.connectors.packages.memory import PackageCursor
from rowen.connectors.packages.options import PackageOptions
from rowen.connectors.packages.release import Release, page
from rowen.connectors.packages.sites import DocsSite, settle
from rowen.errors import ItemError
from rowen.model.files import media_type_of
from rowen.model.items import Checkpoint, Complete, Failed, Fetched, Incomplete, Observation, Raw, Unchanged
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.target import parse

__all__ = ["Package"]

_HINT = "Name the right address with --option {0}=URL, or none with {0}=off."


class _Registry(NamedTuple):
    """Where packages are asked for; the login is kept apart from the URL, which may be shown and stored."""

    url: str
    credentials: Credentials | None


class Package:
    """Reads a package; the kinds differ in the registry that they ask."""

    ecosystem: ClassVar[Ecosystem]
    index: ClassVar[type[Index]]
    Options: ClassVar[type[Options]] = PackageOptions

    def __init__(self, url: str, options: PackageOptions, tools: Tools) -> None:
        self._address = PackageAddress.of(self.ecosystem, url)
        self._options = options
        self._tools = tools

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """The source URL of a package's name, with or without a version."""
        return recognise(cls.ecosystem, address)

    async def confirm(self) -> None:
        """Ask the registry for the release that a run would read."""
        registry = await self._registry()
        async with self._tools.client() as client:
            await self._lookup(client, registry, PackageCursor())

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Ask the registry, and walk over what it leads to."""
        held = await known.look_up([self._address.url, self._address.changelog_url])
        before = _remembered(PackageCursor.of(known.cursor), held, failed={one.url for one in known.failed})
        registry = await self._registry()
        async with self._tools.client() as client:
            found = await self._lookup(client, registry, before)
            now, seen = await self._take(client, registry, found, before) if found else _same(before)
            for observation in seen:
                yield observation
            if now.docs and now.root is None:
                now.root = await self._settled(client, now)
        if now.to_cursor() != known.cursor:
            yield Checkpoint(now.to_cursor(), now.version)
        had_pages = known.cursor is None and known.count > len(held)
        async with aclosing(self._walk(known, now, had_pages)) as observations:
            async for observation in observations:
                yield observation

    async def _walk(self, known: Known, now: PackageCursor, had_pages: bool) -> AsyncGenerator[Observation]:
        sites = list(self._sites(now, had_pages))
        for site in sites:
            async with aclosing(site.walk(known, self._tools)) as observations:
                async for observation in observations:
                    yield observation
        after = replace(now, sites={site.root: site.memory for site in sites if site.memory is not None})
        if after != now:
            yield Checkpoint(after.to_cursor(), after.version)
        trouble = next((site.trouble for site in sites if site.trouble), None)
        yield Complete(beyond=sum(site.beyond for site in sites)) if trouble is None else Incomplete(trouble)

    async def _registry(self) -> _Registry:
        target = parse(self._options.registry or await registry_of(self._address))
        login = {"Authorization": target.login} if target.login else {}
        values = {**login, **self._options.registry_headers}
        return _Registry(target.url, Credentials.of(target.url, values))

    async def _lookup(self, client: Client, registry: _Registry, before: PackageCursor) -> FoundRelease | None:
        index = self.index(registry.url)
        lookup = Lookup(client, index, self._address, credentials=registry.credentials, before=before)
        return await lookup.find(prereleases=self._options.prereleases)

    async def _take(
        self, client: Client, registry: _Registry, found: FoundRelease, before: PackageCursor
    ) -> tuple[PackageCursor, list[Observation]]:
        """What the registry's answer amounts to."""
        release = found.release
        docs = self._chosen(self._options.docs, docs_of(release.links, name=release.name, registry=registry.url))
        changelog = self._chosen(self._options.changelog, changelog_of(release.links, registry=registry.url))
        wanted = self._options.changelog == "auto" and changelog is None
        needed = release.archive if wanted or not release.has_readme else None
        files = await self._files(client, registry, release, before) if needed else PackageFiles()
        seen = [await self._page(release, files), *(await self._changelog(release, files, before) if wanted else ())]
        now = PackageCursor(
            found.at,
            found.etag,
            found.last_modified,
            found.body,
            release.version,
            needed,
            [url for observation in seen if (url := _url(observation))],
            docs,
            None if self._address.wanted and self._options.docs == "auto" else docs,
            changelog,
            before.sites,
        )
        return now, seen

    def _chosen(self, option: str, declared: str | None) -> str | None:
        return declared if option == "auto" else None if option == "off" else option

    async def _files(
        self, client: Client, registry: _Registry, release: Release, before: PackageCursor
    ) -> PackageFiles | None:
        """The files of the release; None if they are those that we have."""
        looked_into = release.archive == before.archive and before.changelog is None
        if release.archive is None or (release.has_readme and looked_into):
            return None
        limit = int(self._options.max_bytes)
        return await download(
            client, release.archive, max_bytes=limit, credentials=registry.credentials, parse=self._tools.parse
        )

    async def _page(self, release: Release, files: PackageFiles | None) -> Observation:
        if not release.has_readme and files and files.readme:
            text = files.readme.body.decode("utf-8", "replace")
            release = replace(release, readme=text, readme_type=media_type_of(files.readme.name) or "")
        try:
            return Fetched(await page(release, self._address.url, self._tools, language=self._options.language))
        except ItemError as problem:
            return Failed(self._address.url, str(problem), problem.hint)

    async def _changelog(
        self, release: Release, files: PackageFiles | None, before: PackageCursor
    ) -> list[Observation]:
        url = self._address.changelog_url
        if files is None:
            return [Unchanged(url)] if url in before.items else []
        if files.changelog is None:
            return []
        try:
            read = await self._tools.read(self._raw(url, files.changelog, release))
        except ItemError as problem:
            return [Failed(url, str(problem), problem.hint)]
        return [Fetched(replace(read, title=f"{release.name} changelog"))]

    def _raw(self, url: str, file: File, release: Release) -> Raw:
        record = {"name": release.name, "file": file.name}
        return Raw(
            url, file.body, name=file.name, media_type="text/plain", record=record, language=self._options.language
        )

    async def _settled(self, client: Client, now: PackageCursor) -> str | None:
        if now.docs is None or now.version is None:
            return None
        return await settle(client, now.docs, now.version, robots=self._options.robots)

    def _sites(self, now: PackageCursor, had_pages: bool) -> Iterator[DocsSite]:
        docs = now.root or now.docs
        if now.changelog and not (docs and _lies_below(now.changelog, docs)):
            yield _site(now.changelog, "changelog", self._options, now, had_pages)
        if docs:
            yield _site(docs, "docs", self._options, now, had_pages)


def _site(root: str, name: str, options: PackageOptions, now: PackageCursor, had_pages: bool) -> DocsSite:
    memory = now.sites.get(root)
    chosen = options.for_docs() if name == "docs" else options.for_changelog()
    reached = memory["reached"] if memory else had_pages
    return DocsSite(root, chosen, memory, reached, _HINT.format(name), options.named_docs if name == "docs" else None)


def _lies_below(url: str, root: str) -> bool:
    """Whether the walk over a site comes by this page."""
    return url.startswith(root[: root.rfind("/", root.find("//") + 2) + 1] or f"{root}/")


def _remembered(memory: PackageCursor, held: Mapping[str, Held], *, failed: set[str]) -> PackageCursor:
    """The memory; without the registry's validators, if what they vouch for is not held as we would read it now."""
    if all(url in held and held[url].body_hash is not None and url not in failed for url in memory.items):
        return memory
    return replace(memory, at=None, etag=None, last_modified=None, body=None, archive=None, items=[])


def _same(before: PackageCursor) -> tuple[PackageCursor, list[Observation]]:
    return replace(before), [Unchanged(url) for url in before.items]


def _url(observation: Observation) -> str | None:
    match observation:
        case Fetched(item):
            return item.url
        case Unchanged(url) | Failed(url):
            return url
    return None
