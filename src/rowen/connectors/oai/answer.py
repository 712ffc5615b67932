"""Answers of an OAI-PMH repository: records, a token, or what is wrong with the question."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from rowen.connectors.catalog.dates import moment
from rowen.errors import SourceError, SourceGoneError
from rowen.formats import UnreadableError
from rowen.formats.charset import XmlDecoder
from rowen.formats.xml import (
    MOST_ANSWER_ELEMENTS,
    MOST_RECORD_CHARS,
    CutRecord,
    Element,
    Reader,
    XmlElement,
    cut_text,
    cut_up,
    elements,
    local,
    read_in_steps,
    read_xml,
    said,
    spaced,
)
from rowen.net.response import Response, Stream

__all__ = [
    "BadTokenError",
    "Broken",
    "NothingError",
    "OaiAnswer",
    "OaiRefusalError",
    "Plain",
    "StatusError",
    "read",
    "read_stream",
]

_NAMES = frozenset({"record", "header", "resumptionToken", "responseDate", "error", "Identify", "metadataFormat"})
_LISTS = frozenset({"ListRecords", "GetRecord"})
_RECORDS = frozenset({"record"})
# A header as nearly all repositories write it. That of a deleted record has an attribute, and is parsed.
_HEADER = re.compile(
    r"<(?P<p>(?:[\w.-]++:)?)record(?:\s[^<>]*+)?>\s*+<(?P=p)header\s*+>"
    r"\s*+<(?P=p)identifier\s*+>(?P<identifier>[^<>&]*+)</(?P=p)identifier\s*+>"
    r"\s*+<(?P=p)datestamp\s*+>(?P<stamp>[^<>&]*+)</(?P=p)datestamp\s*+>"
    r"(?:\s*+<(?P=p)setSpec\s*+>[^<>&]*+</(?P=p)setSpec\s*+>)*+\s*+</(?P=p)header\s*+>"
)
_MOST_MENDED = 10_000  # a choice: ten times the records of a large answer, since each is parsed alone
# Head and tail of an answer are read again with each of its records: an honest head is as long as a few records.
_MOST_REPEATED = 20
_BEGINS = re.compile(r"<(?:\w+:)?record\b[^<>]*>\s*<(?:\w+:)?header\b")
_CLOSE = re.compile(r"</(?:\w+:)?(?:ListRecords|GetRecord)\s*>")
_REST = re.compile(rf"<(?:\w+:)?resumptionToken\b|{_CLOSE.pattern}")
_ENDS = re.compile(r"</(?:\w+:)?OAI-PMH\s*>\s*\Z")
_DECLARATION = re.compile(r"\A<\?xml\b[^<>]*>")
_IDENTIFIER = re.compile(r"<(?:\w+:)?identifier\b[^<>]*>([^<>&]+)</")


class StatusError(SourceError):
    """The repository answered with an error status, without the XML of the protocol."""


class OaiRefusalError(SourceError):
    """The repository rejected a request by its protocol."""


class BadTokenError(OaiRefusalError):
    """The token is unknown to the repository, or no longer known."""


class NothingError(OaiRefusalError):
    """No records match the request."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A record that is no XML, as it was sent; its identifier, if that can be made out."""

    body: str
    why: str
    identifier: str | None


class Plain(NamedTuple):
    """A record that was not read, but for its header, which says what it is called and dated."""

    identifier: str
    stamp: str
    cut: CutRecord


@dataclass(slots=True)
class OaiAnswer:
    """What a repository answers. `token` is where the list goes on, `size` how many records it says the list has."""

    records: list[XmlElement | Broken | Plain] = field(default_factory=list)
    token: str | None = None
    size: int | None = None
    clock: datetime | None = None
    others: list[Element] = field(default_factory=list)


async def read(response: Response, where: str) -> OaiAnswer:
    """Return the answer in a response; raises what the repository says is wrong."""
    cut = await cut_up(response.body, _LISTS, charset=response.charset, named=_RECORDS)
    body, charset = (cut.rest, "utf-8") if cut else (response.body, response.charset)
    reader = Reader(_NAMES, charset=charset, most_chars=MOST_RECORD_CHARS)
    try:
        found: list[XmlElement | Broken | Plain] = [*await read_in_steps(body, reader)]
        found += await _headed(cut.records if cut else [])
    except UnreadableError as problem:
        if not response.ok:
            raise _bad_status(response, where) from None
        if reader.elements > MOST_ANSWER_ELEMENTS:
            raise SourceError(f"{where}: {problem}", hint=problem.hint) from None
        found = await _mended(response, UnreadableError(f"{where}: {problem}", hint=problem.hint))
    except SourceError as problem:
        if not response.ok:
            raise _bad_status(response, where) from None
        raise SourceError(f"{where}: {problem}", hint=problem.hint) from None
    if reader.root is not None and local(reader.root) != "OAI-PMH":
        if not response.ok:
            raise _bad_status(response, where)
        raise SourceError(f"{where} answers with XML that is not OAI-PMH.")
    answer = _sorted_out(found, where)
    if not response.ok:
        raise _bad_status(response, where)
    return answer


async def read_stream(stream: Stream, where: str) -> OaiAnswer:
    """Return the answer in a response that is too large to be held: only what is wanted of it is."""
    reader = Reader(_NAMES, charset=stream.head.charset, most_chars=MOST_RECORD_CHARS)
    if not stream.head.ok:
        raise _bad_status(stream.head, where)
    found: list[XmlElement | Broken | Plain] = []
    async with aclosing(elements(stream, reader)) as trees:
        async for tree in trees:
            found.append(tree)
            if reader.elements > MOST_ANSWER_ELEMENTS:
                raise SourceError(f"{where} answers with too many records at once.")
    return _sorted_out(found, where)


def _bad_status(response: Response, where: str) -> SourceError:
    kind = SourceGoneError if response.status in (404, 410) else StatusError
    return kind(f"{where} answered with status {response.status}.")


async def _headed(records: Sequence[CutRecord]) -> list[XmlElement | Plain]:
    """Return the records of an answer, while others have their turn between those that are read."""
    found: list[XmlElement | Plain] = []
    for cut in records:
        found.append(_named(cut))
        if isinstance(found[-1], XmlElement):
            await asyncio.sleep(0)
    return found


def _named(cut: CutRecord) -> XmlElement | Plain:
    """Return a record by the name in its header; one whose header is not as plain as most is read."""
    header = _HEADER.match(cut.text)
    if header and (identifier := spaced(header["identifier"])):
        return Plain(identifier, spaced(header["stamp"]), cut)
    return cut.found()


def _sorted_out(found: Sequence[XmlElement | Broken | Plain], where: str) -> OaiAnswer:
    answer = OaiAnswer()
    for one in found:
        if isinstance(one, Broken | Plain):
            answer.records.append(one)
            continue
        match local(one.tree.tag):
            case "record" | "header":
                answer.records.append(one)
            case "resumptionToken":
                size = one.tree.get("completeListSize", "")
                answer.token = said(one.tree) or None
                answer.size = int(size) if size.isdecimal() and len(size) < 12 else None
            case "responseDate":
                answer.clock = moment(said(one.tree))
            case "error":
                raise _refusal(one.tree, where)
            case _:
                answer.others.append(one.tree)
    return answer


def _refusal(error: Element, where: str) -> OaiRefusalError:
    code, words = error.get("code", ""), said(error)
    kind = {"badResumptionToken": BadTokenError, "noRecordsMatch": NothingError}.get(code, OaiRefusalError)
    return kind(f"{where} reports {code or 'an error'}: {words[:300] or 'no words'}.")


async def _mended(response: Response, problem: UnreadableError) -> list[XmlElement | Broken | Plain]:
    """Return the records of an answer that is no XML as a whole, while others have their turn between them."""
    records: list[XmlElement | Broken | Plain] = []
    for piece in _pieces(response, problem):
        records.append(piece)
        await asyncio.sleep(0)
    return records


def _pieces(response: Response, problem: UnreadableError) -> Iterator[XmlElement | Broken | Plain]:
    """Yield the records of an answer that is no XML as a whole, each for itself: a broken one costs no other."""
    decoder = XmlDecoder(response.charset)
    text = _DECLARATION.sub("", decoder.feed(response.body) + decoder.close(), count=1)
    begins = [found.start() for found in _BEGINS.finditer(text)]
    rest = _REST.search(text, begins[-1]) if begins else None
    close = _CLOSE.search(text, rest.start()) if rest else None
    if rest is None or close is None or not _ENDS.search(text, close.start()) or len(begins) > _MOST_MENDED:
        raise problem
    head, tail = text[: begins[0]], text[close.start() :]
    if (len(head) + len(tail)) * len(begins) > _MOST_REPEATED * len(text):
        raise problem
    for begin, end in zip(begins, [*begins[1:], rest.start()], strict=True):
        yield _alone(head, text[begin:end], tail)
    yield from _read(head + text[rest.start() :])


def _alone(head: str, piece: str, tail: str) -> XmlElement | Broken | Plain:
    cut = cut_text(head + piece + tail, _LISTS, named=_RECORDS)
    if cut and len(cut.records) == 1:
        return _named(cut.records[0])
    try:
        return next(one for one in _read(head + piece + tail) if local(one.tree.tag) == "record")
    except (UnreadableError, StopIteration) as problem:
        identifier = _IDENTIFIER.search(piece)
        return Broken(piece, str(problem), identifier[1].strip() if identifier else None)


def _read(text: str) -> list[XmlElement]:
    return read_xml(text.encode("utf-8", "replace"), Reader(_NAMES, charset="utf-8"))
