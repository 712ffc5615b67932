"""Nothing that is published links to an address that would run where it is followed."""

import json
import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from pyoxigraph import NamedNode, RdfFormat, parse

from rowen import Complete, Document, Fetched
from rowen.model.datasets import DATASET
from rowen.model.url import is_link, runs_script
from rowen.model.wording import address
from tests.conftest import ScratchDatabase
from tests.portals.scripted import Scripted, shows
from tests.server.interfaces import interface

_RUN = ["javascript:alert(1)", "JaVaScRiPt:alert(1)", "javascript://example.org/%0aalert(1)", "vbscript:x"]
_RUN += ["data:text/html,<script>alert(1)</script>", " javascript:alert(1)", "java\tscript:x", "\x01javascript:x"]
_SCHEME = re.compile(r"\W*(?:j\s*a\s*v\s*a\s*s\s*c\s*r\s*i\s*p\s*t|vbscript|data)\s*:", re.IGNORECASE)
# What a browser or a reader of Markdown makes a link of.
_LINKED = re.compile(r"""(?:href|src|action)=["']([^"']*)|\]\(<?([^)>]*)|<([A-Za-z][\w+.-]{1,31}:[^<>\s]*)>""")


def _dataset(number: int, url: str, **facts: Any) -> Fetched:
    resources = [{"name": "Table", "url": url}]
    record = {"identifier": str(number), "landing_page": url, "licence": url, "resources": resources, **facts}
    named = url if url.isprintable() and url.strip() == url else f"https://example.org/{number}"
    return Fetched(Document(named, f"Dry hay {number}", "Hay.", media_type=DATASET, record=record))


@pytest.mark.parametrize("url", _RUN)
def test_what_runs_is_no_link(url: str) -> None:
    assert runs_script(url)
    assert not is_link(url)
    assert ":" not in address(url).partition("%3A")[0]


@pytest.mark.parametrize(
    "url", ["https://a.example/x", "HTTP://a.example", "ftp://a.example/1.csv", "mailto:a@b.example"]
)
def test_what_is_on_a_network_is_a_link(url: str) -> None:
    assert is_link(url)
    assert not runs_script(url)


@pytest.mark.parametrize("url", ["", "data", "a/b", "file:///etc/passwd", "C:\\x", "None"])
def test_what_is_on_no_network_is_no_link(url: str) -> None:
    assert not is_link(url)
    assert not runs_script(url)


async def test_no_publication_links_to_what_runs(database: ScratchDatabase, kinds: Callable[[Any], None]) -> None:
    kinds(Scripted)
    shows(*(_dataset(number, url) for number, url in enumerate([*_RUN, "https://example.org/fine"])), Complete())
    read = {}
    async with interface(database) as it:
        await it.rowen.sources.add("scripted:javascript", name="docs")
        await it.rowen.sync("docs")
        paths = [
            "/catalog/dcat",
            "/catalog/data.json",
            "/feeds/atom",
            "/feeds/json",
            "/ldes",
            "/llms.txt",
            "/",
            "/changes",
        ]
        paths += [
            "/sources/docs/ldes/pages/0",
            "/sources/docs",
            "/sources/docs?tab=items",
            "/search?q=hay",
            "/changes/1",
        ]
        paths += [f"/item?url={url.replace('%', '%25')}&source=docs" for url in _RUN[:4]]
        for path in paths:
            answer = await it.http.get(path, headers={"Accept": "text/html, */*"})
            assert answer.status_code in (200, 404), (path, answer.text)
            read[path] = answer.text
        markdown = await it.http.get("/api/v1/search?q=hay", headers={"Accept": "text/markdown"})

    for path in [one for one in paths if "dcat" in one or "ldes" in one]:
        terms = [
            term for triple in parse(read[path], format=RdfFormat.TURTLE) for term in (triple.subject, triple.object)
        ]
        assert [term for term in terms if isinstance(term, NamedNode) and _SCHEME.match(term.value)] == [], path
    datasets = json.loads(read["/catalog/data.json"])["dataset"]
    files = {file.get("downloadURL") for one in datasets for file in one["distribution"]}
    # Two spellings are the same address.
    assert len(datasets) == len(_RUN)
    assert ({one.get("landingPage") for one in datasets}, files) == ({None, "https://example.org/fine"},) * 2
    assert [one["license"] for one in datasets if "license" in one] == ["https://example.org/fine"]
    assert markdown.text.count("Dry hay") > 4
    for path, text in {**read, "search as Markdown": markdown.text}.items():
        links = ["".join(found) for found in _LINKED.findall(unescape(text) if "html" in text[:100] else text)]
        assert [link for link in links if _SCHEME.match(link)] == [], path
