"""Packages by name: the page of a release, its changelog and its documentation site."""

import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from rowen.connectors.base import Known, Options, Tools
from rowen.connectors.packages.archive import PackageFiles, download
from rowen.connectors.packages.indexes import Index, NpmIndex, PyPIIndex, Release
from rowen.connectors.packages.lookup import Lookup, PackageCursor, ResolvedRelease, registry_of
from rowen.connectors.packages.options import Ecosystem, PackageAddress, PackageOptions, recognise
from rowen.connectors.packages.sites import DocsSite, changelog_of, docs_of, settle
from rowen.errors import ItemError
from rowen.model.files import media_type_of
from rowen.model.items import Checkpoint, Complete, Document, Failed, Fetched, Incomplete, Observation, Raw, Unchanged
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.target import parse

_HINT = "Set the right address by --option {0}=URL, or none by {0}=off."
_MARKDOWN = re.compile(r"^#{1,6} |^```|\[[^\[\]\n]{1,200}\]\(", re.MULTILINE)


class _Registry(NamedTuple):
    """A package registry; credentials are kept apart from the URL, which may be displayed and stored."""

    url: str
    credentials: Credentials | None


class Package:
    """A connector for packages; its subclasses differ in the registry."""

    ecosystem: ClassVar[Ecosystem]
    index: ClassVar[type[Index]]
    Options: ClassVar[type[Options]] = PackageOptions

    def __init__(self, url: str, options: PackageOptions, tools: Tools) -> None:
        self._address = PackageAddress.of(self.ecosystem, url)
        self._options = options
        self._tools = tools

    @classmethod
    def recognise(cls, address: str) -> str | None:
        """Return the source URL for a package name with or without a version; None if the address names no package."""
        return recognise(cls.ecosystem, address)

    async def confirm(self) -> None:
        """Check that the release exists by looking it up."""
        registry = await self._registry()
        async with self._tools.client() as client:
            await self._resolve(client, registry, PackageCursor())

    async def pull(self, known: Known) -> AsyncGenerator[Observation]:
        """Look up the release, read its page and changelog, and read its documentation sites."""
        stored = await known.look_up([self._address.url, self._address.changelog_url])
        before = PackageCursor.of(known.cursor)
        failed = {item.url for item in known.failed}
        if any(url in failed or url not in stored or stored[url].body_hash is None for url in before.items):
            # The registry's validators are valid only if all its items are stored and would be read the same way.
            before = replace(before, at=None, etag=None, last_modified=None, body=None, archive=None, items=[])
        registry = await self._registry()
        async with self._tools.client() as client:
            resolved = await self._resolve(client, registry, before)
            observations: list[Observation]
            if resolved is None:
                now, observations = replace(before), [Unchanged(url) for url in before.items]
            else:
                now, observations = await self._read(client, registry, resolved, before)
            for observation in observations:
                yield observation
            if now.docs and now.root is None and now.version is not None:
                now.root = await settle(client, now.docs, now.version, robots=self._options.robots)
        if now.to_cursor() != known.cursor:
            yield Checkpoint(now.to_cursor(), now.version)
        sites = list(self._sites(now, had_pages=known.cursor is None and known.count > len(stored)))
        for site in sites:
            async with aclosing(site.walk(known, self._tools)) as pages:
                async for page in pages:
                    yield page
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

    async def _resolve(self, client: Client, registry: _Registry, before: PackageCursor) -> ResolvedRelease | None:
        lookup = Lookup(client, self.index(registry.url), self._address, registry.credentials, before)
        return await lookup.resolve(prereleases=self._options.prereleases)

    async def _read(
        self, client: Client, registry: _Registry, resolved: ResolvedRelease, before: PackageCursor
    ) -> tuple[PackageCursor, list[Observation]]:
        """Return the new cursor, and the observations of the package's page and changelog."""

        def chosen(option: str, declared: str | None) -> str | None:
            return declared if option == "auto" else None if option == "off" else option

        options, release = self._options, resolved.release
        docs = chosen(options.docs, docs_of(release.links, name=release.name, registry=registry.url))
        changelog = chosen(options.changelog, changelog_of(release.links, registry=registry.url))
        wants_changelog = options.changelog == "auto" and changelog is None
        archive = release.archive if wants_changelog or not release.has_readme else None
        files: PackageFiles | None = PackageFiles()
        if archive is not None:
            # Do not download an archive again whose files are stored.
            is_read = release.archive == before.archive and before.changelog is None
            files = None
            if not (release.has_readme and is_read):
                files = await download(
                    client,
                    archive,
                    max_bytes=int(options.max_bytes),
                    credentials=registry.credentials,
                    parse=self._tools.parse,
                )
        if not release.has_readme and files and files.readme:
            text = files.readme.body.decode("utf-8", "replace")
            release = replace(release, readme=text, readme_type=media_type_of(files.readme.name) or "")
        url, language = self._address.url, options.language
        observations: list[Observation] = []
        try:
            observations.append(Fetched(await read_page(release, url, self._tools, language=language)))
        except ItemError as problem:
            observations.append(Failed(url, str(problem), problem.hint))
        items = [url]
        if wants_changelog and files is None and self._address.changelog_url in before.items:
            items.append(self._address.changelog_url)
            observations.append(Unchanged(items[-1]))
        elif wants_changelog and files is not None and (file := files.changelog) is not None:
            items.append(self._address.changelog_url)
            record = {"name": release.name, "file": file.name}
            raw = Raw(items[-1], file.body, file.name, "text/plain", record=record, language=language)
            try:
                read = await self._tools.read(raw)
                observations.append(Fetched(replace(read, title=f"{release.name} changelog")))
            except ItemError as problem:
                observations.append(Failed(items[-1], str(problem), problem.hint))
        now = PackageCursor(
            resolved.at,
            resolved.etag,
            resolved.last_modified,
            resolved.body,
            release.version,
            archive,
            items,
            docs,
            None if self._address.wanted and options.docs == "auto" else docs,
            changelog,
            before.sites,
        )
        return now, observations

    def _sites(self, now: PackageCursor, *, had_pages: bool) -> Iterator[DocsSite]:
        def site(root: str, name: str, **chosen: Any) -> DocsSite:
            memory = now.sites.get(root)
            reached = memory["reached"] if memory else had_pages
            return DocsSite(root, memory=memory, had_pages=reached, hint=_HINT.format(name), **chosen)

        docs, options = now.root or now.docs, self._options
        # The walk over the documentation also reads pages below its folder.
        folder = docs and (docs[: docs.rfind("/", docs.find("//") + 2) + 1] or f"{docs}/")
        if now.changelog and not (folder and now.changelog.startswith(folder)):
            yield site(now.changelog, "changelog", options=options.for_changelog())
        if docs:
            yield site(docs, "docs", options=options.for_docs(), named=options.named_docs)


class PyPI(Package):
    """A connector for Python packages."""

    kind: ClassVar[str] = "pypi"
    ecosystem: ClassVar[Ecosystem] = "pypi"
    index: ClassVar[type[Index]] = PyPIIndex


class Npm(Package):
    """A connector for npm packages."""

    kind: ClassVar[str] = "npm"
    ecosystem: ClassVar[Ecosystem] = "npm"
    index: ClassVar[type[Index]] = NpmIndex


async def read_page(release: Release, url: str, tools: Tools, *, language: str | None) -> Document:
    """Return the page of a package: the README, with the package's name and version as its title."""
    readme = release.readme if release.has_readme else ""
    media_type = release.readme_type.partition(";")[0].strip().lower()
    if media_type not in ("text/markdown", "text/x-rst", "text/plain"):
        media_type = "text/markdown" if _MARKDOWN.search(release.readme) else "text/x-rst"
    raw = Raw(
        url,
        readme.encode("utf-8", "replace"),
        media_type=f"{media_type}; charset=utf-8",
        tags=release.keywords,
        language=language,
    )
    read = await tools.read(raw)
    lead = "" if release.summary in read.text else release.summary
    facts = {"summary": release.summary, "links": dict(release.links), **release.record}
    return replace(
        read,
        title=f"{release.name} {release.version}",
        text="\n\n".join(part for part in (lead, read.text) if part.strip()),
        record={"name": release.name, "version": release.version, **{k: v for k, v in facts.items() if v}},
    )
