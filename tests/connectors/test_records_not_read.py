"""A record that is, by what was received of it, the one that we hold costs no reading, whatever the kind of catalog."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from rowen.connectors.catalog.dataset import Dataset
from tests.conftest import ScratchDatabase
from tests.connectors.conftest import Opened
from tests.portals.catalogs import nested
from tests.portals.csw import CswService
from tests.portals.datajson import DataJsonSite
from tests.portals.dcat import PagedDcat
from tests.portals.oai import OaiRepository
from tests.portals.sdmx import SdmxService
from tests.portals.sparql import SparqlEndpoint
from tests.portals.stac import StacApi, StaticStac

COUNT = 12


@dataclass(frozen=True)
class Kind:
    """A kind of portal: how it is filled, and how one record of it is edited, fails and recovers."""

    made: Callable[[], Any]
    fill: Callable[[Any], object]
    edit: Callable[[Any], object]
    ail: Callable[[Any], Callable[[], object]]


def _data_json() -> Kind:
    def ail(site: Any) -> Callable[[], object]:
        site.records[5]["odd"] = nested(900)
        return lambda: site.records[5].pop("odd")

    return Kind(
        DataJsonSite, lambda site: site.fill(COUNT), lambda site: site.records[3].update(title="Another title"), ail
    )


def _stac_api() -> Kind:
    def ail(api: Any) -> Callable[[], object]:
        api.records["c0005"]["odd"] = nested(900)
        return lambda: api.records["c0005"].pop("odd")

    return Kind(StacApi, lambda api: api.fill(COUNT), lambda api: api.put("c0003", "Another title"), ail)


def _static_stac() -> Kind:
    def ail(site: Any) -> Callable[[], object]:
        document, _ = site.documents["/a/c2/collection.json"]
        document["odd"] = nested(900)
        return lambda: document.pop("odd")

    edited = "/b/c3/collection.json"
    return Kind(
        StaticStac, lambda site: site.grow(COUNT), lambda site: site.collection(edited, title="Another title"), ail
    )


def _oai() -> Kind:
    def ail(repository: Any) -> Callable[[], object]:
        whole = repository.records["d00005"]
        repository.records["d00005"] = replace(whole, xml="<n><n/>" * 200 + "</n>" * 200)
        return lambda: repository.records.update(d00005=whole)

    return Kind(
        OaiRepository,
        lambda repository: repository.fill(COUNT - 1),
        lambda repository: repository.make("d00003", "Another title"),
        ail,
    )


def _csw() -> Kind:
    def ail(service: Any) -> Callable[[], object]:
        whole = service.records["d00005"]
        service.make_nested("d00005", 200)
        return lambda: service.records.update(d00005=whole)

    return Kind(
        CswService,
        lambda service: service.fill(COUNT - 1),
        lambda service: service.make("d00003", "Another title"),
        ail,
    )


def _sdmx() -> Kind:
    def ail(service: Any) -> Callable[[], object]:
        service.flows[5]["odd"] = True
        return lambda: service.flows[5].pop("odd")

    def fill(service: Any) -> None:
        service.fill(COUNT)
        service.validator = "none"

    return Kind(SdmxService, fill, lambda service: service.flows[3]["names"].update(en="Another title"), ail)


def _rdf(made: Callable[[], Any], ail: Callable[[Any], Callable[[], object]]) -> Kind:
    return Kind(made, lambda portal: portal.fill(COUNT), lambda portal: portal.make("d00003", "Another title"), ail)


def _nest(portal: Any) -> Callable[[], object]:
    inner: dict[str, Any] = {"dct:title": "The innermost"}
    for _ in range(200):
        inner = {"dct:relation": inner}
    portal.records["d00005"]["dct:relation"] = inner
    return lambda: portal.records["d00005"].pop("dct:relation")


def _break(endpoint: Any) -> Callable[[], object]:
    endpoint.broken_for = "d00005"
    return lambda: setattr(endpoint, "broken_for", None)


KINDS = {
    "csw": _csw(),
    "datajson": _data_json(),
    "dcat": _rdf(PagedDcat, _nest),
    "sparql": _rdf(SparqlEndpoint, _break),
    "oai": _oai(),
    "sdmx": _sdmx(),
    "stac": _stac_api(),
    "stac, static": _static_stac(),
}


@pytest.mark.parametrize("name", KINDS)
async def test_nothing_is_read_but_what_changed_and_what_failed_before(
    database: ScratchDatabase, opened: Opened, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = KINDS[name]
    portal = opened(kind.made)
    kind.fill(portal)
    read: list[str] = []
    document = Dataset.document
    monkeypatch.setattr(Dataset, "document", lambda one, **how: read.append(one.title) or document(one, **how))
    async with database.open() as r:
        first = await r.sync(portal.address, full=True)
        read.clear()
        quiet = await r.sync(portal.address, full=True)
        assert read == []
        kind.edit(portal)
        edited = await r.sync(portal.address, full=True)
        assert read == ["Another title"]
        recover = kind.ail(portal)
        failed = await r.sync(portal.address, full=True)
        again = await r.sync(portal.address, full=True)
        recover()
        healed = await r.sync(portal.address, full=True)

    assert (first.status, first.stats.created) == ("completed", COUNT)
    assert (quiet.stats.unchanged, quiet.stats.stopped_at_body, quiet.stats.rows_written) == (COUNT, COUNT, 0)
    assert (edited.stats.updated, edited.stats.stopped_at_body) == (1, COUNT - 1)
    assert [(run.stats.failed, run.stats.stopped_at_body) for run in (failed, again)] == [(1, COUNT - 1)] * 2
    assert (healed.stats.failed, healed.stats.unchanged) == (0, COUNT)
    assert database.query("select count(*) from quarantine") == [(0,)]


async def test_a_record_that_was_mended_out_of_a_broken_answer_is_known_by_the_same_hash(
    database: ScratchDatabase, opened: Opened
) -> None:
    repository = opened(OaiRepository)
    repository.fill(COUNT - 1)
    repository.spoil("d00005")
    async with database.open() as r:
        broken = await r.sync(repository.address, full=True)
        repository.make("d00005")
        mended = await r.sync(repository.address, full=True)

    assert (broken.stats.created, broken.stats.failed) == (COUNT - 1, 1)
    assert (mended.stats.created, mended.stats.stopped_at_body) == (1, COUNT - 1)
