"""Recorded sitemaps, rules for robots and pages are digested."""

from pathlib import Path

import pytest

from rowen.connectors.web.hints import read_entries
from rowen.content.readers import read
from rowen.model.items import Raw
from tests.corpus import CORPUS, needs

pytestmark = needs(CORPUS)

# Entries of each, and how many name other sitemaps.
SITEMAPS = {
    "geoconnex_sitemapindex.xml": (5, 5),
    "geoconnex_ref_gages.xml": (330, 0),
    "geoconnex_nmwdi_st.xml": (266, 0),
    "hebdenbridgetimes_articles.xml": (74, 0),
    "sitemaps-org.xml": (84, 0),
}


@pytest.mark.parametrize("path", sorted((CORPUS / "sitemaps").glob("*.xml")), ids=lambda path: path.name)
def test_recorded_sitemaps_are_digested(path: Path) -> None:
    entries = read_entries(path.read_bytes())

    assert (len(entries), sum(entry.nested for entry in entries)) == SITEMAPS[path.name]
    assert all(entry.url.startswith("http") for entry in entries)


@pytest.mark.parametrize("path", sorted((CORPUS / "rdfa").rglob("*.html")), ids=lambda path: path.name)
def test_recorded_pages_are_digested(path: Path) -> None:
    document = read(Raw("https://site.example/page", path.read_bytes(), media_type="text/html"))

    # One is a fragment of attributes, without a word.
    assert document.text or path.stat().st_size < 500
    assert "�" not in document.title
