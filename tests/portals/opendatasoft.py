"""A small OpenDataSoft portal on loopback that changes, lies and fails."""

import re
from datetime import UTC, datetime
from random import Random
from typing import Any

from aiohttp import web

from tests.portals.catalogs import Changing, DatedPortal, Record, some_words
from tests.portals.site import WORDS

_SINCE = re.compile(r"modified >= date'([^']+)'")
_NAMED = re.compile(r'dataset_id="([^"]+)"')
_THEME = re.compile(r"theme = '([^']+)'")


class OpenDataSoftPortal(DatedPortal):
    """Datasets by identifier, answered as v2.1 or v2.0 does."""

    filter_marks = ("modified >=",)

    no_listings = (
        b'{"total_count": 0, "results": []}',
        b'{"total_count": 21, "resu',
        b'{"error_code": "InvalidRESTParameterError", "message": "No."}',
        b'{"total_count": 21, "results": null}',
    )

    def __init__(self) -> None:
        super().__init__()
        self.address = f"opendatasoft:{self.url}"
        self.wrapped = False
        self.deep = ""

    def make(self, name: str, /, title: Any = None, *, tick_h: float = 2, dated: bool = True, **more: Any) -> Record:
        """A dataset as it is from now on; `metas` are added to its own."""
        self.tick(tick_h)
        metas = {
            "title": title or f"Dataset {name}",
            "description": f"<p>All about <b>{name}</b>.</p>",
            "modified": self.clock.isoformat(timespec="seconds") if dated else None,
            "records_count": len(self.log),
            "keyword": ["hay"],
            "publisher": "The Farm",
            "license": more.pop("licence", "CC0"),
            **more.pop("metas", {}),
        }
        record = {
            "dataset_id": name,
            "dataset_uid": f"da_{name}",
            "has_records": True,
            "attachments": [],
            "fields": [{"name": "a", "type": "text"}],
            "metas": {"default": metas, "dcat": {"issued": "2020-01-31"}},
            **more,
        }
        self.clock = self.clock.replace(microsecond=0)
        return self.store(name, record, dated=dated)

    def make_nameless(self) -> None:
        self.make("?", dataset_id=None, dataset_uid="")

    def stir(self) -> None:
        for record in self.records.values():
            record["metas"]["default"] |= {"records_count": 9, "data_processed": self.clock.isoformat()}
            record["metas"]["explore"] = {"download_count": len(self.log)}

    def backdate(self, name: str) -> None:
        self.dates[name] = datetime(2020, 1, 1, tzinfo=UTC)
        self.records[name]["metas"]["default"]["modified"] = "2020-01-01T00:00:00+00:00"

    def went_on(self, behind: int) -> bool:
        return "where" in self.questions()[0]

    async def _search(self, request: web.Request) -> web.Response:
        if request.path.startswith("/api/explore/v2.1/catalog/datasets/"):
            return self._dataset(request.path.rpartition("/")[2])
        if request.path not in ("/api/explore/v2.1/catalog/datasets", "/api/v2/catalog/datasets"):
            return web.Response(status=404, text="Not found")
        query = dict(request.query)
        rows, start = int(query.get("limit", 10)), int(query.get("offset", 0))
        if start + rows > self.window:
            return web.json_response({"error_code": "InvalidRESTParameterError", "message": "Too far."}, status=400)
        if refused := await self.burden(rows):
            return refused
        found = self._found(query.get("where", ""))
        page = [self.records[name] for name in self.slice(found, start, rows)] if rows else []
        if query.get("select") == "dataset_id":
            page = [{"dataset_id": record["dataset_id"]} for record in page]
        if self.wrapped:
            page = [{"links": [], "dataset": record} for record in page]
        total = max(0, len(found) + self.miscount)
        if self.deep and any(record.get("has_records") and record["dataset_id"] == self.deep for record in page):
            return web.Response(text='{"total_count": 1, "results": ' + "[" * 5000 + "1" + "]" * 5000 + "}")
        return self.told({"total_count": total, "datasets" if self.wrapped else "results": page}, start)

    def _dataset(self, name: str) -> web.Response:
        if name not in self.records:
            return web.json_response({"error_code": "NotFound", "message": "No such dataset."}, status=404)
        return self.written(self.records[name])

    def _found(self, where: str) -> list[str]:
        since = _SINCE.search(where)
        at = datetime.fromisoformat(since[1]) if since else None
        names = self.found(at, undated="modified is null" in where)
        if named := _NAMED.search(where):
            names = [name for name in names if name == named[1]]
        if theme := _THEME.search(where):
            names = [name for name in names if self.records[name]["metas"]["default"].get("theme") == theme[1]]
        return names


class ChangingOpenDataSoft(Changing, OpenDataSoftPortal):
    """A portal for the refresh-equals-rebuild machine."""

    kind = "opendatasoft"
    garbage = (b'{"total_count": 9, "resu',)

    def trick(self, chance: Random, name: str) -> None:
        self.make(name, dated=False, tick_h=chance.choice([0, 5]))

    def write(self, chance: Random, name: str) -> None:
        text = some_words(chance)
        odd: Record = chance.choice([{}, {"keyword": None}, {"publisher": None}, {"title": {"de": text, "fr": ""}}])
        metas = {"title": chance.choice(WORDS), "description": text, "license": chance.choice(WORDS), **odd}
        self.make(name, tick_h=chance.choice([0, 0.01, 0.5, 5]), metas=metas)
