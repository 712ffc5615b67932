"""XML that means harm, or is no XML in some letters, from every kind of portal that speaks it."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiohttp import web

from rowen import Rowen, Run
from tests.conftest import ScratchDatabase
from tests.portals.csw import CswService
from tests.portals.oai import OaiRepository
from tests.portals.sdmx import SdmxService
from tests.portals.site import Site

BOMB = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(12))
PROLOGS = {
    "bomb": f'<!DOCTYPE x [<!ENTITY e0 "hay">{BOMB}]>',
    "file": '<!DOCTYPE x [<!ENTITY e12 SYSTEM "file:///etc/passwd">]>',
    "elsewhere": '<!DOCTYPE x [<!ENTITY e12 SYSTEM "URL/outside">]>',
    "definition": '<!DOCTYPE x SYSTEM "URL/outside">',
    "parameter": '<!DOCTYPE x [<!ENTITY % p SYSTEM "URL/outside"> %p;]>',
}


class Hostile:
    """Changes the text of each document before it is sent."""

    change: Callable[[str], str] | None = None

    def spoiled(self, body: bytes) -> bytes:
        text = body.decode("utf-8", "surrogatepass")
        return (self.change(text) if self.change else text).encode("utf-8", "surrogatepass")


class HostileCsw(Hostile, CswService):
    def _told(self, text: str) -> web.Response:
        response = super()._told(text)
        assert isinstance(response.body, bytes)
        return web.Response(body=self.spoiled(response.body), content_type="application/xml")


class HostileOai(Hostile, OaiRepository):
    def _told(self, inner: str, verb: str = "") -> web.Response:
        response = super()._told(inner, verb)
        assert isinstance(response.body, bytes)
        return web.Response(body=self.spoiled(response.body), content_type="text/xml")


class HostileSdmx(Hostile, SdmxService):
    def document(self) -> bytes:
        return self.spoiled(super().document())


class HostileSdmx3(HostileSdmx):
    def __init__(self) -> None:
        super().__init__()
        self.notation = "3.0"


Portal = HostileCsw | HostileOai | HostileSdmx


@pytest.fixture(params=[HostileCsw, HostileOai, HostileSdmx, HostileSdmx3])
def portal(request: pytest.FixtureRequest) -> Iterator[Portal]:
    portal = request.param()
    portal.fill(10)
    yield portal
    portal.close()


async def keep(r: Rowen, portal: Portal) -> Run:
    await r.sources.add(portal.address, name="portal", options={})
    return await r.sync("portal")


def titles(database: ScratchDatabase) -> set[str]:
    return {title for (title,) in database.query("select title from item")}


def with_prolog(prolog: str, site: Site) -> Callable[[str], str]:
    def change(text: str) -> str:
        head, declaration, rest = text.partition("?>")
        rest = re.sub(r"(Flow|Map|Paper) (F0003|d00003)", "&e12;", rest)
        return head + declaration + prolog.replace("URL", site.url) + rest

    return change


@pytest.mark.parametrize("prolog", PROLOGS)
async def test_entities_are_neither_unfolded_nor_fetched(
    database: ScratchDatabase, portal: Portal, prolog: str
) -> None:
    async with database.open() as r:
        await keep(r, portal)
        before = titles(database)
        portal.change = with_prolog(PROLOGS[prolog], portal)
        run = await r.sync("portal", full=True, accept_deletions=True)

    assert run.status in ("failed", "partial")
    assert "type definition" in (run.error or "")
    assert run.stats.deleted == 0
    assert titles(database) == before
    assert "/outside" not in [request.path for request in portal.log]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("\x00", "\ufffd"),
        ("\x0b", "\ufffd"),
        ("\x1f", "\ufffd"),
        ("\uffff", "\ufffd"),
        ("\ud800", "\ufffd"),
        ("&#0;", "\ufffd"),
        ("&#x1F;", "\ufffd"),
        ("&#xD800;", "\ufffd"),
        ("&#99999999;", "\ufffd"),
        ("&#x1F33E;", "\U0001f33e"),
    ],
)
async def test_letters_that_xml_forbids_cost_a_letter(
    database: ScratchDatabase, portal: Portal, written: str, read: str
) -> None:
    portal.change = lambda text: re.sub(r"(Flow|Map|Paper) (F0003|d00003)", f"Hay {written} clover", text)
    async with database.open() as r:
        run = await keep(r, portal)
        again = await r.sync("portal", full=True)

    assert (run.status, run.complete, run.stats.failed) == ("completed", True, 0)
    [title] = [title for title in titles(database) if title.startswith("Hay")]
    assert re.fullmatch(f"Hay {read}+ clover", title)
    assert (again.stats.failed, again.stats.rows_written) == (0, 0)


@pytest.mark.parametrize("written", ["&nbsp;", "&", "<", "</x>", "]]>"])
async def test_a_record_that_is_no_xml_deletes_nothing(database: ScratchDatabase, portal: Portal, written: str) -> None:
    async with database.open() as r:
        await keep(r, portal)
        before = titles(database)
        portal.change = lambda text: re.sub(r"(Flow|Map|Paper) (F0003|d00003)", written, text)
        run = await r.sync("portal", full=True, accept_deletions=True)
        portal.change = None
        healed = await r.sync("portal", full=True)

    assert run.status in ("completed", "partial", "failed")
    assert run.stats.deleted == 0
    assert titles(database) == before
    assert (healed.status, healed.stats.failed, healed.stats.deleted) == ("completed", 0, 0)


async def test_a_well_formed_record_is_kept_in_quarantine_as_xml(
    database: ScratchDatabase, portal: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(portal, HostileSdmx):
        pytest.skip("a dataflow is read from its attributes")

    def refuse(*_: Any, **__: Any) -> None:
        raise ValueError("no dataset")

    for module in ("csw.listing", "oai"):
        monkeypatch.setattr(f"rowen.connectors.{module}.dataset_of", refuse)
    async with database.open() as r:
        await keep(r, portal)
    payloads = [bytes(payload) for (payload,) in database.query("select payload from quarantine")]

    assert len(payloads) == 11
    assert all(re.match(rb"<ns\d+:(MD_Metadata|record)\b", payload) for payload in payloads)
    assert any(re.search(rb">(Map|Paper) d00003</", payload) for payload in payloads)
