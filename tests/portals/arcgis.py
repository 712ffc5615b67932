"""A small ArcGIS on loopback that changes, lies and fails: a site of Hub, or the search of a portal."""

import re
from datetime import UTC, datetime
from random import Random
from typing import Any

from aiohttp import web

from tests.portals.catalogs import Changing, DatedPortal, Record, some_words
from tests.portals.site import WORDS

_NAMED = re.compile(r' AND id:"([^"]+)"')
_SINCE = re.compile(r"modified >= (\d+)|modified:\[(\d+) TO 9+\]")


class GeoItems(DatedPortal):
    """Items by identifier; how they are wrapped is up to each search."""

    filter_marks = ("modified >=", "modified:[")

    def __init__(self) -> None:
        super().__init__()
        self.clamp = 10_000

    def facts(self, name: str, title: Any, *, dated: bool, **more: Any) -> Record:
        """What an item says."""
        return {
            "id": name,
            "title": title or f"Dataset {name}",
            "description": f"<p>All about <b>{name}</b>.</p>",
            "tags": ["hay"],
            "source": "The Farm",
            "license": more.pop("licence", "CC0"),
            "type": "Feature Service",
            "created": 1_580_428_800_000,
            "modified": int(self.clock.timestamp() * 1000) if dated else None,
            "url": f"https://services.example/{name}/FeatureServer",
            "numViews": len(self.log),
            **more,
        }

    def wrap(self, facts: Record) -> Record:
        """The record of an item."""
        return facts

    def unwrap(self, record: Record) -> Record:
        """What the record of an item says."""
        return record

    def make(self, name: str, /, title: Any = None, *, tick_h: float = 2, dated: bool = True, **more: Any) -> Record:
        """An item as it is from now on."""
        self.tick(tick_h)
        return self.store(name, self.wrap(self.facts(name, title, dated=dated, **more)), dated=dated)

    def make_nameless(self) -> None:
        self.tick(2)
        facts = self.facts("?", "Nameless", dated=True, id=None)
        self.store("?", self.wrap(facts))

    def stir(self) -> None:
        for record in self.records.values():
            self.unwrap(record).update({"numViews": 10**6, "avgRating": 4.5, "scoreCompleteness": 83})

    def backdate(self, name: str) -> None:
        self.dates[name] = old = datetime(2020, 1, 1, tzinfo=UTC)
        self.unwrap(self.records[name])["modified"] = int(old.timestamp() * 1000)

    def went_on(self, behind: int) -> bool:
        first = next(asked for asked in self.questions() if "startindex" in asked or "start" in asked)
        return "modified >=" in first.get("filter", "") or "modified:[" in first.get("q", "")

    async def page(self, where: str, start: int, rows: int) -> tuple[list[Record], int, bool] | web.Response:
        """What there is to a question: records, a count, and whether there are more."""
        if start + rows > self.window:
            return web.Response(status=500, text="Result window is too large")
        if refused := await self.burden(rows):
            return refused
        found = self.found(_since(where))
        if named := _NAMED.search(where):
            found = [name for name in found if name == named[1]]
        names = self.slice(found, start, rows)
        ended = start + len(names) >= len(found) and "start" not in self.ignores
        return [self.records[name] for name in names], min(self.clamp, max(0, len(found) + self.miscount)), not ended


def _since(where: str) -> datetime | None:
    found = _SINCE.search(where)
    return datetime.fromtimestamp(int(found[1] or found[2]) / 1000, UTC) if found else None


class HubSite(GeoItems):
    """The search of a site of ArcGIS Hub."""

    no_listings = (
        b'{"type": "FeatureCollection", "features": [], "numberMatched": 0, "links": []}',
        b'{"type": "FeatureCollection", "features": [], "numberMat',
        b'{"error": {"code": 498, "message": "Invalid token.", "details": []}}',
        b'{"features": null, "numberMatched": 21}',
    )

    def __init__(self) -> None:
        super().__init__()
        self.address = f"arcgis:{self.url}"
        self.scope: Any = [{"predicates": [{"group": ["farm"]}]}]
        self.has_catalog = True

    def wrap(self, facts: Record) -> Record:
        return {"id": facts["id"], "type": "Feature", "geometry": None, "properties": facts}

    def unwrap(self, record: Record) -> Record:
        facts: Record = record["properties"]
        return facts

    async def _search(self, request: web.Request) -> web.Response:
        if request.path == "/api/search/v1/catalog" and self.has_catalog:
            scopes = {"item": {"targetEntity": "item", "filters": self.scope}}
            return web.json_response({"id": "farm", "catalog": {"schemaVersion": 1, "scopes": scopes}})
        if request.path.startswith("/api/search/v1/collections/dataset/items/"):
            name = request.path.rpartition("/")[2]
            return self.written(self.records[name]) if name in self.records else web.Response(status=404)
        if request.path != "/api/search/v1/collections/dataset/items":
            return web.Response(status=404, text="Not found")
        query = request.query
        start = int(query.get("startindex", 1)) - 1
        found = await self.page(query.get("filter", ""), start, int(query["limit"]))
        if isinstance(found, web.Response):
            return found
        records, total, more = found
        links = [{"rel": "self", "href": "/"}, *([{"rel": "next", "href": "/next"}] if more else [])]
        answer = {"type": "FeatureCollection", "features": records, "numberReturned": len(records)}
        return self.told({**answer, "numberMatched": total, "links": links}, start)


class GeoPortal(GeoItems):
    """The search of a portal."""

    no_listings = (
        b'{"total": 0, "start": 1, "num": 0, "nextStart": -1, "results": []}',
        b'{"total": 21, "start": 1, "resu',
        b'{"error": {"code": 499, "message": "Token Required", "details": []}}',
        b'{"total": 21, "start": 1, "nextStart": -1, "results": null}',
    )

    def __init__(self) -> None:
        super().__init__()
        self.address = f"arcgis:{self.url}/portal/sharing/rest/search?q=orgid%3Afarm"

    async def _search(self, request: web.Request) -> web.Response:
        query = request.query
        if request.path != "/portal/sharing/rest/search" or "orgid:farm" not in query["q"]:
            return web.Response(status=404, text="Not found")
        start = int(query["start"])
        found = await self.page(query["q"], start - 1, int(query["num"]))
        if isinstance(found, web.Response):
            return found
        records, total, more = found
        following = start + len(records) if more else -1
        return self.told({"total": total, "start": start, "nextStart": following, "results": records}, start - 1)


class _ChangingItems(Changing, GeoItems):
    kind = "arcgis"
    garbage = (b'{"error": {"message": "No"}}',)

    def trick(self, chance: Random, name: str) -> None:
        self.clamp = chance.choice([3, 10_000])

    def write(self, chance: Random, name: str) -> None:
        text = some_words(chance)
        odd: Record = chance.choice([{}, {"description": None}, {"tags": None}, {"source": None}])
        facts = {"description": text, "licence": chance.choice(WORDS), **odd}
        self.make(name, chance.choice(WORDS), tick_h=chance.choice([0, 0.01, 0.5, 5]), **facts)

    def heal(self) -> None:
        super().heal()
        self.clamp = 10_000


class ChangingHub(_ChangingItems, HubSite):
    """A site for the refresh-equals-rebuild machine."""


class ChangingGeoPortal(_ChangingItems, GeoPortal):
    """A portal for the refresh-equals-rebuild machine."""
