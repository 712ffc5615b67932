"""A small CKAN portal on loopback that changes, lies and fails."""

import re
from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Any

from aiohttp import web

from tests.portals.catalogs import Changing, JsonPortal, Record, nested, some_words
from tests.portals.site import WORDS

_NAMED = re.compile(r'\+id:"([^"]+)"')
_SINCE = re.compile(r"metadata_modified:\[(\S+) TO \*\]")


class CkanPortal(JsonPortal):
    """Datasets by identifier."""

    filter_marks = ("metadata_modified:[",)
    no_listings = (
        b'{"success": true, "result": {"count": 0, "results": []}}',
        b'{"success": true, "result": {"count": 21, "resu',
        b'{"success": false, "error": {"message": "Search error"}}',
        b'{"success": true, "result": {"count": 21, "results": null}}',
        b'{"success": true, "result": []}',
    )

    def __init__(self) -> None:
        super().__init__()
        self.address = f"ckan:{self.url}"
        self.envelope = True
        self.drops = 0
        self.endless = False
        self.site_url: str | None = None
        self.without_search: int | None = None
        self.has_lists = False
        self.has_records = False
        self.hidden: set[str] = set()
        self.after_show: Callable[[int], None] | None = None

    def make(self, name: str, /, title: Any = None, *, tick_h: float = 2, **more: Any) -> Record:
        """A dataset as it is from now on."""
        self.tick(tick_h)
        licence = {"license_title": more.pop("licence")} if "licence" in more else {}
        record = {
            "id": name,
            "name": f"slug-of-{name}",
            "title": title or f"Dataset {name}",
            "notes": f"All about {name}.",
            "metadata_created": "2023-01-01T00:00:00.000000",
            "metadata_modified": self.clock.replace(tzinfo=None).isoformat(timespec="microseconds"),
            "state": "active",
            "type": "dataset",
            "organization": {"name": "farm", "title": "The Farm", "package_count": len(self.records)},
            "tags": [{"name": "hay", "display_name": "hay"}],
            "resources": [{"name": "Table", "url": f"https://files.example/{name}.csv", "format": "CSV"}],
            **licence,
            **more,
        }
        self.records[name] = record
        return record

    def spoil(self, name: str) -> None:
        self.make(name, extras=[{"key": "odd", "value": nested(900)}])

    def went_on(self, behind: int) -> bool:
        return int(self.questions()[0]["start"]) > behind - 20

    def questions(self, path: str = "/package_search") -> list[dict[str, str]]:
        return super().questions(path)

    def _rejection(self, status: int) -> web.Response:
        if status == 200:
            return web.json_response({"success": False, "error": {"message": "Search Query is invalid"}})
        return super()._rejection(status)

    async def _reply(self, request: web.Request) -> web.Response:
        if self.drops and request.transport is not None:
            self.drops -= 1
            request.transport.close()
        return await super()._reply(request)

    async def _search(self, request: web.Request) -> web.Response:
        if request.path.endswith("/package_show"):
            return self._show(request.query["id"].removeprefix("slug-of-"))
        if request.path.endswith("/package_list") and self.has_lists:
            names = sorted(one["name"] for one in self.records.values())
            return web.json_response({"success": True, "result": names})
        if request.path.endswith("/current_package_list_with_resources") and self.has_records:
            start, rows = int(request.query["offset"]), min(int(request.query["limit"]), self.page_max)
            newest = sorted(self.records.values(), key=lambda one: one["metadata_modified"], reverse=True)
            return self.told({"success": True, "result": newest[start : start + rows]}, start)
        if self.without_search and request.path.endswith("/package_search"):
            return web.json_response({"success": False, "error": {"message": "No"}}, status=self.without_search)
        if request.path.endswith("/status_show") and self.site_url is not None:
            return web.json_response({"success": True, "result": {"site_url": self.site_url}})
        if not request.path.endswith("/package_search"):
            return web.Response(status=404, text="Not found")
        return await self._page(dict(request.query))

    def _show(self, name: str) -> web.Response:
        if self.after_show is not None:
            self.after_show(0)
        if name in self.records and name not in self.hidden:
            return self.written({"success": True, "result": self.records[name]})
        return web.json_response({"success": False, "error": {"message": "Not found"}}, status=404)

    async def _page(self, query: dict[str, str]) -> web.Response:
        rows, start = min(int(query.get("rows", 10)), self.page_max), int(query.get("start", 0))
        if refused := await self.burden(rows):
            return refused
        found = self._found(query)
        start = 0 if "start" in self.ignores else start
        page = found[start : start + rows]
        if self.endless:
            page = [{**found[0], "id": f"e{start + number:09}"} for number in range(rows)]
        if "fl" in query and "fl" not in self.ignores:
            page = [{"id": record["id"]} if "id" in record else {} for record in page]
        result = {"count": max(0, len(found) + self.miscount), "sort": query.get("sort"), "results": page}
        answer = {"success": True, "result": result} if self.envelope else result
        return self.told(answer, start) if rows else web.json_response(answer)

    def _found(self, query: dict[str, str]) -> list[Record]:
        found = list(self.records.values())
        if "order" in self.ignores:
            Random(len(self.log)).shuffle(found)
        else:
            found.sort(key=lambda record: record.get("id", ""), reverse=query.get("sort") == "id desc")
        since = _SINCE.search(query.get("fq", ""))
        if since and self.empty_when_filtered:
            return []
        if since and "filter" not in self.ignores:
            moment = datetime.fromisoformat(since[1]).replace(tzinfo=None)
            found = [one for one in found if (at := _indexed(one["metadata_modified"])) and at >= moment]
        if named := _NAMED.search(query.get("fq", "")):
            found = [one for one in found if one.get("id") == named[1]]
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


class ChangingCkan(Changing, CkanPortal):
    """A portal for the refresh-equals-rebuild machine."""

    kind = "ckan"
    ignorable = ("filter", "start", "order", "fl")
    garbage = (b'{"success": true, "resu',)
    miscounts = (0, 0, 1, -1, -100)

    def change(self, chance: Random) -> None:
        super().change(chance)
        if self.miscount < 0:
            # Two lies that fit each other, a count too low and pages no larger, only a reconciliation finds out.
            self.page_max = 1000

    def break_filter(self, chance: Random) -> None:
        """The same, or no search at all."""
        super().break_filter(chance)
        self.without_search = chance.choice([None, 404, 403, 200])
        self.has_lists, self.has_records = chance.random() < 0.9, chance.random() < 0.5

    def mend_filter(self) -> None:
        super().mend_filter()
        self.without_search = None

    def trick(self, chance: Random, name: str) -> None:
        self.make(name, type=chance.choice(["harvest", "dataset"]), state=chance.choice(["deleted", "active"]))

    def write(self, chance: Random, name: str) -> None:
        text = some_words(chance)
        odd: Record = chance.choice(
            [{}, {"notes": None}, {"tags": None}, {"resources": None}, {"title": {"de": text, "fr": ""}}]
        )
        words = {"title": chance.choice(WORDS), "notes": text, "licence": chance.choice(WORDS), **odd}
        self.make(name, tick_h=chance.choice([0, 0.01, 0.5, 5]), **words)

    def is_spoiled(self, record: Record) -> bool:
        return "extras" in record
