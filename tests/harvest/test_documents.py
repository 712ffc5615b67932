"""Documents of binary formats are read in worker processes, however small they are."""

from rowen import Raw
from rowen.harvest import parse_pool
from rowen.harvest.parse_pool import Workers
from rowen.harvest.parse_worker import Prepared, Refused
from tests.content.office_files import docx, paragraph, pdf
from tests.harvest.test_workers import hostile


async def test_a_small_document_is_read_in_a_worker_with_its_memory_limit() -> None:
    workers = Workers(1)
    try:
        raws = [
            Raw("https://example.org/a.pdf", pdf([["Hay", "Mow."]])),
            Raw("https://example.org/b", docx(paragraph("Rowen")), name="b.docx"),
        ]
        answers = await workers.prepare(raws)

        assert [answer.document.title for answer in answers if isinstance(answer, Prepared)] == ["Hay", "b.docx"]
        assert workers._all[0]._process is not None
        assert (await workers.read(raws[0])).title == "Hay"
    finally:
        await workers.close()


async def test_without_workers_a_document_is_read_in_place() -> None:
    assert (await Workers(0).read(Raw("https://example.org/a.pdf", pdf([["Hay"]])))).title == "Hay"


async def test_a_document_that_crashes_its_parser_costs_that_item_alone(monkeypatch) -> None:
    monkeypatch.setattr(parse_pool, "COMMAND", hostile("os.abort()"))
    workers = Workers(1)
    try:
        raws = [
            Raw("https://example.org/a.rtf", rb"{\rtf1 one}"),
            Raw("https://example.org/b.rtf", rb"{\rtf1 HOSTILE}"),
            Raw("https://example.org/c.rtf", rb"{\rtf1 three}"),
        ]
        one, two, three = await workers.prepare(raws)

        assert isinstance(one, Prepared)
        assert isinstance(two, Refused)
        assert "crashed" in two.error
        assert isinstance(three, Prepared)
    finally:
        await workers.close()


async def test_a_document_is_a_batch_of_its_own() -> None:
    small = [Raw(f"https://example.org/{n}.rtf", b"{\\rtf1}") for n in range(3)]

    assert [len(batch) for batch in parse_pool._batches(small)] == [1, 1, 1]
