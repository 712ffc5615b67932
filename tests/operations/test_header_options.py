"""A header that cannot be sent is refused where it is given, and never sent where it was stored before."""

import json
from typing import Any

import pytest

from rowen import UsageError
from rowen.connectors import registry
from rowen.errors import ConfigurationError
from rowen.net.credentials import Credentials
from tests.conftest import ScratchDatabase
from tests.server.interfaces import interface

BAD: list[dict[str, str]] = [
    {"X-A\r\nX-B": "1"},
    {"X A": "1"},
    {"X-A:": "1"},
    {"": "1"},
    {"\u2028X": "1"},
    {"X-A": "1\r\nX-B: 2"},
    {"X-A": "1\x00"},
    {"X-A": "x" * 20_000},
    {"Transfer-Encoding": "chunked"},
    {"content-length": "5"},
]


def _options() -> list[tuple[str, str]]:
    """Each option of each kind that holds headers."""
    return [
        (kind, name)
        for kind in registry.kinds()
        for name in registry.connector(kind).Options.model_fields
        if "headers" in name
    ]


@pytest.mark.parametrize("headers", BAD)
async def test_no_interface_stores_a_header_that_cannot_be_sent(
    database: ScratchDatabase, headers: dict[str, str]
) -> None:
    async with interface(database) as it:
        await it.rowen.sources.add("https://example.org/", kind="web", name="fine")
        options = {"headers": headers}
        entry = {"name": "x", "kind": "web", "url": "https://example.org/x", "options": options}
        sent: list[tuple[str, str, Any]] = [
            ("POST", "/api/v1/sources", {"address": "https://example.org/y", "kind": "web", "options": options}),
            ("PATCH", "/api/v1/sources/fine", {"options": options}),
            ("POST", "/api/v1/apply", {"source": [entry]}),
            ("POST", "/api/v1/preview", {"address": "https://example.org/", "kind": "web", "options": options}),
            ("POST", "/api/v1/sources/fine/endpoints", {"endpoint": "https://example.org/sparql", "headers": headers}),
        ]
        answers = [
            await it.http.request(method, path, content=json.dumps(body), headers={"Content-Type": "application/json"})
            for method, path, body in sent
        ]
        for kind, name in _options():
            with pytest.raises(UsageError, match=name):
                await it.rowen.sources.add("https://example.org/z", kind=kind, name="z", options={name: headers})
        kept = [(source.name, source.options) for source in await it.rowen.sources.list()]

    assert [answer.status_code for answer in answers] == [400] * len(sent)
    assert all(answer.json()["detail"].isprintable() or "\n  " in answer.json()["detail"] for answer in answers)
    assert kept == [("fine", {})]
    assert len(_options()) > 8


async def test_usual_headers_are_stored(database: ScratchDatabase) -> None:
    headers = {"X-Key": "env:KEY", "Accept-Language": "de, en;q=0.5", "Host": "näher.example"}
    async with database.open() as r:
        await r.sources.add("https://example.org/", kind="web", name="usual", options={"headers": headers})
        stored = (await r.sources.get("usual")).options

    assert stored == {"headers": headers}


async def test_a_header_that_was_stored_before_is_not_sent_and_can_be_replaced(database: ScratchDatabase) -> None:
    async with database.open() as r:
        await r.sources.add("http://127.0.0.1:9/", kind="web", name="old")
        database.query("update source set options = %s returning 1", '{"headers": {"X-A\\r\\nX-B": "1"}}')
        options = dict((await r.sources.get("old")).options)
        with pytest.raises(ConfigurationError, match="cannot be the name of a header"):
            Credentials("http://127.0.0.1:9", options["headers"]).headers("http://127.0.0.1:9")
        mended = await r.sources.edit("old", options={"headers": {"X-A": "1"}})

    assert mended.options == {"headers": {"X-A": "1"}}
