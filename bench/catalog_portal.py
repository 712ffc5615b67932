"""A CKAN portal of any size in a process of its own: records are put together from pieces rendered beforehand."""

import asyncio
import gzip
import json
import multiprocessing
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import psutil

from bench.large_records import large_records

__all__ = ["Portal", "portal"]

FIRST = datetime(2015, 1, 1, tzinfo=UTC)
APART = timedelta(minutes=10)
_MARK = "@@{}@@"
_MARKS = re.compile(rb"@@(id|number|edition|modified)@@")
_SINCE = re.compile(r"metadata_modified:\[(\S+) TO \*\]")
_BEGINNINGS, _ENDINGS = (
    ("mea", "clo", "bar", "vet", "ro", "hay", "thi", "qui"),
    ("ver", "dow", "ley", "ch", "wan", "nce"),
)
_WORDS = [beginning + ending for beginning in _BEGINNINGS for ending in _ENDINGS]
_UNREADABLE = b', "odd": ' + b"[" * 900 + b"]" * 900 + b"}"
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: %b\r\nContent-Length: %d\r\n\r\n"


def _records(corpus: Path | None, *, large: bool) -> list[dict[str, Any]]:
    """Those of the recorded answers, or some of our own making of about 3 kB each; large ones have 15.6 kB."""
    if corpus is None and large:
        return large_records()
    if corpus is None:
        return [_synthetic(Random(number)) for number in range(500)]
    found = []
    for path in sorted((corpus / "ckan").iterdir()):
        answer = json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())
        found += answer.get("result", answer)["results"]
    return found


def _synthetic(chance: Random) -> dict[str, Any]:
    def words(count: int) -> str:
        return " ".join(chance.choices(_WORDS, k=count))

    resource = {
        "mimetype": "text/csv",
        "state": "active",
        "hash": "",
        "cache_url": None,
        "created": "2023-02-01T08:00:00",
    }
    return {
        "title": words(6),
        "notes": ". ".join(words(14) for _ in range(7)),
        "license_title": "Creative Commons Attribution",
        "license_id": "cc-by",
        "metadata_created": "2023-01-01T00:00:00.000000",
        "state": "active",
        "type": "dataset",
        "organization": {
            "id": words(2),
            "name": words(1),
            "title": words(3),
            "package_count": 70,
            "description": words(12),
        },
        "tags": [{"name": word, "display_name": word, "state": "active"} for word in chance.choices(_WORDS, k=5)],
        "groups": [],
        "extras": [{"key": words(1), "value": words(3)} for _ in range(4)],
        "resources": [
            {
                **resource,
                "id": words(2),
                "name": words(3),
                "format": "CSV",
                "url": f"https://files.example/{words(1)}.csv",
            }
            for _ in range(3)
        ],
    }


def _pieces(record: dict[str, Any]) -> list[bytes]:
    """A record as bytes, cut where something differs from one dataset to the next."""
    title = record.get("title")
    marked = {
        **record,
        "id": _MARK.format("id"),
        "name": "name-" + _MARK.format("id"),
        "title": title if isinstance(title, dict) else f"{title} {_MARK.format('number')}{_MARK.format('edition')}",
        "metadata_modified": _MARK.format("modified"),
    }
    return _MARKS.split(json.dumps(marked, ensure_ascii=False).encode())


class _Catalog:
    def __init__(self, count: int, corpus: Path | None, *, large: bool) -> None:
        self.count = count
        self.clock = FIRST + (count + 6) * APART
        self.edited: dict[int, datetime] = {}
        self.broken: set[int] = set()
        self._records = [_pieces(record) for record in _records(corpus, large=large)]

    def edit(self, every: int) -> None:
        self.clock += timedelta(days=1)
        self.edited |= dict.fromkeys(range(0, self.count, every), self.clock)

    def toggle(self, number: int) -> None:
        """Let a record fail, or recover."""
        self.broken ^= {number}

    def answer(self, query: dict[str, list[str]]) -> bytes:
        """A page of records, or the one that is named."""
        if "id" in query:
            return b'{"success": true, "result": %b}' % self._record(int(query["id"][0].partition("-")[0], 16))
        return self.search(query)

    def search(self, query: dict[str, list[str]]) -> bytes:
        start, rows = int(query["start"][0]), int(query["rows"][0])
        since = _SINCE.search(query.get("fq", [""])[0])
        found = self._since(datetime.fromisoformat(since[1])) if since else range(self.count)
        names = "fl" in query
        page = b",".join([self._name(n) if names else self._record(n) for n in found[start : start + rows]])
        return b'{"success": true, "result": {"count": %d, "results": [%b]}}' % (len(found), page)

    def _since(self, moment: datetime) -> list[int]:
        first = max(0, -((FIRST - moment) // APART))
        later = {number for number, at in self.edited.items() if at >= moment}
        return sorted(later.union(number for number in range(first, self.count) if number not in self.edited))

    def _name(self, number: int) -> bytes:
        return b'{"id": "%b"}' % _id(number)

    def _record(self, number: int) -> bytes:
        at = self.edited.get(number)
        modified = (at or FIRST + number * APART).replace(tzinfo=None)
        values = {
            b"id": _id(number),
            b"number": b"%d" % number,
            b"edition": b", edition of %b" % at.isoformat().encode() if at else b"",
            b"modified": modified.isoformat(timespec="microseconds").encode(),
        }
        pieces = self._records[number % len(self._records)]
        record = b"".join([piece if n % 2 == 0 else values[piece] for n, piece in enumerate(pieces)])
        return record[:-1] + _UNREADABLE if number in self.broken else record


def _id(number: int) -> bytes:
    return b"%08x-5eed-4000-8000-c0ffee000000" % number


class _Protocol(asyncio.Protocol):
    def __init__(self, catalog: _Catalog) -> None:
        self._catalog = catalog

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._unread = b""

    def data_received(self, data: bytes) -> None:
        *requests, self._unread = (self._unread + data).split(b"\r\n\r\n")
        for request in requests:
            body = self._catalog.answer(parse_qs(urlsplit(request.split(b" ", 2)[1].decode()).query))
            date = format_datetime(self._catalog.clock, usegmt=True).encode()
            self._transport.writelines([_HEAD % (date, len(body)), body])


def _serve(pipe: Connection, count: int, corpus: Path | None, large: bool) -> None:
    catalog = _Catalog(count, corpus, large=large)

    def change() -> None:
        try:
            what, number = pipe.recv()
        except EOFError:  # whom it serves was killed
            raise SystemExit from None
        getattr(catalog, what)(number)
        pipe.send(True)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Protocol(catalog), "127.0.0.1", 0)
        loop.add_reader(pipe.fileno(), change)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


class Portal(NamedTuple):
    """A running portal."""

    url: str
    pipe: Connection
    process: psutil.Process

    def edit(self, every: int) -> None:
        """Change one of so many records."""
        self._tell("edit", every)

    def toggle(self, number: int) -> None:
        """Let a record fail, or recover."""
        self._tell("toggle", number)

    def _tell(self, what: str, number: int) -> None:
        self.pipe.send((what, number))
        self.pipe.recv()

    @property
    def cpu_s(self) -> float:
        """What it has cost so far."""
        return float(sum(self.process.cpu_times()[:2]))


@contextmanager
def portal(count: int, corpus: Path | None = None, *, large: bool = False) -> Iterator[Portal]:
    """Serve so many records on loopback; `large` ones have 15.6 kB."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, count, corpus, large), daemon=True)
    process.start()
    theirs.close()
    try:
        yield Portal(f"ckan:http://127.0.0.1:{ours.recv()}", ours, psutil.Process(process.pid))
    finally:
        process.terminate()
        process.join(10)
