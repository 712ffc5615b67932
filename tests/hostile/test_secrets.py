"""Secrets go to origins that the user named, stand nowhere in clear, and are on no command line."""

import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from rowen.connectors.registry import connector, kinds
from rowen.errors import ConfigurationError, RefusedError, RowenError, UsageError
from rowen.model.hashes import canonical_json
from rowen.net.credentials import resolve
from rowen.operations import Rowen
from tests.cli.conftest import Cli
from tests.conftest import ScratchDatabase
from tests.harvest.embedded import pages, sync
from tests.portals.council import CouncilSite, Paper
from tests.portals.embedder import Provider
from tests.portals.packages import NpmRegistry, PythonIndex
from tests.portals.scripted import Scripted
from tests.portals.site import Page, Site, html

SECRET = "hunter2-of-this-machine"


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET", SECRET)
    for name in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def site() -> Iterator[Site]:
    with closing(Site()) as site:
        yield site


@pytest.fixture
def stranger() -> Iterator[Site]:
    with closing(Site()) as site:
        site.put("/docs/", "Docs", "Send me your keys.", links=("/docs/more",))
        site.put("/docs/more", "More", "All of them.")
        yield site


def told(site: Site) -> list[str]:
    """All that a site was sent in headers."""
    return [str(dict(asked.headers)) for asked in site.log]


def received(site: Site) -> bool:
    return any(SECRET in headers for headers in told(site))


HEADERS = {"X-Key": "env:MY_SECRET"}


# Packages


@pytest.mark.parametrize("ecosystem", ["pypi", "npm"])
async def test_headers_do_not_go_to_what_a_package_calls_its_documentation(
    database: ScratchDatabase, stranger: Site, ecosystem: str
) -> None:
    with closing(PythonIndex() if ecosystem == "pypi" else NpmRegistry()) as registry:
        if isinstance(registry, PythonIndex):
            registry.publish(
                "hay", "1.0", description="# Hay\n", project_urls={"Documentation": f"{stranger.url}/docs/"}
            )
        else:
            registry.publish("hay", "1.0.0", files={"README.md": "# Hay\n"}, homepage=f"{stranger.url}/docs/hay/")
            stranger.put("/docs/hay/", "Hay", "Send me your keys.")
        async with database.open() as r:
            options = {"registry": registry.url, "headers": HEADERS, "sitemap": False, "llms": False}
            await r.sources.add(f"{ecosystem}:hay", options=options)
            run = await r.sync("hay")

    assert run.status == "completed"
    assert stranger.log
    assert not received(stranger)


async def test_headers_do_not_follow_named_documentation_to_another_origin(
    database: ScratchDatabase, site: Site, stranger: Site
) -> None:
    site.pages["/latest/"] = Page(status=302, headers={"Location": f"{stranger.url}/latest/"})
    site.pages["/1.0/"] = Page(status=302, headers={"Location": f"{stranger.url}/1.0/"})
    stranger.put("/latest/", "Latest", "Newest.")
    stranger.put("/1.0/", "One", "Old.")
    with closing(PythonIndex()) as registry:
        registry.publish("hay", "1.0", description="# Hay\n")
        async with database.open() as r:
            options = {"registry": registry.url, "docs": f"{site.url}/latest/", "headers": HEADERS}
            await r.sources.add("pypi:hay@1.0", options=options)
            await r.sync("pypi:hay@1.0")

    assert stranger.log
    assert received(site)
    assert not received(stranger)


# Every kind that speaks HTTP

WITH_HEADERS = [kind for kind in kinds() if "headers" in connector(kind).Options.model_fields]


def redirecting(site: Site, stranger: Site) -> None:
    """Everything at the site leads to the same path at the stranger's."""

    async def elsewhere(request: Any) -> Any:
        from aiohttp import web

        return web.Response(status=307, headers={"Location": f"{stranger.url}{request.path_qs}"})

    site.default = Page(handler=elsewhere)


# Packages have registries, and what is announced comes from a feed that is a source of its own.
@pytest.mark.parametrize("kind", [kind for kind in WITH_HEADERS if kind not in ("npm", "pypi", "announced")])
async def test_a_redirect_to_another_origin_does_not_take_the_secret_along(
    database: ScratchDatabase, site: Site, stranger: Site, kind: str
) -> None:
    redirecting(site, stranger)
    async with database.open() as r:
        options = {"headers": HEADERS, **({"robots": False} if kind == "web" else {})}
        await r.sources.add(
            f"{site.url}/{'data.json' if kind == 'datajson' else ''}", kind=kind, name="x", options=options
        )
        await r.sync("x")

    assert received(site)
    assert stranger.log
    assert not received(stranger)


async def test_documents_that_a_feed_announces_elsewhere_are_asked_without_the_secret(
    database: ScratchDatabase, stranger: Site
) -> None:
    with closing(CouncilSite()) as council:
        council.publish("/own", Paper("Own"))
        council.pages["/moved"] = Page(status=307, headers={"Location": f"{stranger.url}/moved"})
        council.publish("/moved")
        council.publish("/theirs", location=f"{stranger.url}/theirs")
        async with database.open() as r:
            await r.sources.add(council.feed, name="feed")
            await r.sources.add(council.documents, name="papers", options={"headers": HEADERS, "robots": False})
            await r.sync("feed")
            await r.sync("papers")

        assert received(council)
        assert {asked.path for asked in stranger.log} == {"/moved", "/theirs"}
        assert not received(stranger)


async def test_github_s_token_stays_with_its_api(database: ScratchDatabase, site: Site, stranger: Site) -> None:
    redirecting(site, stranger)
    async with database.open() as r:
        await r.sources.add("github:me/it", name="x", options={"api_url": site.url, "token": "env:MY_SECRET"})
        await r.sync("x")

    assert received(site)
    assert stranger.log
    assert not received(stranger)


async def test_a_next_page_on_another_origin_is_asked_without_the_secret(
    database: ScratchDatabase, site: Site, stranger: Site
) -> None:
    page = {
        "@context": {"hydra": "http://www.w3.org/ns/hydra/core#", "dcat": "http://www.w3.org/ns/dcat#"},
        "@graph": [
            {"@id": f"{site.url}/catalog", "@type": "dcat:Catalog"},
            {
                "@id": f"{site.url}/catalog?page=1",
                "@type": "hydra:PartialCollectionView",
                "hydra:next": {"@id": f"{stranger.url}/catalog?page=2"},
            },
        ],
    }
    body = Page(json.dumps(page).encode(), headers={"Content-Type": "application/ld+json"})
    site.pages["/catalog"] = body
    async with database.open() as r:
        await r.sources.add(f"{site.url}/catalog", kind="dcat", name="x", options={"headers": HEADERS})
        await r.sync("x")

    assert received(site)
    assert not received(stranger)


async def test_secrets_are_not_for_a_catalog_that_a_page_only_leads_to(
    database: ScratchDatabase, site: Site, stranger: Site
) -> None:
    link = f'<link rel="alternate" type="text/turtle" href="{stranger.url}/catalog.ttl">'
    site.pages["/"] = Page(html("Portal", "Much data.", head=link))
    turtle = b"@prefix dcat: <http://www.w3.org/ns/dcat#> .\n<#c> a dcat:Catalog ; dcat:dataset <#d> .\n"
    stranger.pages["/catalog.ttl"] = Page(turtle + b"<#d> a dcat:Dataset .\n", headers={"Content-Type": "text/turtle"})
    async with database.open(probe=True) as r:
        with pytest.raises(RefusedError, match=f"leads to {stranger.url}/catalog.ttl"):
            await r.sources.add(site.url, options={"headers": HEADERS})
        source = await r.sources.add(site.url)

    assert source.url == f"{stranger.url}/catalog.ttl"
    assert not received(stranger)


# What would be stored in clear


@pytest.mark.parametrize(
    "address",
    [
        "http://TOKEN@127.0.0.1:9/",
        "https://me:TOKEN@x.example/",
        "https:/TOKEN@x.example/",
        "https:\\\\TOKEN@x.example/",
        " https://TOKEN@x.example/",
        "ht\ttps://TOKEN@x.example/",
        "TOKEN@x.example/feed",
        "me:TOKEN@x.example",
        "git+https://TOKEN@x.example/it.git",
        "git+ssh://me:TOKEN@x.example/it.git",
        "https://x.example/feed?api_key=TOKEN",
        "https://x.example/feed?access_token=TOKEN",
    ],
)
@pytest.mark.parametrize("kind", [None, "web", "ckan", "oai", "git"])
async def test_an_address_that_carries_a_secret_is_refused_by_every_kind(
    database: ScratchDatabase, address: str, kind: str | None
) -> None:
    async with database.open() as r:
        with pytest.raises(RowenError) as caught:
            await r.sources.add(address, kind=kind)

    assert "clear" in str(caught.value) or "nothing that kind" in str(caught.value) or "No kind" in str(caught.value)
    assert database.query("select url from source") == []


@pytest.mark.parametrize(
    "address",
    [
        "npm:@scope/hay@1.0",
        "pypi:hay@1.0",
        "github:me/it@main",
        "git+ssh://git@x.example/it.git",
        "https://x.example/@me",
    ],
)
async def test_an_at_sign_alone_is_no_secret(database: ScratchDatabase, address: str) -> None:
    async with database.open() as r:
        source = await r.sources.add(address)

    assert source.kind


CLEAR = [
    {"Authorization": "Bearer TOKEN"},
    {"authorization": "TOKEN"},
    {"Cookie": "session=TOKEN"},
    {"X-Api-Key": "TOKEN"},
    {"X-Key": "TOKEN"},
    {"Ocp-Apim-Subscription-Key": "TOKEN"},
    {"X-Auth": "TOKEN"},
    {"PRIVATE-TOKEN": "TOKEN"},
    {"X-Client-Secret": "TOKEN"},
    {"X-Session-Id": "TOKEN"},
    {"X-Whatever": "Basic TOKEN"},
    {"X-Whatever": "bearer TOKEN"},
]


@pytest.mark.parametrize("headers", CLEAR)
async def test_a_secret_in_clear_is_refused_wherever_options_are_given(
    database: ScratchDatabase, tmp_path: Path, headers: dict[str, str]
) -> None:
    [(name, value)] = headers.items()
    file = tmp_path / "portals.toml"
    entry = '[[source]]\nname = "x"\nkind = "web"\nurl = "https://y.example/"\n'
    file.write_text(f'{entry}options = {{ headers = {{ "{name}" = "{value}" }} }}\n')
    async with database.open() as r:
        await r.sources.add("https://x.example/", name="kept")
        for attempt in (
            r.sources.add("https://y.example/", options={"headers": headers}),
            r.sources.add("pypi:hay", options={"registry_headers": headers}),
            r.sources.edit("kept", options={"headers": headers}),
            r.sources.apply(file),
        ):
            with pytest.raises(UsageError) as caught:
                await attempt
            assert "TOKEN" not in f"{caught.value} {caught.value.hint}".replace(name, "")

    assert database.query("select name, options from source") == [("kept", {})]


@pytest.mark.parametrize(
    "headers",
    [
        {"Accept-Language": "de"},
        {"X-Requested-With": "XMLHttpRequest"},
        {"X-Keyboard": "qwertz"},
        {"Authorization": "Bearer env:MY_SECRET"},
        {"Authorization": "bearer env:MY_SECRET"},
        {"X-Key": "file:~/.keys/x"},
    ],
)
async def test_references_and_harmless_headers_are_taken(database: ScratchDatabase, headers: dict[str, str]) -> None:
    async with database.open() as r:
        source = await r.sources.add("https://x.example/", options={"headers": headers})

    assert source.options == {"headers": headers}


async def test_a_source_of_an_earlier_version_with_a_secret_in_clear_goes_on(
    database: ScratchDatabase, site: Site
) -> None:
    site.put("/", "Old", "Kept from before.")
    async with database.open() as r:
        await r.sources.add(f"{site.url}/", name="old", options={"sitemap": False, "llms": False})
        database.execute("""update source set options = options || '{"headers": {"X-Key": "literal"}}'""")
        run = await r.sync("old")

    assert run.status == "completed"
    assert "literal" in str(told(site))


def test_a_secret_in_clear_from_before_is_told_of_and_never_shown(docs: Cli, database: ScratchDatabase) -> None:
    docs("add", "https://x.example/", "--kind", "web", "--name", "old")
    database.execute("""update source set options = '{"headers": {"X-Key": "hunter2"}}' where name = 'old'""")

    done = [docs(*words) for words in (("show", "old"), ("show", "old", "--json"), ("sources", "--json"), ("doctor",))]

    assert "option headers.X-Key holds a credential in clear" in done[-1].out
    assert not [one for one in done if "hunter2" in one.out + one.err]


# What a file may reach for

FILE = """
[[source]]
name = "x"
kind = "web"
url = "{url}"
options = {{ headers = {{ X-Key = "{reference}" }} }}

[[source]]
name = "y"
kind = "git"
url = "git+https://y.example/it.git"
options = {{ cache = "/etc/profile.d" }}
"""


async def test_a_file_reaches_for_secrets_and_folders_only_if_it_is_trusted(
    database: ScratchDatabase, tmp_path: Path
) -> None:
    file = tmp_path / "portals.toml"
    file.write_text(FILE.format(url="https://stranger.example/", reference="env:MY_SECRET"))
    async with database.open() as r:
        with pytest.raises(RefusedError) as caught:
            await r.sources.apply(file)
        assert await r.sources.list() == []
        first = await r.sources.apply(file, trust=True)
        again = await r.sources.apply(file)
        file.write_text(FILE.format(url="https://stranger.example/", reference="file:~/.pgpass"))
        with pytest.raises(RefusedError, match="pgpass"):
            await r.sources.apply(file)

    assert "env:MY_SECRET, for https://stranger.example/" in str(caught.value)
    assert "/etc/profile.d" in str(caught.value)
    assert "--trust" in (caught.value.hint or "")
    assert [deed.action for deed in (*first, *again)] == ["added", "added", "unchanged", "unchanged"]


async def test_a_source_that_others_put_into_a_shared_database_gets_no_secret_of_this_machine(
    database: ScratchDatabase, site: Site, tmp_path: Path
) -> None:
    site.put("/", "Hay", "Dry grass.")
    plain = {"sitemap": False, "llms": False, "robots": False}
    theirs, worker = (type(database)(database.conninfo, tmp_path / name) for name in ("theirs", "worker"))
    async with theirs.open() as r:
        await r.sources.add(f"{site.url}/", name="x", options={"headers": HEADERS, **plain})
        assert (await r.sync("x")).status == "completed"
    site.log.clear()

    async with database.open() as r:
        for attempt in (r.sync("x"), r.sources.edit("x", options={"max_pages": 5})):
            with suppress(RefusedError):
                await attempt
        with pytest.raises(RefusedError, match="env:MY_SECRET") as caught:
            await r.sync("x")
        assert (site.log, "ROWEN_TRUST_DATABASE" in (caught.value.hint or "")) == ([], True)
        await r.sources.edit("x", options={"headers": HEADERS})
        agreed = await r.sync("x")
    async with worker.open(trust_database=True) as r:
        trusted = await r.sync("x")

    assert (agreed.status, trusted.status) == ("completed", "completed")


async def test_another_address_in_the_options_needs_agreement_again(
    database: ScratchDatabase, stranger: Site, site: Site
) -> None:
    async with database.open() as r:
        await r.sources.add("github:me/it", name="x", options={"api_url": site.url, "token": "env:MY_SECRET"})
        database.execute(f"""update source set options = options || '{{"api_url": "{stranger.url}"}}'""")
        with pytest.raises(RefusedError, match="env:MY_SECRET"):
            await r.sync("x")
        await r.sources.edit("x", options={"token": "env:MY_SECRET"})
        with pytest.raises(RefusedError, match="env:MY_SECRET"):
            await r.sync("x")

    assert stranger.log == []


@pytest.mark.parametrize("header", ["Host", "host"])
async def test_another_host_header_needs_agreement_again(database: ScratchDatabase, site: Site, header: str) -> None:
    site.put("/", "Hay", "Dry grass.")
    plain = {"sitemap": False, "llms": False, "robots": False}
    async with database.open() as r:
        await r.sources.add(f"{site.url}/", name="x", options={"headers": HEADERS, **plain})
        added = f"{{headers,{header}}}"
        database.execute(f"""update source set options = jsonb_set(options, '{added}', '"elsewhere.example"')""")
        site.log.clear()
        with pytest.raises(RefusedError, match="env:MY_SECRET"):
            await r.sync("x")
        asked = list(site.log)
        await r.sources.edit("x", options={"headers": {**HEADERS, header: "elsewhere.example"}})
        agreed = await r.sync("x")

    assert (asked, agreed.status) == ([], "completed")


async def test_another_way_of_sending_needs_agreement_again(database: ScratchDatabase, site: Site) -> None:
    async with database.open() as r:
        await r.sources.add(site.url, kind="ckan", name="x", options={"api_key": "env:MY_SECRET"})
        for change in ('{"api_key_header": "X-Debug"}', '{"include_private": true}'):
            database.execute(f"update source set options = '{{\"api_key\": \"env:MY_SECRET\"}}' || '{change}'::jsonb")
            with pytest.raises(RefusedError, match="env:MY_SECRET"):
                await r.sync("x")

    assert site.log == []


async def test_what_was_agreed_to_by_an_earlier_version_holds_where_only_addresses_matter(
    database: ScratchDatabase, site: Site
) -> None:
    """It noted references and addresses; what else is sent now has to be agreed to."""
    site.put("/", "Hay", "Dry grass.")
    plain = {"headers": HEADERS, "sitemap": False, "llms": False, "robots": False}
    agreed = database.home / "agreed"
    async with database.open() as r:
        added = await r.sources.add(f"{site.url}/", name="x", options=plain)
        earlier = sha256(canonical_json([added.kind, added.url, [["headers.X-Key", "env:MY_SECRET"]]])).hexdigest()
        agreed.write_text(f"{earlier}\n")
        held = await r.sync("x")
        more = json.dumps({**plain, "headers": {**HEADERS, "Host": "evil.example"}})
        database.execute(f"update source set options = '{more}'")
        with pytest.raises(RefusedError, match="env:MY_SECRET"):
            await r.sync("x")
        database.execute(f"update source set options = '{json.dumps(plain)}'")
        await r.sources.edit("x", options={"max_pages": 5})

    assert held.status == "completed"
    assert len(agreed.read_text().split()) == 2


def test_a_reference_to_a_file_reads_a_small_ordinary_file_and_waits_for_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_text("x" * 100_000)
    (tmp_path / "key").write_text("k3y\n")
    (tmp_path / "lines").write_text("-----BEGIN PRIVATE KEY-----\nabc\n")

    assert resolve(f"file:{tmp_path / 'key'}") == "k3y"
    for name in ("pipe", "large", "lines", "."):
        with pytest.raises(ConfigurationError):
            resolve(f"file:{tmp_path / name}")
    with pytest.raises(ConfigurationError):
        resolve("file:/dev/zero")


# Command lines


def test_psql_gets_no_password_on_its_command_line(cli: Cli, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "psql"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "$0.arguments"\nenv > "$0.environment"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    url = cli.environment["ROWEN_DATABASE_URL"]
    where = url + (" password='se cret'" if "://" not in url else "")

    done = cli(
        *("db", "psql", "--", "-c", "select 1"),
        PATH=f"{program.parent}:{os.environ['PATH']}",
        ROWEN_DATABASE_URL=where,
    )

    arguments = Path(f"{program}.arguments").read_text()
    assert done.code == 0, done.err
    assert "se cret" not in arguments
    assert "password" not in arguments
    assert arguments.endswith("-c\nselect 1\n")
    assert "PGPASSWORD=se cret" in Path(f"{program}.environment").read_text().splitlines()


# The embedder of a shared database


@pytest.fixture
def provider(kinds: Callable[[Any], None]) -> Iterator[Provider]:
    kinds(Scripted)
    with closing(Provider()) as provider:
        yield provider


async def shared(database: ScratchDatabase, provider: Provider, **settings: Any) -> Rowen:
    """A database whose database says that a stranger's server makes its vectors."""
    async with database.open(**provider.settings | settings) as r:
        await sync(r, *pages(1))
    provider.keys.clear()
    return r


@pytest.mark.parametrize("kind", ["openai", "gemini"])
async def test_an_embedder_that_only_the_database_names_gets_no_key(
    database: ScratchDatabase, provider: Provider, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROWEN_EMBEDDER")
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, SECRET)
    await shared(database, provider, embedder=kind)

    async with database.open(embedder_key="env:MY_SECRET") as r:
        await sync(r, *pages(1, 2))
    async with database.open(
        embedder="openai", embedder_url="https://mine.example/v1", embedder_key="env:MY_SECRET"
    ) as r:
        await r.search("number")

    assert provider.keys
    assert set(provider.keys) == {None}


async def test_an_embedder_that_the_settings_or_a_flag_name_gets_its_key(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with database.open(**provider.settings, embedder_key="env:MY_SECRET") as r:
        await sync(r, *pages(1))
    async with database.open(embedder="openai", embedder_key="env:MY_SECRET") as r:
        await r.embeddings.embed(embedder="openai", model="other", url=provider.base)

    assert provider.keys
    assert set(provider.keys) == {f"Bearer {SECRET}"}
