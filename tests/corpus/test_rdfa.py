"""Recorded pages of councils state what they are known to."""

import pytest

from rowen.content.readers import read
from rowen.formats.rdf.rdfa import read_rdfa
from rowen.model.items import Raw
from tests.corpus import CORPUS, needs

pytestmark = needs(CORPUS)

# The number of the first one is that of two other processors; the others are recorded from this one.
PAGES = {
    "vendor-examples/voorbeeld-besluitenlijst-met-stemming.html": ("decision list", 44),
    "vendor-examples/voorbeeld-reglement.html": ("item", 39),
    "vendor-examples/voorbeeld-rdfa-document-met-type.html": ("agenda", 3),
    "aalter_besluitenlijst.html": ("decision list", 596),
    "essen_besluitenlijst.html": ("decision list", 197),
    "machelen_agenda.html": ("agenda", 70),
    "torhout_notulen_gemeenteraad.html": ("minutes", 1693),
}
TOWN = "/Vlavirgem/Gemeente"
LINKS = {
    "voorbeeld-rdfa-document-link-publicatie.html": f"{TOWN}/5efc0690-98ad-11e9-aeb5-21bebd3acfb8",
    "voorbeeld-rdfa-document-zitting-relatie-hyperlink.html": f"{TOWN}/5adb026d-c34a-47d1-b89a-e57b98fa9119",
}


@pytest.mark.parametrize("name", PAGES)
def test_a_recorded_page_is_classified_and_states_as_much_as_it_should(name: str) -> None:
    body = (CORPUS / "rdfa" / name).read_bytes()
    kind, statements = PAGES[name]

    document = read(Raw("https://council.example/page", body, media_type="text/html", statements="documents"))

    assert document.record["rdfa"]["type"] == kind
    assert len(set(read_rdfa(body.decode(), "https://council.example/page"))) == statements


@pytest.mark.parametrize("name", LINKS)
def test_the_link_to_a_document_is_found_although_no_statement_has_it(name: str) -> None:
    body = (CORPUS / "rdfa" / "vendor-examples" / name).read_bytes()

    document = read(Raw("https://council.example/page", body, media_type="text/html", statements="documents"))

    assert document.record["rdfa"]["links"] == [f"https://council.example{LINKS[name]}"]
