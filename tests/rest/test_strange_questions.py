"""Whatever is asked, the answer is one of those that the document names, and never a bug of ours."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.conftest import ScratchDatabase
from tests.server.interfaces import Interface, interface

STRANGE = [
    "",
    "\0",
    "'",
    "%",
    "-1",
    "0",
    "1",
    "9" * 30,
    "1e309",
    "NaN",
    "../..",
    "product@1",
    "\ud800",
    "ﷺ" * 40,
    "2h",
    "docs",
]
TEXTS = st.sampled_from(STRANGE) | st.text(max_size=20)
# Each asks sixty routes, in about half a second; each build looks at others.
EXAMPLES = 2


def encoded(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


async def asked(it: Interface, path: str, operation: dict[str, Any], values: list[str]) -> None:
    """Ask with strange values for all that may be given."""
    rest = iter(values * 20)
    filled = re.sub(r"\{\w+\}", lambda _: encoded(next(rest)) or "x", path)
    given_ = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"]
    query = "&".join(f"{name}={encoded(next(rest))}" for name in given_)
    answer = await it.http.get(f"{filled}?{query}")
    kind = answer.headers.get("content-type", "").partition(";")[0]
    named = {media for one in operation["responses"].values() for media in one.get("content", {})}

    assert answer.status_code < 500, (filled, query, answer.text)
    assert not kind or kind in named | {"text/html"}, (filled, query, kind)
    if answer.status_code >= 400 and kind == "application/problem+json":
        assert {"type", "title", "status", "detail", "code"} <= set(answer.json())


async def sent(it: Interface, method: str, path: str, operation: dict[str, Any], values: list[Any]) -> None:
    """Send a body with strange values for all that it may have."""
    rest = iter(values * 20)
    filled = re.sub(r"\{\w+\}", lambda _: encoded(str(next(rest))) or "x", path)
    body = {name: next(rest) for name in operation}
    # Written in ASCII, half a character reaches the server as the escape that JSON allows.
    answer = await it.http.request(
        method, filled, content=json.dumps(body), headers={"Content-Type": "application/json"}
    )

    assert answer.status_code < 500, (method, filled, body, answer.text)


# What begins work, waits for others or stops the queue has tests of its own; no strange value leads there.
CALM = re.compile(r"/(?:sources|apply|saved-searches|schemas|webhooks|notices|tokens|carried-schemas)\b")
VALUES = st.one_of(TEXTS, st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.lists(TEXTS, max_size=2))


def test_no_body_is_so_strange_that_it_is_answered_with_a_bug(database: ScratchDatabase) -> None:
    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(st.lists(VALUES, min_size=5, max_size=9))
    @example(["", "", "", "", "\ud800"])
    @example(["\ud800"])
    @example(["\0"])
    def strange(values: list[Any]) -> None:
        asyncio.run(walk(values))

    async def walk(values: list[Any]) -> None:
        async with interface(database, requests_per_minute=10**9, probe=False) as it:
            document = json.loads(json.dumps(it.interfaces.inner.openapi()))
            for path, methods in document["paths"].items():
                for method in {"post", "put", "patch"} & set(methods) if CALM.search(path) else ():
                    body = methods[method].get("requestBody", {}).get("content", {}).get("application/json", {})
                    reference = body.get("schema", {}).get("$ref", "").rpartition("/")[2]
                    shape = document["components"]["schemas"].get(reference, body.get("schema", {}))
                    await sent(it, method, path, shape.get("properties", {}), values)

    strange()


def test_no_question_is_so_strange_that_it_is_answered_with_a_bug(database: ScratchDatabase, tmp_path: Path) -> None:
    (tmp_path / "hay.md").write_text("# Hay")

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(st.lists(TEXTS, min_size=5, max_size=9))
    def strange(values: list[str]) -> None:
        asyncio.run(walk(values))

    async def walk(values: list[str]) -> None:
        async with interface(database, requests_per_minute=10**9) as it:
            if not await it.rowen.sources.list():
                await it.rowen.sources.add(str(tmp_path), name="docs")
                await it.rowen.sync("docs")
            document = json.loads(json.dumps(it.interfaces.inner.openapi()))
            for path, methods in document["paths"].items():
                # What follows something has no end, and a snapshot takes its time.
                if "get" in methods and not path.endswith("/events") and "/exports/" not in path:
                    await asked(it, path, methods["get"], values)

    strange()
