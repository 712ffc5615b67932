"""A record of a catalogue service is named by its letters only where a reader would name it so."""

import pytest

from rowen.connectors.csw.protocol import RawName, letters_of, name_in
from rowen.connectors.csw.record import identifier_of
from rowen.formats.xml import CutRecord

GMD = ' xmlns:g="http://www.isotc211.org/2005/gmd" xmlns:c="http://www.isotc211.org/2005/gco"'
GML = ' xmlns:gml="http://www.opengis.net/gml"'
NAME = "<g:fileIdentifier><c:CharacterString>a-1 </c:CharacterString></g:fileIdentifier>"
STAMP = "<g:dateStamp><c:DateTime>2024-01-01</c:DateTime></g:dateStamp>"


def record(inside: str, scope: str = GMD + GML) -> CutRecord:
    return CutRecord(f"<g:MD_Metadata>{inside}</g:MD_Metadata>", scope)


def test_a_plain_record_tells_its_name_and_date() -> None:
    plain = record(f"{NAME}<g:contact/><g:locale id='x'>/</g:locale>{STAMP}")

    assert name_in(plain.text) == RawName("a-1", "2024-01-01")
    assert identifier_of(plain.look()) == "a-1"


@pytest.mark.parametrize(
    "inside",
    [
        f"{NAME}<g:series><g:MD_Metadata>{STAMP}</g:MD_Metadata></g:series>",
        f"{NAME}{STAMP}<g:series>{STAMP}</g:series>",
        f"{NAME}<!-- {STAMP} -->",
        f"<g:contact/>{NAME}{STAMP}",
        f"{NAME.replace('a-1', 'a&amp;1')}{STAMP}",
        f"{NAME.replace('a-1', '')}{STAMP}",
        NAME,
        f"<g:fileIdentifier nil='x'/>{STAMP}",
    ],
)
def test_what_is_written_otherwise_takes_a_closer_look(inside: str) -> None:
    assert name_in(record(inside).text) is None


def test_numbers_that_are_given_anew_decide_nothing_and_all_else_does() -> None:
    def numbered(number: int, scope: str = GMD + GML, said: str = "") -> bytes:
        return letters_of(record(f'{NAME}<g:e a="b" gml:id="n{number}">{said}</g:e>{STAMP}', scope))

    assert numbered(1) == numbered(2)
    assert numbered(1) != numbered(1, said=' gml:id="n1"')
    assert numbered(1, said=' gml:id="n1"') != numbered(1, said=' gml:id="n2"')
    assert numbered(1, said="<!-- a -->") != numbered(2, said="<!-- a -->")
    other = GMD + ' xmlns:gml="urn:other"'
    assert numbered(1, other) != numbered(2, other)
