"""Pages are classified by their types, and only documents are read for statements."""

from unittest.mock import patch

import pytest

from rowen.content import page_statements
from rowen.content.page_statements import statements_in
from rowen.content.readers import read
from rowen.errors import RowenError
from rowen.model.items import Raw
from tests.conftest import ScratchDatabase
from tests.portals.council import TYPES, Paper
from tests.portals.site import Page, Site

URL = "http://www.council.example/a"


def record(html: bytes, wanted: str = "documents") -> dict[str, object]:
    raw = Raw(URL, html, media_type="text/html", statements=wanted)  # type: ignore[arg-type]
    return dict(read(raw).record.get("rdfa", {}))


@pytest.mark.parametrize("kind", TYPES)
def test_a_page_is_what_its_types_contain(kind: str) -> None:
    told = record(Paper(kind=kind).html("/a"))

    assert told["type"] == kind
    assert told["statements"]


def test_a_prefix_that_lacks_its_slash_does_not_hide_the_type() -> None:
    page = f'<div typeof="foaf:Document x:{TYPES["agenda"]}" prefix="x: http://e.org/Type">A</div>'

    assert statements_in(page, URL, "documents")["rdfa"]["type"] == "agenda"


@pytest.mark.parametrize("name", ["besluit:Besluit", "besluit:BehandelingVanAgendapunt"])
def test_a_page_of_one_item_is_a_document(name: str) -> None:
    assert statements_in(f'<div typeof="{name}">A</div>', URL, "documents")["rdfa"]["type"] == "item"


def test_an_overview_is_not_read_for_statements_unless_all_pages_are() -> None:
    overview = b'<html><body><p about="/x" property="dc:title">A</p></body></html>'

    with patch.object(page_statements, "statements_of", side_effect=AssertionError):
        assert record(overview) == {}
    assert len(record(overview, "all")["statements"]) == 3  # type: ignore[arg-type]


def test_links_to_documents_are_those_of_href_cleaned_and_of_the_same_site() -> None:
    def link(name: str, address: str) -> str:
        return f'<a property="besluit:{name}" resource="http://data.example/id/1" href="{address}">x</a>'

    page = "".join(
        (
            link("heeftNotulen", "/n;jsessionid=12?x=1#part"),
            link("heeftAgenda", "http://council.example/(S(abc))/agenda"),
            link("heeftBesluitenlijst", "/list.PDF"),
            link("heeftUittreksel", "https://elsewhere.example/u"),
            link("linkToPublication", "p"),
            link("linkToPublication", "p"),
            link("isGehoudenDoor", "/organ"),
            '<a href="/plain">x</a>',
        )
    )

    assert statements_in(page, URL, "documents")["rdfa"]["links"] == [
        "http://www.council.example/n?x=1",
        "http://council.example/agenda",
        "http://www.council.example/p",
    ]


@pytest.mark.parametrize("attribute", ["property", "rel", "rev"])
@pytest.mark.parametrize(
    "name",
    [
        *("besluit:heeftNotulen", "besluit:heeftAgenda", "besluit:heeftBesluitenlijst", "besluit:heeftUittreksel"),
        *("lblodBesluit:linkToPublication", "lblod:linkToBesluit", "heeftAgenda", "foaf:page lblod:linkToBesluit"),
        "http://lblod.data.gift/vocabularies/besluit/linkToBesluit",
        "http://data.vlaanderen.be/ns/besluit#heeftNotulen",
    ],
)
def test_each_property_that_links_to_a_document_is_followed(attribute: str, name: str) -> None:
    links = f'<a {attribute}="{name}" href=" /a ">x</a><link {attribute}="{name}" href="/b">'

    assert statements_in(links, URL, "documents")["rdfa"]["links"] == [
        "http://www.council.example/a",
        "http://www.council.example/b",
    ]


@pytest.mark.parametrize("name", ["lblod:linkToBesluiten", "lblod:nolinkToBesluit", "besluit:heeftAgendapunt"])
def test_properties_of_similar_names_are_not_followed(name: str) -> None:
    assert statements_in(f'<a property="{name}" href="/a">x</a>', URL, "documents") == {}


async def test_a_site_keeps_what_its_pages_state_and_an_unchanged_page_is_not_read_again(
    database: ScratchDatabase,
) -> None:
    site = Site()
    site.pages["/"] = Page(Paper("Cameras", links=("/b",)).html("/"))
    site.pages["/b"] = Page(Paper("Library").html("/b"), validator="none")
    async with database.open() as r:
        await r.sources.add(f"{site.url}/", name="council", kind="web", options={"rdfa": "documents"})
        first = await r.sync("council")
        with patch.object(page_statements, "statements_of", side_effect=AssertionError):
            again = await r.sync("council")
        site.pages["/"] = Page(Paper("Cameras, amended", links=("/b",)).html("/"))
        third = await r.sync("council")
        await r.sources.edit("council", options={"rdfa": None})
        without = await r.sync("council")
    site.close()

    assert first.stats.statements_added == 11
    assert (again.stats.rows_written, again.stats.unchanged) == (0, 2)
    assert (third.stats.statements_added, third.stats.statements_removed) == (1, 1)
    assert (without.stats.statements_removed, without.stats.amended) == (11, 2)
    kept = database.query("select kept, cardinality(added), cardinality(removed) from statement_change order by number")
    assert kept == [(0, 6, 0), (0, 5, 0), (5, 1, 1), (0, 0, 6), (0, 0, 5)]


async def test_overviews_of_a_site_lead_on_and_are_no_items_where_that_is_wanted(database: ScratchDatabase) -> None:
    site = Site()
    site.pages["/"] = Page(Paper("All meetings", "", links=("/a", "/more")).html("/"))
    site.pages["/more"] = Page(Paper("Older meetings", "", links=("/b",)).html("/more"))
    site.pages["/a"] = Page(Paper("Cameras").html("/a"))
    site.pages["/b"] = Page(Paper("Hedges").html("/b"))
    try:
        async with database.open() as r:
            await r.sources.add(f"{site.url}/", name="council", options={"rdfa": "documents", "overviews": "follow"})
            first = await r.sync("council")
            site.log.clear()
            again = await r.sync("council")
            statuses = sorted({asked.status for asked in site.log if not asked.path.endswith(".txt")})
            titles = [title for (title,) in database.query("select title from item order by 1")]
            await r.sources.edit("council", options={"overviews": None})
            kept = await r.sync("council")
            await r.sources.edit("council", options={"overviews": "follow"})
            dropped = await r.sync("council")
    finally:
        site.close()

    assert (first.status, first.complete, first.stats.created, titles) == ("completed", True, 2, ["Cameras", "Hedges"])
    assert (again.stats.rows_written, again.complete) == (0, True)
    assert statuses == [304, 404]
    assert (kept.stats.created, dropped.stats.deleted) == (2, 2)


async def test_overviews_cannot_be_left_out_without_rdfa(database: ScratchDatabase) -> None:
    async with database.open() as r:
        with pytest.raises(RowenError, match="overviews=follow needs rdfa"):
            await r.sources.add("http://127.0.0.1:1/", kind="web", options={"overviews": "follow"})
