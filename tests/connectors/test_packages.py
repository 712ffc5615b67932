"""Packages by name: what registries tell, and what they lead to."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rowen import Rowen, Run
from rowen.connectors.packages import Npm, PyPI
from rowen.errors import ItemError
from tests.conftest import ScratchDatabase
from tests.portals.packages import NpmRegistry, PythonIndex
from tests.portals.site import Page, Site

README = "# Haytools\n\nTools for making hay while the sun shines.\n\n## Install\n\nAsk a neighbour.\n"


@pytest.fixture(autouse=True)
def _kinds(kinds: Callable[[Any], None]) -> None:
    kinds(PyPI)
    kinds(Npm)


@pytest.fixture
def index() -> Iterator[PythonIndex]:
    index = PythonIndex()
    yield index
    index.close()


@pytest.fixture
def npm() -> Iterator[NpmRegistry]:
    registry = NpmRegistry()
    yield registry
    registry.close()


@pytest.fixture
def docs() -> Iterator[Site]:
    site = Site()
    site.put("/guide/", "Guide", "How to turn the hay.", links=("/guide/drying",))
    site.put("/guide/drying", "Drying", "Turn it twice.")
    yield site
    site.close()


async def sync(r: Rowen, registry: Site, address: str, **options: Any) -> Run:
    """Add a package, unless it is kept, and sync it."""
    kind = PyPI if address.startswith("pypi:") else Npm
    if kind.recognise(address) not in [source.url for source in await r.sources.list()]:
        await r.sources.add(address, options={"registry": registry.url, **options})
    return await r.sync(address)


def urls(database: ScratchDatabase) -> list[str]:
    return [url for (url,) in database.query("select url from item order by url")]


def outcomes(run: Run) -> dict[str, int]:
    names = ("created", "updated", "amended", "unchanged", "deleted", "failed")
    return {name: count for name in names if (count := getattr(run.stats, name))}


async def test_a_package_is_its_page_and_its_documentation(
    database: ScratchDatabase, index: PythonIndex, docs: Site
) -> None:
    links = {"Documentation": docs.url + "/guide/", "Source": "https://github.com/farm/haytools"}
    index.publish(
        *("haytools", "2.1.0"), description=README, summary="Hay, made.", project_urls=links, keywords="hay, sun",
        license="MIT",
    )  # fmt: skip

    async with database.open() as r:
        run = await sync(r, index, "pypi:HayTools")
        page = await r.get("pkg:pypi/haytools")
        [source] = await r.sources.list()

    assert (run.status, outcomes(run)) == ("completed", {"created": 3})
    assert urls(database) == [docs.url + "/guide/", docs.url + "/guide/drying", "pkg:pypi/haytools"]
    assert page.title == "haytools 2.1.0"
    assert page.text.startswith("Hay, made.\n\n# Haytools")
    assert list(page.tags) == ["hay", "sun"]
    assert {"version": "2.1.0", "licence": "MIT", "links": links}.items() <= page.record.items()
    assert (source.name, source.version, source.url) == ("haytools", "2.1.0", "pkg:pypi/haytools")


async def test_a_second_look_costs_a_conditional_request_each_and_no_body(
    database: ScratchDatabase, index: PythonIndex, docs: Site
) -> None:
    index.publish("haytools", "1.0", description=README, project_urls={"Docs": docs.url + "/guide/"})
    async with database.open() as r:
        await sync(r, index, "pypi:haytools", sitemap=False, llms=False)
        index.log.clear()
        docs.log.clear()
        run = await sync(r, index, "pypi:haytools")

    assert [(request.path, request.status) for request in index.log] == [("/pypi/haytools/json", 304)]
    assert docs.asked() == docs.asked(status=304) == ["/guide/", "/guide/drying"]
    assert (run.status, outcomes(run), run.stats.chunks_written) == ("completed", {"unchanged": 3}, 0)
    assert run.stats.not_modified == 3


async def test_a_registry_without_validators_is_stopped_at_the_hash(
    database: ScratchDatabase, index: PythonIndex
) -> None:
    index.publish("haytools", "1.0", description=README, files={"CHANGES.rst": "1.0\n---\n\nFirst.\n"})
    index.alter("/pypi/haytools/json", validator="none")
    async with database.open() as r:
        await sync(r, index, "pypi:haytools")
        index.log.clear()
        run = await sync(r, index, "pypi:haytools")

    assert index.asked() == ["/pypi/haytools/json"]
    assert outcomes(run) == {"unchanged": 2}


async def test_a_new_release_updates_the_page_and_leaves_the_documentation_alone(
    database: ScratchDatabase, index: PythonIndex, docs: Site
) -> None:
    links = {"Documentation": docs.url + "/guide/"}
    index.publish("haytools", "1.0", description=README, project_urls=links)
    async with database.open() as r:
        await sync(r, index, "pypi:haytools")
        index.publish("haytools", "1.1", description=README, project_urls=links)
        run = await sync(r, index, "pypi:haytools")
        [source] = await r.sources.list()
        page = await r.get("pkg:pypi/haytools")

    assert outcomes(run) == {"updated": 1, "unchanged": 2}
    assert run.stats.chunks_written == 0
    assert (source.version, page.title) == ("1.1", "haytools 1.1")


async def test_pinned_versions_live_side_by_side_and_stay(database: ScratchDatabase, index: PythonIndex) -> None:
    index.publish("haytools", "1.0", description="# Haytools\n\nWith a scythe.")
    index.publish("haytools", "2.0", description="# Haytools\n\nWith a mower.")
    async with database.open() as r:
        for address in ("pypi:haytools", "pypi:haytools@1.0", "pypi:haytools@2.0"):
            await sync(r, index, address)
        index.publish("haytools", "3.0", description="# Haytools\n\nWith a robot.")
        pinned = await r.sync("haytools@1.0")
        followed = await r.sync("haytools")
        versions = {source.name: source.version for source in await r.sources.list()}

    assert versions == {"haytools": "3.0", "haytools@1.0": "1.0", "haytools@2.0": "2.0"}
    assert (outcomes(pinned), pinned.stats.not_modified) == ({"unchanged": 1}, 1)
    assert outcomes(followed) == {"updated": 1}
    assert urls(database) == ["pkg:pypi/haytools", "pkg:pypi/haytools@1.0", "pkg:pypi/haytools@2.0"]


@pytest.mark.parametrize(
    ("address", "version"), [("@1.x", "1.10"), ("@1", "1.10"), ("@^1.2", "1.10"), ("@<1.10", "1.9"), ("@latest", "2.0")]
)
async def test_a_range_follows_its_own_releases(
    database: ScratchDatabase, index: PythonIndex, address: str, version: str
) -> None:
    for number in ("1.9", "1.10", "2.0"):
        index.publish("haytools", number, description=f"Release {number}.")

    async with database.open() as r:
        await sync(r, index, f"pypi:haytools{address}")
        [source] = await r.sources.list()

    assert source.version == version


async def test_yanked_and_pre_releases_are_passed_over_unless_wished_for(
    database: ScratchDatabase, index: PythonIndex
) -> None:
    index.publish("haytools", "1.0", description="Good.")
    index.publish("haytools", "1.1", description="Broken.", yanked=True)
    index.publish("haytools", "2.0rc1", description="Soon.")

    async with database.open() as r:
        await sync(r, index, "pypi:haytools")
        await sync(r, index, "pypi:haytools@1.1")
        bold = await r.sources.add("pypi:haytools", name="bold", options={"registry": index.url, "prereleases": True})
        await r.sync(bold.name)
        versions = {source.name: source.version for source in await r.sources.list()}

    assert versions == {"haytools": "1.0", "haytools@1.1": "1.1", "bold": "2.0rc1"}


async def test_the_changelog_of_the_release_is_found_in_its_archive_and_fetched_once(
    database: ScratchDatabase, index: PythonIndex
) -> None:
    index.publish("haytools", "1.0", description=README, files={"CHANGES.rst": "1.0\n---\n\nSharper scythes.\n"})
    async with database.open() as r:
        first = await sync(r, index, "pypi:haytools")
        changelog = await r.get("pkg:pypi/haytools?part=changelog")
        index.publish("haytools", "1.0", description=README + "\nMore.\n", files={"CHANGES.rst": "never asked for"})
        index.log.clear()
        second = await sync(r, index, "pypi:haytools")

    assert (outcomes(first), outcomes(second)) == ({"created": 2}, {"updated": 1, "unchanged": 1})
    assert changelog.title == "haytools changelog"
    assert "Sharper scythes." in changelog.text
    assert index.asked() == ["/pypi/haytools/json"]


async def test_a_changelog_that_is_a_page_is_one_page(
    database: ScratchDatabase, index: PythonIndex, docs: Site
) -> None:
    docs.put("/news", "News", "Sharper scythes.", links=("/guide/",))
    index.publish("haytools", "1.0", description=README, project_urls={"Release notes": docs.url + "/news"})
    async with database.open() as r:
        first = await sync(r, index, "pypi:haytools")
        docs.log.clear()
        second = await sync(r, index, "pypi:haytools")

    assert urls(database) == [docs.url + "/news", "pkg:pypi/haytools"]
    assert (outcomes(first), outcomes(second)) == ({"created": 2}, {"unchanged": 2})
    assert docs.asked() == docs.asked(status=304) == ["/news"]


async def test_documentation_that_never_was_there_is_a_failed_item_and_holds_up_nothing(
    database: ScratchDatabase, index: PythonIndex, docs: Site
) -> None:
    index.publish("haytools", "1.0", description=README, project_urls={"Docs": docs.url + "/nowhere/"})
    async with database.open() as r:
        first = await sync(r, index, "pypi:haytools")
        second = await sync(r, index, "pypi:haytools")
        [case] = await r.items.quarantine()

    assert (first.status, outcomes(first)) == ("completed", {"created": 1, "failed": 1})
    assert (second.status, outcomes(second)) == ("completed", {"unchanged": 1, "failed": 1})
    assert case.url == docs.url + "/nowhere/"
    assert "docs=off" in (case.hint or "")


async def test_documentation_that_is_down_keeps_its_pages(
    database: ScratchDatabase, index: PythonIndex, docs: Site
) -> None:
    index.publish("haytools", "1.0", description=README, project_urls={"Docs": docs.url + "/guide/"})
    async with database.open() as r:
        await sync(r, index, "pypi:haytools")
        docs.down = True
        index.publish("haytools", "1.1", description=README, project_urls={"Docs": docs.url + "/guide/"})
        down = await sync(r, index, "pypi:haytools")
        still = await r.sync("haytools", full=True)
        docs.down = False
        up = await sync(r, index, "pypi:haytools")

    assert (down.status, outcomes(down)) == ("partial", {"updated": 1, "failed": 1})
    assert still.status == "partial"
    assert (up.status, outcomes(up)) == ("completed", {"unchanged": 3})
    assert len(urls(database)) == 3


async def test_without_a_site_of_its_own_a_package_is_only_its_page(
    database: ScratchDatabase, index: PythonIndex
) -> None:
    links = {
        "Documentation": "https://github.com/farm/haytools#readme",
        "Docs": f"{index.url}/project/haytools/",
        "Homepage": "https://farm.example/",
        "Manual": "ftp://farm.example/haytools",
    }
    index.publish("haytools", "1.0", description=README, project_urls=links)
    async with database.open() as r:
        run = await sync(r, index, "pypi:haytools")

    assert (run.status, outcomes(run)) == ("completed", {"created": 1})
    assert index.asked() == ["/pypi/haytools/json"]


async def test_a_pinned_version_leads_to_the_documentation_of_that_version(
    database: ScratchDatabase, index: PythonIndex, docs: Site
) -> None:
    docs.pages["/"] = Page(status=302, headers={"Location": "/en/latest/"})
    docs.put("/en/latest/", "Latest", "With a robot.")
    docs.put("/en/v1.0/", "Old", "With a scythe.")
    index.publish("haytools", "1.0.2", description=README, project_urls={"Documentation": docs.url + "/"})
    async with database.open() as r:
        await sync(r, index, "pypi:haytools@1.0.2", sitemap=False, llms=False)
        docs.log.clear()
        second = await sync(r, index, "pypi:haytools@1.0.2")

    assert urls(database) == [docs.url + "/en/v1.0/", "pkg:pypi/haytools@1.0.2"]
    assert outcomes(second) == {"unchanged": 2}
    assert docs.asked() == ["/en/v1.0/"]


async def test_documentation_can_be_named_or_left_out(
    database: ScratchDatabase, index: PythonIndex, docs: Site
) -> None:
    index.publish("haytools", "1.0", description=README, project_urls={"Docs": docs.url + "/nowhere/"})
    async with database.open() as r:
        named = await sync(r, index, "pypi:haytools", docs=docs.url + "/guide/", max_pages=1)
        await r.sources.edit("haytools", options={"docs": "off"})
        off = await r.sync("haytools")

    assert outcomes(named) == {"created": 2}
    assert outcomes(off) == {"unchanged": 1, "deleted": 1}


async def test_other_options_of_reading_read_the_page_anew(database: ScratchDatabase, index: PythonIndex) -> None:
    index.publish("haytools", "1.0", description=README)
    async with database.open() as r:
        await sync(r, index, "pypi:haytools")
        await r.sources.edit("haytools", options={"language": "de"})
        run = await r.sync("haytools")
        page = await r.get("pkg:pypi/haytools")

    assert (outcomes(run), page.language) == ({"amended": 1}, "de")


@pytest.mark.parametrize(
    ("page", "status", "message"),
    [
        (None, "failed", "there is no package 'haytools'"),
        (Page(b"<html>Welcome</html>"), "failed", "did not answer as a package registry does"),
        (Page(b'{"info": '), "failed", "did not answer as a package registry does"),
        (Page(b'{"info": null}'), "failed", "did not answer as a package registry does"),
        (Page(b"[" * 100_000), "failed", "did not answer as a package registry does"),
        (Page(b"{}", status=500), "failed", "status 500"),
    ],
)
async def test_an_answer_that_makes_no_sense_leaves_everything_as_it_was(
    database: ScratchDatabase, index: PythonIndex, page: Page | None, status: str, message: str
) -> None:
    index.publish("haytools", "1.0", description=README)
    async with database.open() as r:
        await sync(r, index, "pypi:haytools")
        del index.pages["/pypi/haytools/json"]
        if page is not None:
            index.pages["/pypi/haytools/json"] = page
        run = await sync(r, index, "pypi:haytools")

    assert run.status == status
    assert message in (run.error or "")
    assert urls(database) == ["pkg:pypi/haytools"]


async def test_a_version_that_does_not_exist_is_named_with_the_latest(
    database: ScratchDatabase, index: PythonIndex
) -> None:
    index.publish("haytools", "1.0", description=README)
    async with database.open() as r:
        run = await sync(r, index, "pypi:haytools@7")

    assert run.status == "failed"
    assert "haytools has no release that '7' means; the latest is 1.0." in (run.error or "")


async def test_metadata_of_the_wrong_types_is_passed_over(database: ScratchDatabase, index: PythonIndex) -> None:
    odd: dict[str, Any] = dict.fromkeys(
        ("summary", "keywords", "project_urls", "home_page", "license", "description"), 7
    )
    index.publish("haytools", "1.0", classifiers=[1, None], requires_dist={"a": [1]}, **odd)
    async with database.open() as r:
        run = await sync(r, index, "pypi:haytools")

    assert (run.status, outcomes(run)) == ("completed", {"created": 1})


@pytest.mark.parametrize(
    ("readme", "content_type", "heading"),
    [
        ("Hay\n===\n\nText.\n", "text/x-rst", "# Hay"),
        ("Hay\n===\n\n.. note:: Text.\n", None, "# Hay"),
        ("# Hay\n\nText.\n", None, "# Hay"),
        ("# no heading\n", "text/plain", "\\# no heading"),
        ("UNKNOWN", "", "Made."),
    ],
)
async def test_a_readme_is_read_by_its_format(
    database: ScratchDatabase, index: PythonIndex, readme: str, content_type: str | None, heading: str
) -> None:
    index.publish("hay", "1", description=readme, description_content_type=content_type, summary="Made.")
    async with database.open() as r:
        await sync(r, index, "pypi:hay")
        page = await r.get("pkg:pypi/hay")

    assert heading in page.text.splitlines()


async def test_npm_follows_the_tag_latest_and_reads_the_archive(
    database: ScratchDatabase, npm: NpmRegistry, docs: Site
) -> None:
    home = docs.url + "/guide/@farm/haytools/"
    docs.put("/guide/@farm/haytools/", "Guide", "How to turn the hay.")
    files = {"README.md": README, "CHANGELOG.md": "# Changes\n\n## 1.0.0\n\nSharper.\n", "index.js": "0"}
    npm.publish("@farm/haytools", "1.0.0", files=files, homepage=home, repository="github:farm/haytools")
    npm.publish("@farm/haytools", "2.0.0-next.1", files=files, tag="next")

    async with database.open() as r:
        first = await sync(r, npm, "npm:@farm/haytools")
        npm.log.clear()
        second = await sync(r, npm, "npm:@farm/haytools")
        page = await r.get("pkg:npm/%40farm/haytools")
        [source] = await r.sources.list()

    assert urls(database) == [home, "pkg:npm/%40farm/haytools", "pkg:npm/%40farm/haytools?part=changelog"]
    assert (outcomes(first), outcomes(second)) == ({"created": 3}, {"unchanged": 3})
    assert (page.title, source.version) == ("@farm/haytools 1.0.0", "1.0.0")
    assert page.record["links"]["Repository"] == "https://github.com/farm/haytools"
    assert [request.status for request in npm.log] == [304]


async def test_npm_finds_the_readme_of_a_pinned_version_in_its_archive(
    database: ScratchDatabase, npm: NpmRegistry
) -> None:
    npm.publish("JSONHay", "1.0.0", files={"README.md": "# Old hay\n"})
    npm.publish("JSONHay", "1.0.1", files={"README.md": "# New hay\n"})

    async with database.open() as r:
        await sync(r, npm, "npm:JSONHay@1.0.0")
        await sync(r, npm, "npm:JSONHay@latest")
        old, new = await r.get("pkg:npm/JSONHay@1.0.0"), await r.get("pkg:npm/JSONHay")

    assert (old.text.strip(), new.text.strip()) == ("# Old hay", "# New hay")


async def test_npm_tags_name_releases_and_deprecated_ones_are_passed_over(
    database: ScratchDatabase, npm: NpmRegistry
) -> None:
    npm.publish("hay", "1.0.0")
    npm.publish("hay", "1.1.0", deprecated="Rots.")
    npm.publish("hay", "2.0.0-next.3", tag="next")
    npm.publish("hay", "0.9.0", tag="latest")

    async with database.open() as r:
        for address in ("npm:hay@next", "npm:hay@1.x", "npm:hay"):
            await sync(r, npm, address)
        versions = [source.version for source in await r.sources.list()]

    assert sorted(filter(None, versions)) == ["0.9.0", "1.0.0", "2.0.0-next.3"]


@pytest.mark.parametrize("body", [b"not gzip", b"\x1f\x8b\x08\x00damaged", b""])
async def test_a_damaged_archive_costs_only_the_changelog(
    database: ScratchDatabase, npm: NpmRegistry, body: bytes
) -> None:
    npm.publish("hay", "1.0.0", description="Dry grass.", files={"CHANGELOG.md": "# Changes\n"})
    npm.alter("/tarballs/hay-1.0.0.tgz", body=body)

    async with database.open() as r:
        run = await sync(r, npm, "npm:hay")
        page = await r.get("pkg:npm/hay")

    assert (run.status, outcomes(run), page.text) == ("completed", {"created": 1}, "Dry grass.")


async def test_an_archive_that_unpacks_without_end_is_left(
    database: ScratchDatabase, npm: NpmRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rowen.connectors.packages.archive.MOST_UNPACKED_BYTES", 100_000)
    npm.publish("hay", "1.0.0", files={"README.md": README, "data.bin": "0" * 1_000_000, "CHANGELOG.md": "# Changes\n"})

    async with database.open() as r:
        run = await sync(r, npm, "npm:hay")

    assert (run.status, outcomes(run)) == ("completed", {"created": 1})


@pytest.mark.parametrize(
    ("answer", "status", "message"),
    [
        ({"name": "hay", "time": {"unpublished": {}}}, "failed", "hay has no release that 'latest' means"),
        ({"name": "hay", "versions": [], "dist-tags": {"latest": []}}, "failed", "hay has no release"),
        ({"error": "not found"}, "failed", "did not answer as a package registry does"),
        ({"name": "hay", "versions": {"1": {"version": "1", "dist": 7, "bugs": [], "license": [7]}}}, "completed", ""),
    ],
)
async def test_odd_answers_of_npm_registries_are_understood(
    database: ScratchDatabase, npm: NpmRegistry, answer: Any, status: str, message: str
) -> None:
    npm.pages["/hay"] = Page(json.dumps(answer).encode())

    async with database.open() as r:
        run = await sync(r, npm, "npm:hay")

    assert run.status == status
    assert message in (run.error or "")


async def test_an_archive_that_is_not_to_be_had_right_now_is_tried_again(
    database: ScratchDatabase, npm: NpmRegistry
) -> None:
    npm.publish("hay", "1.0.0", files={"README.md": README, "CHANGELOG.md": "# Changes\n"})
    npm.alter("/tarballs/hay-1.0.0.tgz", status=503)

    async with database.open() as r:
        down = await sync(r, npm, "npm:hay")
        npm.alter("/tarballs/hay-1.0.0.tgz", status=200)
        up = await sync(r, npm, "npm:hay")

    assert (down.status, up.status, outcomes(up)) == ("failed", "completed", {"created": 2})


async def test_a_page_whose_latest_version_failed_is_read_again_although_the_registry_has_no_news(
    database: ScratchDatabase, index: PythonIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failing(*_: object, **__: object) -> None:
        raise ItemError("No worker was left.")

    index.publish("haytools", "2.1.0", description=README)
    async with database.open() as r:
        await sync(r, index, "pypi:haytools")
        index.publish("haytools", "2.2.0", description=README + "\n\nNew.")
        with monkeypatch.context() as patched:
            patched.setattr("rowen.connectors.packages.read_page", failing)
            broken = [await sync(r, index, "pypi:haytools") for _ in range(2)]
        healed = await sync(r, index, "pypi:haytools")
        page = await r.get("pkg:pypi/haytools")

    assert [outcomes(run) for run in (*broken, healed)] == [{"failed": 1}, {"failed": 1}, {"updated": 1}]
    assert page.title == "haytools 2.2.0"
