"""Answers of an OAI-PMH repository: records, a resumption token, or an error."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
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

_NAMES = frozenset({"record", "header", "resumptionToken", "responseDate", "error", "Identify", "metadataFormat"})
_LISTS = frozenset({"ListRecords", "GetRecord"})
_RECORDS = frozenset({"record"})
# A header in the form that nearly all repositories use. The header of a deleted record has an attribute, and is parsed.
_HEADER = re.compile(
    r"<(?P<p>(?:[\w.-]++:)?)record(?:\s[^<>]*+)?>\s*+<(?P=p)header\s*+>"
    r"\s*+<(?P=p)identifier\s*+>(?P<identifier>[^<>&]*+)</(?P=p)identifier\s*+>"
    r"\s*+<(?P=p)datestamp\s*+>(?P<stamp>[^<>&]*+)</(?P=p)datestamp\s*+>"
    r"(?:\s*+<(?P=p)setSpec\s*+>[^<>&]*+</(?P=p)setSpec\s*+>)*+\s*+</(?P=p)header\s*+>"
)
_MOST_MENDED = 10_000  # a judgement: ten times the records of a large answer, since each is parsed individually
# The head and tail of an answer are parsed again with each of its records: a usual head is as long as a few records.
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
    """A record that is invalid XML, as received; `identifier` is None if it cannot be found in the text."""

    body: str
    why: str
    identifier: str | None


class Plain(NamedTuple):
    """A record whose header was read but whose content is not parsed."""

    identifier: str
    stamp: str
    cut: CutRecord


OaiRecord = XmlElement | Broken | Plain


@dataclass(slots=True)
class OaiAnswer:
    """The answer of a repository; `token` continues the list, `size` is its declared number of records."""

    records: list[OaiRecord] = field(default_factory=list)
    token: str | None = None
    size: int | None = None
    clock: datetime | None = None
    others: list[Element] = field(default_factory=list)


async def read(response: Response, where: str) -> OaiAnswer:
    """Parse a response; raise the error that the repository reports."""
    cut = await cut_up(response.body, _LISTS, charset=response.charset, named=_RECORDS)
    body, charset = (cut.rest, "utf-8") if cut else (response.body, response.charset)
    reader = Reader(_NAMES, charset=charset, most_chars=MOST_RECORD_CHARS)
    try:
        found: list[OaiRecord] = [*await read_in_steps(body, reader)]
        for record in cut.records if cut else ():
            found.append(_named(record))
            if isinstance(found[-1], XmlElement):
                await asyncio.sleep(0)
    except UnreadableError as problem:
        if not response.ok:
            raise _bad_status(response, where) from None
        if reader.elements > MOST_ANSWER_ELEMENTS:
            raise SourceError(f"{where}: {problem}", hint=problem.hint) from None
        found = []
        for piece in _pieces(response, UnreadableError(f"{where}: {problem}", hint=problem.hint)):
            found.append(piece)
            await asyncio.sleep(0)
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
    """Parse a response that is too large for memory; keep only its relevant elements."""
    reader = Reader(_NAMES, charset=stream.head.charset, most_chars=MOST_RECORD_CHARS)
    if not stream.head.ok:
        raise _bad_status(stream.head, where)
    found: list[OaiRecord] = []
    async with aclosing(elements(stream, reader)) as trees:
        async for tree in trees:
            found.append(tree)
            if reader.elements > MOST_ANSWER_ELEMENTS:
                raise SourceError(f"{where} answers with too many records at once.")
    return _sorted_out(found, where)


def _bad_status(response: Response, where: str) -> SourceError:
    kind = SourceGoneError if response.status in (404, 410) else StatusError
    return kind(f"{where} answered with status {response.status}.")


def _named(cut: CutRecord) -> XmlElement | Plain:
    """Return a record with only its header read; parse the record if its header is unusual."""
    header = _HEADER.match(cut.text)
    if header and (identifier := spaced(header["identifier"])):
        return Plain(identifier, spaced(header["stamp"]), cut)
    return cut.found()


def _sorted_out(found: Sequence[OaiRecord], where: str) -> OaiAnswer:
    answer = OaiAnswer()
    for part in found:
        if isinstance(part, Broken | Plain):
            answer.records.append(part)
            continue
        tree = part.tree
        match local(tree.tag):
            case "record" | "header":
                answer.records.append(part)
            case "resumptionToken":
                size = tree.get("completeListSize", "")
                answer.token = said(tree) or None
                answer.size = int(size) if size.isdecimal() and len(size) < 12 else None
            case "responseDate":
                answer.clock = moment(said(tree))
            case "error":
                code, words = tree.get("code", ""), said(tree)
                kind = {"badResumptionToken": BadTokenError, "noRecordsMatch": NothingError}.get(code, OaiRefusalError)
                raise kind(f"{where} reports {code or 'an error'}: {words[:300] or 'no words'}.")
            case _:
                answer.others.append(tree)
    return answer


def _pieces(response: Response, problem: UnreadableError) -> Iterator[OaiRecord]:
    """Yield the records of a response that is invalid XML as a whole; only broken records fail."""
    decoder = XmlDecoder(response.charset)
    text = _DECLARATION.sub("", decoder.feed(response.body) + decoder.close(), count=1)
    begins = [match.start() for match in _BEGINS.finditer(text)]
    rest = _REST.search(text, begins[-1]) if begins else None
    close = _CLOSE.search(text, rest.start()) if rest else None
    if rest is None or close is None or not _ENDS.search(text, close.start()) or len(begins) > _MOST_MENDED:
        raise problem
    head, tail = text[: begins[0]], text[close.start() :]
    if (len(head) + len(tail)) * len(begins) > _MOST_REPEATED * len(text):
        raise problem
    for begin, end in zip(begins, [*begins[1:], rest.start()], strict=True):
        piece = text[begin:end]
        cut = cut_text(head + piece + tail, _LISTS, named=_RECORDS)
        if cut and len(cut.records) == 1:
            yield _named(cut.records[0])
            continue
        identifier = _IDENTIFIER.search(piece)
        broken = Broken(piece, "", identifier[1].strip() if identifier else None)
        try:
            trees = _read(head + piece + tail)
        except UnreadableError as error:
            yield replace(broken, why=str(error))
        else:
            records: Iterator[OaiRecord] = (tree for tree in trees if local(tree.tree.tag) == "record")
            yield next(records, broken)
    yield from _read(head + text[rest.start() :])


def _read(text: str) -> list[XmlElement]:
    return read_xml(text.encode("utf-8", "replace"), Reader(_NAMES, charset="utf-8"))
