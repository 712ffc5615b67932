"""STAC APIs: pages of any kind, one item a collection, nothing deleted that was not proved to be gone."""

import json
from contextlib import closing

import pytest

from rowen.connectors.stac import Stac
from rowen.errors import UsageError
from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.logical import contents
from tests.portals.catalogs import keep
from tests.portals.site import Page
from tests.portals.stac import StacApi, collection


@pytest.fixture
def api(opened: Opened) -> StacApi:
    return opened(StacApi)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("stac:https://data.example/v1/", "https://data.example/v1/"),
        ("stac:https://data.example/v1/collections", "https://data.example/v1/"),
        ("stac:https://data.example/collections?q=hay", "https://data.example/collections?q=hay"),
        ("stac:https://data.example/catalog.json", "https://data.example/catalog.json"),
        ("https://data.example/api/stac", "https://data.example/api/stac"),
        ("https://data.example/api/stac/v1/collections", "https://data.example/api/stac/v1/"),
        ("https://data.example/stac/v1.0.0/", "https://data.example/stac/v1.0.0/"),
        ("https://docs.example/guide/stac", None),
        ("https://stac.example/", None),
        ("https://data.example/catalog.json", None),
        ("stac:nonsense", None),
    ],
)
def test_only_addresses_that_show_a_stac_catalog_are_recognised(address: str, url: str | None) -> None:
    assert Stac.recognise(address) == url
    assert url is None or Stac.accept(url) == url


async def test_a_collection_is_stored_whole(database: ScratchDatabase, api: StacApi) -> None:
    api.put(
        "hay",
        "Hay",
        license="proprietary",
        created="2020-05-01T00:00:00Z",
        updated="2024-02-03T04:05:06.5Z",
        language={"code": "en", "name": "English"},
        links=[{"rel": "license", "href": "/licence.html"}, {"rel": "about", "href": "hay.html", "type": "text/html"}],
        assets={
            "table": {"href": "hay.csv", "type": "text/csv", "title": "Table", "file:size": 7},
            "plain": {"href": "s3://bucket/hay", "description": "<b>All</b> of it."},
        },
        **{"odd:thing": {"kept": [1, None]}},
    )
    async with database.open() as r:
        run = await keep(r, api)

    [(url, title, text, tags, language, record)] = database.query(
        "select url, title, text, tags, language, record from item"
    )
    assert (run.status, run.complete, run.stats.requests) == ("completed", True, 2)
    assert (url, title, tags, language) == (f"{api.url}/v1/collections/hay", "Hay", ["clover", "hay"], "en")
    assert text == "All about *hay*.\n\n## Resources\n\n- Table (CSV)\n- plain: All of it."
    assert (record["publisher"], record["licence"]) == ("The Farm", f"{api.url}/licence.html")
    assert (record["issued"], record["modified"]) == ("2020-05-01T00:00:00Z", "2024-02-03T04:05:06.500000Z")
    assert (record["spatial"], record["temporal"]) == ("-10,40.5,5,60", "2020-01-01T00:00:00Z/..")
    assert record["landing_page"] == f"{api.url}/v1/hay.html"
    assert [one["url"] for one in record["resources"]] == [f"{api.url}/v1/hay.csv", "s3://bucket/hay"]
    assert (record["resources"][0]["size_bytes"], record["resources"][0]["media_type"]) == (7, "text/csv")
    assert record["source"] == json.loads(json.dumps(api.records["hay"]))


@pytest.mark.parametrize("validator", ["etag", "modified", "both"])
async def test_an_unchanged_api_costs_two_requests_and_no_list(
    database: ScratchDatabase, api: StacApi, validator: str
) -> None:
    api.fill(300)
    api.validator = validator
    async with database.open() as r:
        first = await keep(r, api)
        run = await r.sync("portal")

    assert (first.status, first.stats.created) == ("completed", 300)
    assert (run.complete, run.stats.requests, run.stats.not_modified) == (True, 2, 1)
    assert (run.stats.unchanged, run.stats.rows_written) == (300, 0)


async def test_an_api_without_validators_is_compared_and_writes_nothing(
    database: ScratchDatabase, api: StacApi
) -> None:
    api.fill(30)
    api.validator, api.page_size = "none", 10
    async with database.open() as r:
        await keep(r, api)
        run = await r.sync("portal")

    assert (run.status, run.stats.requests, run.stats.unchanged, run.stats.rows_written) == ("completed", 4, 30, 0)


@pytest.mark.parametrize("style", ["get", "relative", "post", "merge"])
@pytest.mark.parametrize("declares", [True, False])
async def test_pages_are_followed_however_they_are_linked(
    database: ScratchDatabase, api: StacApi, style: str, declares: bool
) -> None:
    api.fill(25)
    api.style, api.page_size, api.declares = style, 10, declares
    async with database.open() as r:
        run = await keep(r, api)
        api.records.pop("c0003")
        api.put("c0004", "Another title")
        again = await r.sync("portal")

    assert (run.status, run.stats.created, run.stats.requests) == ("completed", 25, 4)
    assert (again.stats.updated, again.stats.deleted, again.stats.unchanged) == (1, 1, 23)


async def test_a_change_writes_only_what_changed(database: ScratchDatabase, api: StacApi) -> None:
    api.fill(1000)
    async with database.open() as r:
        await keep(r, api)
        api.records["c0003"]["title"] = "Another title"
        api.records["c0004"]["license"] = "CC0-1.0"
        run = await r.sync("portal")

    assert (run.stats.updated, run.stats.amended, run.stats.unchanged) == (1, 1, 998)
    assert (run.stats.requests, run.stats.rows_written <= 8) == (2, True)


async def test_d2_a_list_cut_off_or_none_at_all_deletes_nothing(database: ScratchDatabase, api: StacApi) -> None:
    api.fill(30)
    none = [b"", b"<html>Maintenance</html>", b'{"collections": []}', b'{"collections": null}', b"[]", b"{}", b"null"]
    cut = json.dumps(api._listing(0)).encode()[:-9]
    async with database.open() as r:
        await keep(r, api)
        for api.body in [*none, cut, b"[" * 100_000]:
            run = await r.sync("portal", accept_deletions=True)

            assert run.status in ("partial", "failed"), api.body[:40]
            assert run.error
            assert len(contents(database)) == 30
        api.body = None
        assert (await r.sync("portal")).stats.unchanged == 30


async def test_d2_an_outage_deletes_nothing_and_says_so(database: ScratchDatabase, api: StacApi) -> None:
    api.fill(3)
    async with database.open() as r:
        await keep(r, api)
        api.down = True
        run = await r.sync("portal")

    assert (run.status, len(contents(database))) == ("failed", 3)
    assert "503" in (run.error or "")


async def test_d2_a_count_that_disagrees_deletes_nothing(database: ScratchDatabase, api: StacApi) -> None:
    api.fill(30)
    async with database.open() as r:
        await keep(r, api)
        api.records.pop("c0001")
        api.miscount = 20
        run = await r.sync("portal")
        api.miscount = 0
        healed = await r.sync("portal")

    assert (run.status, run.stats.deleted) == ("partial", 0)
    assert "declares 49" in (run.error or "")
    assert (healed.status, healed.stats.deleted) == ("completed", 1)


async def test_d2_pages_that_come_again_prove_nothing(database: ScratchDatabase, api: StacApi) -> None:
    api.fill(30)
    api.page_size, api.declares = 10, False
    async with database.open() as r:
        await keep(r, api)
        api.repeats = True
        run = await r.sync("portal")

    assert (run.status, run.stats.deleted, len(contents(database))) == ("partial", 0, 30)
    assert "does not end" in (run.error or "")


async def test_a_count_on_the_first_page_holds_for_all(database: ScratchDatabase, api: StacApi) -> None:
    api.fill(30)
    api.page_size, api.declares_once = 10, True
    async with database.open() as r:
        whole = await keep(r, api)
        api.miscount = 20
        short = await r.sync("portal")

    assert (whole.status, whole.stats.created, short.status) == ("completed", 30, "partial")


async def test_d7_a_list_that_changes_while_it_is_read_deletes_nothing_then(
    database: ScratchDatabase, api: StacApi
) -> None:
    api.fill(30)
    api.page_size = 10
    async with database.open() as r:
        await keep(r, api)
        api.after_page = lambda start: api.records.pop("c0000", None) if start == 0 else None
        run = await r.sync("portal", accept_deletions=True)
        kept = len(contents(database))
        again = await r.sync("portal")

    assert (run.status, run.stats.deleted, kept) == ("partial", 0, 30)
    assert "changed while it was read" in (run.error or "")
    assert (again.status, again.stats.deleted, len(contents(database))) == ("completed", 1, 29)


async def test_an_api_that_links_a_next_page_for_ever_has_ended_with_two_empty_ones(
    database: ScratchDatabase, api: StacApi
) -> None:
    api.fill(20)
    api.page_size, api.declares, api.endless = 10, False, True
    async with database.open() as r:
        run = await keep(r, api)
        api.records.pop("c0001")
        again = await r.sync("portal")

    assert (run.status, run.stats.created, run.stats.requests) == ("completed", 20, 5)
    assert (again.status, again.stats.deleted) == ("completed", 1)


async def test_an_interrupted_walk_goes_on_and_is_exact(database: ScratchDatabase, api: StacApi) -> None:
    api.fill(50)
    api.page_size = 10
    broken = Page(b"Broken", status=503)
    async with database.open() as r:
        await r.sources.add(api.address, name="portal")
        api.after_page = lambda start: api.failures.append(broken) if start == 20 else None
        first = await r.sync("portal")
        api.after_page = None
        api.records.pop("c0001")
        api.put("c0002", "Edited")
        api.log.clear()
        again = await r.sync("portal")

    assert (first.status, first.stats.created) == ("partial", 30)
    assert api.asked()[1].endswith("token=30")
    assert (again.status, again.stats.created, again.stats.updated, again.stats.deleted) == ("completed", 20, 1, 1)
    assert len(contents(database)) == 49


async def test_a_place_that_is_no_more_is_not_waited_for(database: ScratchDatabase, api: StacApi) -> None:
    api.fill(50)
    api.page_size = 10
    async with database.open() as r:
        await r.sources.add(api.address, name="portal")
        api.after_page = lambda start: api.failures.append(Page(b"Broken", status=503)) if start == 20 else None
        await r.sync("portal")
        api.after_page = None
        api.failures = [Page(b"This token has expired", status=400)]
        again = await r.sync("portal")

    assert (again.status, len(contents(database))) == ("completed", 50)


async def test_one_malformed_record_is_quarantined_with_its_payload(database: ScratchDatabase, api: StacApi) -> None:
    api.fill(3)
    api.records |= {"none": collection(None), "text": "a text", "null": None}
    async with database.open() as r:
        run = await keep(r, api)
        again = await r.sync("portal")
        for name in ("none", "text", "null"):
            api.put(name)
        healed = await r.sync("portal")

    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 3, 3)
    assert (again.stats.not_modified, again.stats.failed, again.stats.unchanged) == (0, 3, 3)
    assert (healed.stats.created, healed.stats.failed) == (3, 0)
    assert database.query("select count(*) from quarantine") == [(0,)]


async def test_d4_nulls_and_wrong_types_are_no_trouble(database: ScratchDatabase, api: StacApi) -> None:
    api.put("a", 707, keywords=None, extent=None, providers=None, assets=None, license=None, links=None)
    api.put("b", keywords="hay", extent={"spatial": None, "temporal": []}, providers=["x"], assets=[1], links={"a": 1})
    api.put("c", extent={"spatial": {"bbox": [1, 2, 3, 4]}, "temporal": {"interval": [[None, None], [1], "x"]}})
    api.put("d", extent={"spatial": {"bbox": [[0, 1, 9, 2, 3, 9]]}, "temporal": {"interval": [[None, "2020"]]}})
    api.records["e"] = {"id": 5}
    async with database.open() as r:
        run = await keep(r, api)

    found = {
        row[0]: row[1:] for row in database.query("select title, record->>'spatial', record->>'temporal' from item")
    }
    assert (run.status, run.stats.created, run.stats.failed) == ("completed", 5, 0)
    assert found["Collection c"] == ("1,2,3,4", None)
    assert found["Collection d"] == ("0,1,2,3", "../2020")
    assert {"707", "5"} <= set(found)


async def test_identifiers_never_collide_and_duplicates_are_one_item(database: ScratchDatabase, api: StacApi) -> None:
    for name in ("a/b", "a%2Fb", "A/b", "..", ".", "a b", "a?b", "a#b", "EOP:ESA:S-6", "ü"):
        api.put(name)
    api.records["twin"] = collection("ü", "The second one")
    api.declares = False
    async with database.open() as r:
        run = await keep(r, api)
        again = await r.sync("portal", full=True)

    assert (run.status, run.stats.created) == ("completed", 10)
    assert (again.stats.unchanged, again.stats.rows_written) == (10, 0)
    assert ("The second one",) not in database.query("select title from item")


async def test_an_item_is_known_by_the_source_whatever_its_links_say(database: ScratchDatabase, api: StacApi) -> None:
    api.put("hay", links=[{"rel": "self", "href": "https://elsewhere.example/collections/hay"}])
    async with database.open() as r:
        await keep(r, api)
        api.landing["links"] = [{"rel": "data", "href": "collections?f=json"}]
        run = await r.sync("portal")

    assert (run.stats.unchanged, run.stats.deleted) == (1, 0)


async def test_a_landing_page_without_a_link_to_its_data_is_enough(database: ScratchDatabase, api: StacApi) -> None:
    api.fill(2)
    api.landing["links"] = []
    async with database.open() as r:
        run = await keep(r, api)

    assert (run.status, run.stats.created) == ("completed", 2)


async def test_a_list_may_be_the_source_itself(database: ScratchDatabase, api: StacApi) -> None:
    api.fill(25)
    api.page_size = 10
    async with database.open() as r:
        await r.sources.add(f"{api.url}/v1/collections?q=hay", name="portal", kind="stac")
        run = await r.sync("portal")
        again = await r.sync("portal")

    assert (run.status, run.stats.created, run.stats.requests) == ("completed", 25, 3)
    assert (again.stats.unchanged, again.stats.rows_written) == (25, 0)


async def test_a_limit_is_sent_only_if_it_is_wanted(database: ScratchDatabase, api: StacApi) -> None:
    api.fill(3)
    async with database.open() as r:
        await r.sources.add(api.address, name="portal", options={"limit": 50})
        await r.sync("portal")

    assert api.asked() == ["/v1/", "/v1/collections?limit=50"]


async def test_json_that_is_no_stac_is_refused(database: ScratchDatabase, api: StacApi) -> None:
    api.landing.clear()
    api.landing["hello"] = "world"
    async with database.open() as r:
        run = await keep(r, api)
        with pytest.raises(UsageError, match="no option 'page_size'"):
            await r.sources.add(api.address, name="two", options={"page_size": 3})

    assert run.status == "failed"
    assert f"{api.url}/v1/ is JSON, but no STAC catalog." in (run.error or "")


async def test_a_busy_api_is_waited_for(database: ScratchDatabase, api: StacApi) -> None:
    api.fill(3)
    api.failures = [Page(b"Slow down", status=429, headers={"Retry-After": "0"})]
    async with database.open(fetch_tries=2) as r:
        run = await keep(r, api)

    assert (run.status, run.stats.created, run.stats.requests) == ("completed", 3, 3)


async def test_a_key_goes_to_the_origin_of_the_source_alone(
    database: ScratchDatabase, api: StacApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAC_KEY", "a secret")
    api.fill(3)
    with closing(StacApi()) as other:
        other.fill(2)
        api.landing["links"] = [{"rel": "data", "href": f"{other.url}/v1/collections"}]
        async with database.open() as r:
            run = await keep(r, api, headers={"X-Key": "env:STAC_KEY"})
            await r.sync("portal")

        assert (run.status, run.stats.created) == ("completed", 2)
        assert [asked.headers.get("X-Key") for asked in api.log] == ["a secret"]
        assert {asked.headers.get("X-Key") for asked in other.log} == {None}
    assert "a secret" not in str(database.query("select options, cursor from source"))


async def test_deletions_beyond_the_guard_are_held_back_and_a_revival_is_created(
    database: ScratchDatabase, api: StacApi
) -> None:
    api.fill(40)
    async with database.open() as r:
        await keep(r, api)
        gone = {f"c{number:04}": api.records.pop(f"c{number:04}") for number in range(20)}
        held = await r.sync("portal")
        let = await r.sync("portal", accept_deletions=True)
        api.records |= gone
        back = await r.sync("portal")

    assert (held.stats.deletions_held, held.stats.deleted, let.stats.deleted) == (20, 0, 20)
    assert (back.stats.created, len(contents(database))) == (20, 40)
