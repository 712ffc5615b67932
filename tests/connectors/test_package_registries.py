"""Where packages are asked for, how they are named, and which of their links count."""

import base64
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from rowen import UsageError
from rowen.connectors.packages import Npm, PyPI
from rowen.connectors.packages.lookup import registry_of
from rowen.connectors.packages.options import PackageAddress
from rowen.connectors.packages.sites import changelog_of, docs_of, versioned
from rowen.errors import ConfigurationError
from tests.conftest import ScratchDatabase
from tests.portals.packages import NpmRegistry, PythonIndex

REGISTRY = "https://registry.example/root"


@pytest.fixture(autouse=True)
def _kinds(kinds: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch) -> None:
    kinds(PyPI)
    kinds(Npm)
    for name in ("PIP_INDEX_URL", "PIP_CONFIG_FILE", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def index() -> Iterator[PythonIndex]:
    index = PythonIndex()
    yield index
    index.close()


def put_npm_in_path(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "npm"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


async def test_the_index_comes_from_pip_and_its_login_is_sent_but_never_stored(
    database: ScratchDatabase, index: PythonIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.publish("hay", "1.0", description="Dry grass.")
    answer, logins = index.pages["/pypi/hay/json"], []

    async def guarded(request: web.Request) -> web.Response:
        logins.append(request.headers.get("Authorization"))
        return web.Response(body=answer.body, headers=answer.headers)

    index.alter("/pypi/hay/json", handler=guarded)
    place = index.url.removeprefix("http://")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://farmer:hunter2@{place}/simple/")
    async with database.open() as r:
        run = await r.sync("pypi:hay")
        await r.sources.add("pypi:nothing")
        failed = await r.sync("nothing")

    stored = database.query("select source::text from source") + database.query("select item::text from item")
    assert run.status == "completed"
    assert logins == ["Basic " + base64.b64encode(b"farmer:hunter2").decode()]
    assert "hunter2" not in str(stored) + str(failed.error)
    assert f"{index.url}/pypi/nothing/json" in str(failed.error)


async def test_without_configuration_the_index_is_the_one_that_pip_itself_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    code = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    known = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert await registry_of(PackageAddress("pypi", "hay")) == known.strip()


async def test_pip_that_does_not_run_is_a_usage_error_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowen.connectors.packages.lookup._PIP", ("/nowhere/python",))
    monkeypatch.setattr("rowen.connectors.packages.lookup._PIP_DEFAULT", (sys.executable, "-c", "raise SystemExit(1)"))

    with pytest.raises(ConfigurationError, match="pip does not report") as caught:
        await registry_of(PackageAddress("pypi", "hay"))

    assert "--option registry=URL" in (caught.value.hint or "")


async def test_npm_prefers_the_registry_of_a_scope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_npm_in_path(
        *(tmp_path, monkeypatch),
        'case "$3" in @farm:registry) echo http://farm.example/;; *:registry) echo undefined;; '
        "registry) echo http://all.example/;; esac",
    )

    assert await registry_of(PackageAddress("npm", "@farm/hay")) == "http://farm.example/"
    assert await registry_of(PackageAddress("npm", "@other/hay")) == "http://all.example/"
    assert await registry_of(PackageAddress("npm", "hay")) == "http://all.example/"


async def test_without_npm_the_registry_must_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ConfigurationError, match="npm does not report"):
        await registry_of(PackageAddress("npm", "hay"))


async def test_headers_for_the_registry_are_references_and_go_nowhere_else(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[tuple[str, str | None]] = []
    registry, elsewhere = NpmRegistry(), NpmRegistry()
    registry.publish("hay", "1.0.0", description="Dry grass.")
    elsewhere.publish("hay", "1.0.0", files={"CHANGELOG.md": "# Changes\n"})
    for site, path in ((registry, "/hay"), (elsewhere, "/tarballs/hay-1.0.0.tgz")):
        page = site.pages[path]

        async def listening(request: web.Request, body: bytes = page.body) -> web.Response:
            requests.append((request.path, request.headers.get("Authorization")))
            return web.Response(body=body.replace(registry.url.encode(), elsewhere.url.encode()))

        site.alter(path, handler=listening)
    monkeypatch.setenv("HAY_TOKEN", "hunter2")
    options = {"registry": registry.url, "registry_headers": {"Authorization": "Bearer env:HAY_TOKEN"}}
    async with database.open() as r:
        await r.sources.add("npm:hay", options=options)
        run = await r.sync("hay")
    registry.close()
    elsewhere.close()

    assert run.stats.created == 2
    assert requests == [("/hay", "Bearer hunter2"), ("/tarballs/hay-1.0.0.tgz", None)]
    assert "hunter2" not in str(database.query("select source::text from source"))


@pytest.mark.parametrize(
    ("option", "value"),
    [("registry", "https://farmer:hunter2@hay.example/simple"), ("docs", "docs.example"), ("registry", "file:///etc")],
)
async def test_addresses_in_options_are_checked_and_logins_refused(
    database: ScratchDatabase, option: str, value: str
) -> None:
    async with database.open() as r:
        with pytest.raises(UsageError, match=f"Option '{option}'") as caught:
            await r.sources.add("pypi:hay", options={option: value})

    assert "hunter2" not in str(caught.value) + str(caught.value.hint)


@pytest.mark.parametrize(
    ("kind", "typed", "url"),
    [
        (PyPI, "pypi:httpx2", "pkg:pypi/httpx2"),
        (PyPI, "pypi:Zope.Interface_x[all]", "pkg:pypi/zope-interface-x"),
        (PyPI, "pypi:hay@1.2.3", "pkg:pypi/hay@1.2.3"),
        (PyPI, "pypi:hay@1!2.0+local", "pkg:pypi/hay@1!2.0+local"),
        (PyPI, "pypi:hay@>=1,<2", "pkg:pypi/hay@%3E%3D1%2C%3C2"),
        (PyPI, "pkg:pypi/hay@1.2.3", "pkg:pypi/hay@1.2.3"),
        (Npm, "npm:hay", "pkg:npm/hay"),
        (Npm, "npm:@farm/hay", "pkg:npm/%40farm/hay"),
        (Npm, "npm:@farm/hay@^1.2", "pkg:npm/%40farm/hay@%5E1.2"),
        (Npm, "pkg:npm/%40farm/hay@next", "pkg:npm/%40farm/hay@next"),
        (Npm, "pypi:hay", None),
        (PyPI, "https://hay.example", None),
    ],
)
def test_names_become_addresses_that_stay_themselves(kind: Any, typed: str, url: str | None) -> None:
    assert kind.recognise(typed) == url
    if url is not None:
        assert kind.recognise(url) == url
        assert PackageAddress.of(kind.ecosystem, url).url == url


@pytest.mark.parametrize(
    "typed", ["pypi:", "pypi:-x", "pypi:a/b", "pypi:../../etc", "pypi:hä", "npm:", "npm:@farm", "npm:a/b/c", "npm:.x"]
)
def test_what_is_no_name_is_refused(typed: str) -> None:
    kind = PyPI if typed.startswith("pypi") else Npm
    with pytest.raises(UsageError, match="no name of a package"):
        kind.recognise(typed)


@pytest.mark.parametrize(
    ("links", "docs"),
    [
        ({"Documentation": "https://hay.readthedocs.io"}, "https://hay.readthedocs.io"),
        ({"Home": "https://farm.example/hay", "docs": "https://docs.example/"}, "https://docs.example/"),
        ({"API Documentation": "https://docs.example/"}, "https://docs.example/"),
        ({"Homepage": "https://www.hay.example"}, "https://www.hay.example"),
        ({"Homepage": "https://farm.github.io/tools"}, "https://farm.github.io/tools"),
        ({"Homepage": "https://farm.example/"}, None),
        ({"Documentation": "https://github.com/farm/hay/wiki"}, None),
        ({"Documentation": "https://gitlab.farm.example/hay"}, None),
        ({"Documentation": "https://registry.example/root/project/hay"}, None),
        ({"Homepage": "https://www.registry.example/package/hay"}, None),
        ({"Documentation": "https://user:secret@docs.example/"}, None),
        ({"Documentation": "not a url"}, None),
        ({"Documentation": "https://[::1/"}, None),
        ({}, None),
    ],
)
def test_documentation_is_a_site_of_the_packages_own(links: dict[str, str], docs: str | None) -> None:
    assert docs_of(links, name="hay", registry=REGISTRY) == docs


@pytest.mark.parametrize(
    ("links", "changelog"),
    [
        ({"Change Log": "https://hay.example/changes"}, "https://hay.example/changes"),
        ({"What's New": "https://hay.example/new"}, "https://hay.example/new"),
        (
            {"Changelog": "https://github.com/farm/hay/blob/main/CHANGES.md#v1"},
            "https://raw.githubusercontent.com/farm/hay/main/CHANGES.md",
        ),
        ({"Release notes": "https://github.com/farm/hay/releases"}, None),
        ({"Homepage": "https://hay.example/changes"}, None),
    ],
)
def test_the_changelog_is_found_by_its_label(links: dict[str, str], changelog: str | None) -> None:
    assert changelog_of(links, registry=REGISTRY) == changelog


def test_the_documentation_of_a_version_is_where_latest_stands_in_the_path() -> None:
    assert versioned("https://hay.example/en/latest/?x=1", "2.1.3") == [
        "https://hay.example/en/2.1.3/?x=1",
        "https://hay.example/en/v2.1.3/?x=1",
        "https://hay.example/en/2.1/?x=1",
        "https://hay.example/en/v2.1/?x=1",
    ]
    assert versioned("https://hay.example/greatest/", "2.1.3") == []
