"""Catalogs that are one document, of every kind and in every notation: what is cut off or is none deletes nothing."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.logical import contents
from tests.portals.catalogs import keep
from tests.portals.datajson import DataJsonSite
from tests.portals.dcat import FORMATS, DcatPortal
from tests.portals.sdmx import LISTS, SdmxService

Document = DataJsonSite | DcatPortal | SdmxService

STRANGE = [b"", b"<!doctype html><title>Maintenance</title>", b"null", b"[]", b"[" * 100_000]


def sdmx(notation: str) -> SdmxService:
    service = SdmxService()
    service.notation = notation
    return service


def dcat(syntax: str) -> DcatPortal:
    portal = DcatPortal()
    portal.syntax = syntax
    return portal


DATAJSON = pytest.param(DataJsonSite, id="datajson")
SDMX = [pytest.param(partial(sdmx, notation), id=f"sdmx-{notation}") for notation in LISTS]
DCAT = [pytest.param(partial(dcat, syntax), id=f"dcat-{syntax}") for syntax in FORMATS]


@pytest.fixture
def portal(request: pytest.FixtureRequest, opened: Opened) -> Document:
    made: Callable[[], Document] = request.param
    return opened(made)


@pytest.mark.parametrize("portal", [DATAJSON, *SDMX, *DCAT], indirect=True)
async def test_d2_a_document_cut_off_deletes_nothing(database: ScratchDatabase, portal: Document) -> None:
    portal.fill(30)
    async with database.open() as r:
        await keep(r, portal)
        portal.drop(5)
        whole_bytes = len(portal.document())
        # The last two bytes may be no more than the end of a line.
        fewest = (3,) if isinstance(portal, DcatPortal) else (1, 2)
        for portal.cut_bytes in (*fewest, 50, 60, 700, whole_bytes // 2, whole_bytes):
            run = await r.sync("portal", accept_deletions=True)

            assert run.status in ("partial", "failed")
            assert len(contents(database)) == 30
        portal.cut_bytes = 0
        assert (await r.sync("portal", accept_deletions=True)).stats.deleted == 5


@pytest.mark.parametrize("portal", [DATAJSON, *SDMX], indirect=True)
async def test_d2_an_answer_that_is_no_catalog_deletes_nothing(
    database: ScratchDatabase, portal: DataJsonSite | SdmxService
) -> None:
    portal.fill(30)
    async with database.open() as r:
        await keep(r, portal)
        for body in [*STRANGE, *portal.no_listings]:
            portal.body = body
            run = await r.sync("portal", accept_deletions=True)

            assert run.status in ("partial", "failed"), body[:60]
            assert run.error
            assert len(contents(database)) == 30
        portal.body = None
        assert (await r.sync("portal")).stats.unchanged == 30


@pytest.mark.parametrize("portal", [DATAJSON, *DCAT], indirect=True)
async def test_deletions_held_back_are_not_forgotten_when_the_document_is_unchanged(
    database: ScratchDatabase, portal: Document
) -> None:
    portal.fill(40)
    async with database.open() as r:
        await keep(r, portal)
        portal.drop(20)
        held = await r.sync("portal")
        again = await r.sync("portal")
        accepted = await r.sync("portal", accept_deletions=True)
        quiet = await r.sync("portal")

    assert (held.stats.deletions_held, again.stats.deletions_held, accepted.stats.deleted) == (20, 20, 20)
    assert [run.stats.not_modified for run in (again, accepted, quiet)] == [1, 1, 1]
