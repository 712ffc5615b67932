"""The facts of one page on stdout: every form says the same, and none commands a terminal."""

import json

import pytest

from rowen.interfaces.cli.commands.extraction import FORMATS, print_facts
from rowen.interfaces.cli.output import Output
from rowen.model.extraction import Extracted

DATA = {"name": "Lamp\x9b2J", "offer": {"price": 10.5, "note": None}, "tags": ["a", "b"], "url": "/x"}
FOUND = Extracted("https://shop.example/1", "lamp@1.0.0", DATA, "model")


def test_every_format_prints_the_data_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    told = {}
    for form in FORMATS:
        print_facts(Output(), FOUND, form)
        told[form] = capsys.readouterr().out
        assert "\x9b" not in told[form]

    assert json.loads(told["json"]) == json.loads(told["compact"]) == DATA
    assert told["json"].count("\n") > told["compact"].count("\n") == 1
    assert json.loads(told["jsonl"]) == {"url": FOUND.url, "schema": "lamp@1.0.0", "data": DATA}
    assert told["csv"].splitlines() == [
        "url,name,offer.price,offer.note,tags,data.url",
        'https://shop.example/1,Lamp�2J,10.5,,"[""a"", ""b""]",/x',
    ]
    assert told["table"].splitlines() == [
        "name\tLamp�2J",
        "offer.price\t10.5",
        "offer.note\t",
        'tags\t["a", "b"]',
        "url\t/x",
    ]
