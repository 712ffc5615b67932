"""Who may only read learns neither how to reach a person nor who it is."""

from typing import Any

import pytest

from rowen.operations.facts import redacted, redacted_at
from rowen.settings import Settings

KEYS = Settings.model_fields["redacted_keys"].default


@pytest.mark.parametrize(
    "record",
    [
        {"contactPoint": {"@type": "vcard:Contact", "fn": "Ada", "hasEmail": "mailto:x@y.z"}},
        {"dcat:contactPoint": [{"vcard:fn": [{"@value": "Ada"}], "http://www.w3.org/2006/vcard/ns#fn": "Ada"}]},
        {"contact": "Ada", "maintainer": "Ada", "contact_name": "Ada", "maintainer_email": "Ada"},
        {"contact": {"CI_ResponsibleParty": {"individualName": {"CharacterString": "Ada"}}}},
        {"contacts": [{"name": "Ada"}, {"person": {"name": "Ada", "givenName": "Ada"}}]},
    ],
)
def test_the_name_of_a_contact_is_hidden_like_its_address(record: dict[str, Any]) -> None:
    assert "Ada" in str(record)
    assert "Ada" not in str(redacted(record, KEYS))


def test_what_names_no_contact_is_shown() -> None:
    record = {
        "name": "hay-2026",
        "title": "Hay",
        "author": "Ada",
        "publisher": {"name": "The Farm"},
        "contact": [{"organisationName": "The Farm", "fn": ""}],
        "maintainer": None,
    }

    assert redacted(record, KEYS) == record


def test_nothing_is_hidden_where_the_settings_say_so() -> None:
    assert redacted({"fn": "Ada", "email": "x@y.z"}, ()) == {"fn": "Ada", "email": "x@y.z"}


@pytest.mark.parametrize("path", ["/contact/0/fn", "/contact/0/name", "/maintainer", "/contact", "/a/email/b"])
def test_a_part_of_a_record_is_shown_as_in_the_whole(path: str) -> None:
    assert redacted_at(path, "Ada", KEYS) == "(hidden)"


def test_other_parts_of_a_record_are_shown() -> None:
    assert redacted_at("/title", "Hay", KEYS) == "Hay"
    assert redacted_at("/contact", [{"fn": "Ada", "role": "owner"}], KEYS) == [{"fn": "(hidden)", "role": "owner"}]
