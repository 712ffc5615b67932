"""An address that no URL parser reads is refused as one, and never ends in an error of ours."""

from typing import Any
from urllib.parse import quote

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from rowen.connectors import registry
from rowen.connectors.dcat import linked
from rowen.connectors.dcat.reading import paging_of
from rowen.formats.rdf.graph import Graph
from rowen.model.url import joined
from rowen.net.response import Response, next_link
from tests.conftest import ScratchDatabase
from tests.server.interfaces import interface

# An open bracket, one that is no IPv6 address, and letters that become `a/c` in the form that hosts are compared in.
UNREADABLE = (
    "http://[::1",
    "https://[x]/",
    "HTTP://[",
    "http://]/x.git",
    "http://\u2100.example/",
    "git+http://[::1/x",
)


async def test_sources_of_every_kind_refuse_an_unreadable_address(database: ScratchDatabase) -> None:
    answers: dict[tuple[str, str, str | None], int] = {}
    async with interface(database, probe=False) as it:
        for address in UNREADABLE:
            for kind in (None, *registry.kinds()):
                body: dict[str, Any] = {"address": address, "name": "x"} | ({"kind": kind} if kind else {})
                answers["sources", address, kind] = (await it.http.post("/api/v1/sources", json=body)).status_code
            preview = await it.http.post("/api/v1/preview", json={"address": address})
            answers["preview", address, None] = preview.status_code
            page = await it.http.get(f"/add?address={quote(address, safe='')}")
            answers["page", address, None] = page.status_code if page.status_code != 200 else 400
        left = await it.rowen.sources.list()

    assert {asked: status for asked, status in answers.items() if status != 400} == {}
    assert (left, len(answers) > 100) == ([], True)


@pytest.mark.parametrize("address", UNREADABLE[:3])
def test_an_unreadable_link_of_a_catalog_leads_nowhere(address: str) -> None:
    headers = CIMultiDictProxy(CIMultiDict({"Link": f'<{address}>; rel="next"'}))
    page = f'<link rel="alternate" type="application/ld+json" href="{address}/catalog.jsonld">'
    answer = Response("https://portal.example/", 200, headers, page.encode())

    assert linked(answer) is None
    link = next_link(answer.headers.get("Link", ""))
    assert link is None or joined("https://portal.example/", link) is None
    assert paging_of(Graph(), answer, "https://portal.example/").following is None
