"""Puts one hostile value into one place of one record, in what a portal answers, whatever the portal thinks of it."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from aiohttp import web

__all__ = ["MARK", "VALUES", "Twister", "Value", "spoiled", "twisted"]

MARK = "v1ct1m"
"""What the name of the record contains that is to be changed, and nothing else does."""


class Value(NamedTuple):
    """A hostile value: as JSON writes it, and as a text. What is no XML breaks a whole document."""

    json: str
    text: str
    breaks_xml: bool = False


def _text(text: str) -> Value:
    return Value(json.dumps(text), text, bool(re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]", text)))


def _other(written: str) -> Value:
    return Value(written, written)


VALUES = {
    "surrogate": _text("a\ud800b"),
    "surrogate alone": _text("\udfff"),
    "NUL": _text("a\x00b"),
    "NUL at the end": _text("ab\x00"),
    "controls": _text("\x01\x1b[31m\x7f\x9b\x85"),
    "line ends": _text("a\r\n\u2028b\n"),
    "no character": _text("\ufffe\uffff"),
    "from right to left": _text("\u202egnp.exe\u2066"),
    "nothing": _text(""),
    "blanks": _text(" \t "),
    "beyond floats": _other("1e400"),
    "lowest float": _other("-1e308"),
    "400 digits": _other("9" * 400),
    "5000 digits": _other("9" * 5000),
    "far below zero": _other("-" + "9" * 30),
    "minus one": _other("-1"),
    "year 0": _text("0000-01-01"),
    "year 1 in the east": _text("0001-01-01T00:00:00+23:59"),
    "last day": _text("9999-12-31"),
    "beyond the last day": _text("9999-12-31T23:59:59-23:59"),
    "year 10000": _text("10000-01-01T00:00:00Z"),
    "before Christ": _text("-0001-01-01T00:00:00Z"),
    "other digits": _text("٢٠٢٤-٠١-٠١T٠٠:٠٠:٠٠Z"),
    "list": _other('["a", ["b"], null]'),
    "no list": _other("[]"),
    "object": _other('{"a": {"b": ["c", 1.5]}, "": null}'),
    "no object": _other("{}"),
    "true": _other("true"),
    "null": _other("null"),
    "100 kB": _text("hay " * 25_000),
    "one word of 100 kB": _text("x" * 100_000),
    "300 levels": _other("[" * 300 + "]" * 300),
    "5000 levels": _other('{"a":' * 5000 + "1" + "}" * 5000),
    "open bracket": _text("http://[::1"),
    "script": _text("javascript:alert(1)"),
    "upwards": _text("../.."),
    "dot": _text("."),
    "long URL": _text("https://a.example/" + "x" * 50_000),
    "bad escapes": _text("https://a.example/%00%ff%zz?%"),
    "markup": _text("</title><script>&amp;&#0;&#xD800;<!--"),
    "SQL": _text("'; drop table item; --"),
    "Solr": _text('* TO *] OR "\\'),
}


@dataclass(slots=True)
class Twister:
    """Changes answers: the value goes to the place of this number, among those that the record has in each answer.

    `said` is what stands in these places as long as nothing is changed.
    """

    value: Value | None = None
    place: int = 0
    said: list[Any] = field(default_factory=list)

    def twist(self, body: bytes) -> bytes:
        """An answer with the value in it, if it holds the record."""
        if MARK.encode() not in body:
            return body
        start = body.lstrip()[:1]
        return self._json(body) if start in b"{[" else self._tokens(body)

    @property
    def places(self) -> int:
        """How many places the record has, in the answer where it has most."""
        return len(self.said)

    @property
    def name_at(self) -> int:
        """The first place that holds the name of the record."""
        return next(place for place, value in enumerate(self.said) if MARK in str(value) and isinstance(value, str))

    def _note(self, said: list[Any]) -> None:
        self.said = said if len(said) > len(self.said) else self.said

    def _json(self, body: bytes) -> bytes:
        data = json.loads(body)
        spots = [spot for record in _records(data) for spot in _leaves(record)]
        self._note([within[name] for within, name in spots])
        if self.value is None or not spots:
            return body
        within, name = spots[self.place % len(spots)]
        within[name] = "@@value@@"
        return json.dumps(data).replace('"@@value@@"', self.value.json).encode("utf-8", "surrogatepass")

    def _tokens(self, body: bytes) -> bytes:
        text = body.decode()
        spots = list(_spans(text))
        self._note([text[begin:end] for begin, end in spots])
        if self.value is None or not spots:
            return body
        begin, end = spots[self.place % len(spots)]
        said = escape(self.value.text, {'"': "&quot;"}) if text.lstrip().startswith("<") else self.value.text
        return (text[:begin] + said + text[end:]).encode("utf-8", "surrogatepass")


def spoiled(body: bytes, value: Value, place: int) -> bytes:
    """A document of JSON with the value anywhere in it."""
    data = json.loads(body)
    spots = list(_leaves(data))
    within, name = spots[place % len(spots)]
    within[name] = "@@value@@"
    return json.dumps(data).replace('"@@value@@"', value.json).encode("utf-8", "surrogatepass")


def _records(data: Any) -> Iterator[Any]:
    """The elements of the outermost lists that speak of the record."""
    if isinstance(data, list):
        for number, one in enumerate(data):
            if MARK in json.dumps(one):
                yield one if isinstance(one, dict | list) else (data, number)
    elif isinstance(data, dict):
        for one in data.values():
            yield from _records(one)


def _leaves(value: Any) -> Iterator[tuple[Any, Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in list(pairs):
        yield value, name
        if isinstance(inner, dict | list):
            yield from _leaves(inner)


_PIECE = re.compile(
    r"<(?P<tag>(?:\w+:)?(?:record|header|Record|BriefRecord|SummaryRecord|MD_Metadata|Dataflow|Description|url|item|entry))\b"
    r".*?</(?P=tag)>",
    re.DOTALL,
)
_XML_TOKEN = re.compile(r'>([^<>]+)<|(?<!xmlns)(?<!xmlns:\w\w)(?<!xmlns:\w\w\w)="([^"]*)"')
_RDF_TOKEN = re.compile(r'"((?:[^"\\\n]|\\.)*)"|<([^<>\n]*)>')


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Where values stand in the record, in XML or in lines of RDF."""
    is_xml = text.lstrip().startswith("<?xml") or bool(_PIECE.search(text))
    pieces = _PIECE.finditer(text) if is_xml else re.finditer(r"[^\n]+", text)
    token = _XML_TOKEN if is_xml else _RDF_TOKEN
    for piece in pieces:
        if MARK in piece[0]:
            is_shared = "/a0" in piece[0]
            for found in token.finditer(text, piece.start(), piece.end()):
                said = found[found.lastindex or 0]
                if said.strip() and (MARK in said or not is_shared):
                    yield found.span(found.lastindex or 0)


def twisted(portal: Any, path: str = "") -> Twister:
    """Let a portal's answers below a path be changed; validators would only hide that they are."""
    twister, answer = Twister(), portal._answer_for

    async def changed(request: web.Request) -> web.StreamResponse:
        response = await answer(request)
        if not isinstance(response, web.Response) or response.status != 200 or not isinstance(response.body, bytes):
            return response
        if not request.path.startswith(path):
            return response
        kept = {name: value for name, value in response.headers.items() if name not in _DROPPED}
        return web.Response(body=twister.twist(response.body), headers=kept)

    portal._answer_for = changed
    return twister


_DROPPED = frozenset({"ETag", "Last-Modified", "Content-Length"})
