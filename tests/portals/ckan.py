"""A small CKAN portal on loopback that changes, lies and fails."""

import asyncio
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from random import Random
from typing import Any

from aiohttp import web

from tests.portals.site import WORDS, Asked, Site

Record = dict[str, Any]

_SINCE = re.compile(r"metadata_modified:\[(\S+) TO \*\]")


class CkanPortal(Site):
    """Datasets by identifier. The portal has a clock of its own, which each change moves on."""

    def __init__(self) -> None:
        super().__init__()
        self.address = f"ckan:{self.url}"
        self.records: dict[str, Record] = {}
        self.clock = datetime(2024, 1, 1, tzinfo=UTC)
        self.rows_max = 1000
        self.ignores: set[str] = set()
        self.empty_when_filtered = False
        self.miscount = 0
        self.envelope = True
        self.body: bytes | None = None
        self.slow_above: int | None = None
        self.broken_above: int | None = None
        self.after_page: Callable[[int], None] | None = None
        self.failures: list[web.Response] = []
        self.drops = 0
        self.endless = False

    def put(self, key: str, title: Any = None, *, tick_h: float = 2, **more: Any) -> Record:  # type: ignore[override]
        """A dataset as it is from now on."""
        self.tick(tick_h)
        record = {
            "id": key,
            "name": f"slug-of-{key}",
            "title": title or f"Dataset {key}",
            "notes": f"All about {key}.",
            "metadata_created": "2023-01-01T00:00:00.000000",
            "metadata_modified": self.clock.replace(tzinfo=None).isoformat(timespec="microseconds"),
            "state": "active",
            "type": "dataset",
            "organization": {"name": "farm", "title": "The Farm", "package_count": len(self.records)},
            "tags": [{"name": "hay", "display_name": "hay"}],
            "resources": [{"name": "Table", "url": f"https://files.example/{key}.csv", "format": "CSV"}],
            **more,
        }
        self.records[key] = record
        return record

    def fill(self, count: int) -> None:
        """Datasets that were all modified long before the last one."""
        for number in range(count):
            self.put(f"d{number:05}", tick_h=0.001)
        self.tick(100)
        self.put("zz-last")

    def tick(self, hours: float) -> None:
        self.clock += timedelta(hours=hours)

    def questions(self) -> list[dict[str, str]]:
        """The parameters of what was asked of `package_search`."""
        return [dict(asked.headers) for asked in self.log if asked.path == "/api/3/action/package_search"]

    async def _answer_for(self, request: web.Request) -> web.StreamResponse:
        response = await self._reply(request)
        size = response.content_length or 0
        asked = {**request.query, "authorization": request.headers.get("Authorization", "")}
        self.log.append(Asked(request.path, response.status, False, size, asked))
        response.headers["Date"] = format_datetime(self.clock, usegmt=True)
        return response

    async def _reply(self, request: web.Request) -> web.Response:
        if self.drops and request.transport is not None:
            self.drops -= 1
            request.transport.close()
        if self.failures:
            return self.failures.pop(0)
        if self.down:
            return web.Response(status=503, text="Down for maintenance.")
        if self.body is not None:
            return web.Response(body=self.body, content_type="application/json")
        if request.path.endswith("/package_show"):
            return self._show(request.query["id"])
        if not request.path.endswith("/package_search"):
            return web.Response(status=404, text="Not found")
        return await self._search(dict(request.query))

    def _show(self, name: str) -> web.Response:
        if name in self.records:
            return web.json_response({"success": True, "result": self.records[name]})
        return web.json_response({"success": False, "error": {"message": "Not found"}}, status=404)

    async def _search(self, query: dict[str, str]) -> web.Response:
        rows, start = min(int(query.get("rows", 10)), self.rows_max), int(query.get("start", 0))
        if self.slow_above is not None and rows > self.slow_above:
            await asyncio.Event().wait()
        if self.broken_above is not None and rows > self.broken_above:
            return web.Response(status=502, text="Bad gateway")
        found = self._found(query)
        start = 0 if "start" in self.ignores else start
        page = found[start : start + rows]
        if self.endless:
            page = [{**found[0], "id": f"e{start + number:09}"} for number in range(rows)]
        if "fl" in query and "fl" not in self.ignores:
            page = [{"id": record["id"]} if "id" in record else {} for record in page]
        result = {"count": max(0, len(found) + self.miscount), "sort": query.get("sort"), "results": page}
        body = json.dumps({"success": True, "result": result} if self.envelope else result)
        if self.after_page is not None and rows:
            self.after_page(start)
        return web.Response(text=body, content_type="application/json")

    def _found(self, query: dict[str, str]) -> list[Record]:
        found = list(self.records.values())
        if "sort" in self.ignores:
            Random(len(self.log)).shuffle(found)
        else:
            found.sort(key=lambda record: record.get("id", ""))
        since = _SINCE.search(query.get("fq", ""))
        if since and self.empty_when_filtered:
            return []
        if since and "fq" not in self.ignores:
            moment = datetime.fromisoformat(since[1]).replace(tzinfo=None)
            found = [one for one in found if (at := _indexed(one["metadata_modified"])) and at >= moment]
        if "organization:" in query.get("fq", ""):
            name = query["fq"].partition("organization:")[2].strip(")")
            found = [one for one in found if one["organization"]["name"] == name]
        return found


def _indexed(said: Any) -> datetime | None:
    """The date by which a record is found; what is none was never indexed."""
    try:
        return datetime.fromisoformat(said)
    except (TypeError, ValueError):
        return None


def nested(depth: int) -> list[Any]:
    """A list in a list in a list."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


class ChangingCkan(CkanPortal):
    """A portal for the refresh-equals-rebuild machine."""

    kind = "ckan"

    def __init__(self) -> None:
        super().__init__()
        self.rows_max = 4
        for number in range(6):
            self.put(f"n{number}")
        self.put("always")

    def change(self, chance: Random) -> None:
        name = f"n{chance.randrange(14)}"
        self.body, self.down = None, False
        match chance.randrange(12):
            case 0 | 1 | 2 | 3:
                self._write(chance, name)
            case 4 | 5:
                self.records.pop(name, None)
                self.tick(chance.choice([0.1, 5]))
            case 6 if name in self.records:
                self.put(name, self.records[name]["title"], extras=[{"key": "odd", "value": nested(900)}])
            case 7:
                self.put(name, type=chance.choice(["harvest", "dataset"]), state=chance.choice(["deleted", "active"]))
            case 8:
                self.ignores = set(chance.sample(["fq", "start", "sort", "fl"], chance.randrange(3)))
            case 9:
                self.miscount = chance.choice([0, 0, 1, -1, -100])
                self.empty_when_filtered = chance.random() < 0.3
            case 10:
                self.body = chance.choice([None, b"<html>Maintenance</html>", b'{"success": true, "resu', b"[]"])
                self.down = chance.random() < 0.2
            case 11:
                self.rows_max = chance.choice([1, 2, 4, 1000])
        if self.miscount < 0:
            # Two lies that fit each other, a count too low and pages no larger, only a reconciliation finds out.
            self.rows_max = 1000

    def _write(self, chance: Random, name: str) -> None:
        text = " ".join(chance.choices(WORDS, k=chance.randrange(3, 60)))
        odd = chance.choice(
            [{}, {"notes": None}, {"tags": None}, {"resources": None}, {"title": {"de": text, "fr": ""}}]
        )
        words = {"title": chance.choice(WORDS), "notes": text, "license_title": chance.choice(WORDS), **odd}
        self.put(name, tick_h=chance.choice([0, 0.01, 0.5, 5]), **words)

    def heal(self) -> None:
        self.down, self.body, self.miscount, self.empty_when_filtered = False, None, 0, False
        self.ignores = set()
        for name, record in list(self.records.items()):
            if "extras" in record:
                self.put(name, "Healed")
