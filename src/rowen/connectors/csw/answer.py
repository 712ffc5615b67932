"""Answers of a catalogue service: records, or a report of what is wrong."""

from dataclasses import dataclass, field

from rowen.errors import SourceError, SourceGoneError
from rowen.formats.errors import UnreadableError
from rowen.formats.xml import Element, FoundElement, Reader, local, read_in_steps, said
from rowen.formats.xml_records import CutRecord, cut_up
from rowen.net.response import Response

__all__ = ["CswAnswer", "CswRefusalError", "read", "read_one"]

_RESULTS = frozenset({"SearchResults"})
_ONE = frozenset({"GetRecordByIdResponse"})
# Version 3.0 answers with the record itself.
_RECORDS = frozenset({"MD_Metadata", "MI_Metadata", "Record"})
_WRONG = frozenset({"Exception", "ServiceException"})
_REPORTS = frozenset({"ExceptionReport", "ServiceExceptionReport"})
_BEYOND_US = frozenset(
    {"InvalidParameterValue", "MissingParameterValue", "OptionNotSupported", "OperationNotSupported"}
)


class CswRefusalError(UnreadableError):
    """The service reports that it cannot answer; `is_question` tells that the question itself is not to its liking."""

    is_question = False


@dataclass(slots=True)
class CswAnswer:
    """Records, how many match the question, and how many are said to be in this answer.

    Where the next ones are said to begin is not worth knowing.
    """

    records: list[CutRecord | FoundElement] = field(default_factory=list)
    matched: int | None = None
    returned: int | None = None


async def read(response: Response, where: str) -> CswAnswer:
    """The answer in a response; raises what the service reports instead."""
    cut = await cut_up(response.body, _RESULTS, charset=response.charset)
    charset = "utf-8" if cut else response.charset
    reader = Reader(_WRONG, within=_RESULTS, heads=_RESULTS, charset=charset)
    root, found = await _read(response, where, reader, cut.rest if cut else response.body)
    if root != "GetRecordsResponse":
        raise SourceError(f"{where} answers with XML that is no list of records.")
    answer = _sorted_out(found)
    answer.records += cut.records if cut else []
    return answer


async def read_one(response: Response, where: str) -> list[CutRecord | FoundElement]:
    """The record in an answer to the question for one; none where the service does not know it."""
    cut = await cut_up(response.body, _ONE, charset=response.charset)
    reader = Reader(_WRONG | _RECORDS, within=_ONE, charset="utf-8" if cut else response.charset)
    root, found = await _read(response, where, reader, cut.rest if cut else response.body)
    if root not in _ONE | _RECORDS:
        raise SourceError(f"{where} answers with XML that is no record.")
    return [*found, *(cut.records if cut else [])]


async def _read(response: Response, where: str, reader: Reader, body: bytes) -> tuple[str, list[FoundElement]]:
    """The name of a document and what a reader finds in it, or in what was left of it."""
    try:
        found = await read_in_steps(body, reader)
    except SourceError as problem:
        if not response.ok:
            raise _bad_status(response, where) from None
        raise type(problem)(f"{where}: {problem}", hint=problem.hint) from None
    root = local(reader.root or "")
    if root in _REPORTS:
        raise _refusal([one.tree for one in found], where)
    if not response.ok:
        raise _bad_status(response, where)
    return root, found


def _bad_status(response: Response, where: str) -> SourceError:
    kind = SourceGoneError if response.status in (404, 405, 410) else UnreadableError
    return kind(f"{where} answered with status {response.status}.")


def _refusal(reports: list[Element], where: str) -> CswRefusalError:
    code = next((code for one in reports if (code := one.get("exceptionCode") or one.get("code"))), "")
    words = " ".join(map(said, reports))[:300]
    problem = CswRefusalError(f"{where} reports {code or 'an exception'}: {words}")
    problem.is_question = code in _BEYOND_US
    return problem


def _sorted_out(found: list[FoundElement]) -> CswAnswer:
    answer = CswAnswer()
    for one in found:
        if local(one.tree.tag) == "SearchResults":
            answer.matched = _number(one.tree.get("numberOfRecordsMatched"))
            answer.returned = _number(one.tree.get("numberOfRecordsReturned"))
        else:
            answer.records.append(one)
    return answer


def _number(words: str | None) -> int | None:
    """A count; negative ones and other nonsense are none."""
    return int(words) if words and words.isdecimal() and len(words) < 12 else None
