"""One portal under several addresses is harvested once, unless somebody insists."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from rowen.errors import UsageError
from rowen.model.sources import Source
from rowen.operations.discovery import SameAs, Site, same_as
from tests.conftest import ScratchDatabase
from tests.portals.ckan import CkanPortal
from tests.portals.site import Page
from tests.portals.site import Site as WebSite


@pytest.mark.parametrize(
    ("kind", "url", "options", "is_same"),
    [
        ("ckan", "https://data.city.example", {}, True),
        ("ckan", "http://www.data.city.example/index.php", {}, True),
        ("ckan", "https://DATA.city.example:443//", {}, True),
        ("ckan", "https://data.city.example/ckan", {}, False),
        ("ckan", "https://old.city.example", {}, True),
        ("ckan", "https://data.city.example", {"filter": "groups:hay"}, False),
        ("ckan", "https://data.city.example", {"page_size": 10, "aliases": ["https://a.example"]}, True),
        ("ckan", "https://b.example", {"aliases": ["https://data.city.example/dataset/hay"]}, True),
        ("dcat", "https://data.city.example", {}, False),
    ],
)
def test_addresses_of_one_portal_are_told_from_others(
    kind: str, url: str, options: dict[str, Any], is_same: bool
) -> None:
    held = Source(1, "city", "ckan", "https://data.city.example", options={"aliases": ["https://old.city.example/"]})

    assert (same_as(Site(kind, url, options), [held], whatever_is_read=False) is held) == is_same


async def test_a_portal_that_is_kept_is_not_added_again_unless_it_is_given_a_name(database: ScratchDatabase) -> None:
    told: list[Any] = []
    async with database.open() as r:
        await r.sources.add("ckan:https://data.city.example", name="city")
        with pytest.raises(UsageError, match="kept already, as 'city', whose address is https:"):
            await r.sources.add("ckan:http://www.data.city.example/")
        second = await r.sources.add("ckan:http://www.data.city.example/", name="again", found=told.append)
        part = await r.sources.add(
            "ckan:https://data.city.example", name="part", options={"filter": "hay"}, found=told.append
        )

    assert (second.name, part.name) == ("again", "part")
    assert told == [SameAs("http://www.data.city.example", "city")]
    assert "kept as 'city': both are harvested" in told[0].words


async def test_a_portal_that_calls_itself_by_the_address_of_another_is_that_one(database: ScratchDatabase) -> None:
    with closing(CkanPortal()) as portal, closing(CkanPortal()) as mirror:
        mirror.site_url = f"{portal.url}/"
        async with database.open(probe=True) as r:
            await r.sources.add(portal.url, name="city")
            with pytest.raises(UsageError, match="kept already, as 'city'"):
                await r.sources.add(mirror.url)
            synced = await r.sync(mirror.url)

    assert synced.source == "city"


async def test_an_address_that_leads_to_a_kept_portal_is_that_one(database: ScratchDatabase) -> None:
    async def lead(request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": f"{portal.url}{request.path_qs}"})

    with closing(CkanPortal()) as portal, closing(WebSite()) as old:
        old.default = old.pages["/"] = Page(handler=lead)
        async with database.open(probe=True) as r:
            await r.sources.add(portal.url, name="city")
            with pytest.raises(UsageError, match="kept already, as 'city'"):
                await r.sources.add(old.url)


async def test_a_file_declares_a_portal_once_unless_it_says_twice(database: ScratchDatabase, tmp_path: Path) -> None:
    def declared(*more: str) -> Path:
        entries = ['name = "city"\nurl = "https://data.city.example"\naliases = ["https://old.example"]', *more]
        path = tmp_path / "portals.toml"
        path.write_text("".join(f'[[source]]\nkind = "ckan"\n{entry}\n' for entry in entries))
        return path

    www, old = 'name = "www"\nurl = "http://www.data.city.example/"', 'name = "old"\nurl = "https://old.example"'
    async with database.open() as r:
        with pytest.raises(UsageError, match="portals twice") as refused:
            await r.sources.apply(declared(www, old))
        nothing = await r.sources.list()
        part = f'{old}\noptions = {{ filter = "hay" }}'
        both = await r.sources.apply(declared(f"{www}\ntwice = true", part))
        again = await r.sources.apply(declared(www, part))

    assert "www (http://www.data.city.example) is the same portal as city" in str(refused.value)
    assert "old (https://old.example) is the same portal as city" in str(refused.value)
    assert nothing == []
    assert [one.action for one in both] == ["added"] * 3
    assert [one.action for one in again] == ["unchanged"] * 3
