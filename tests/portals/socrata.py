"""A small Socrata portal on loopback that changes, lies and fails."""

from datetime import UTC, datetime
from random import Random
from typing import Any

from aiohttp import web

from tests.portals.catalogs import Changing, DatedPortal, Record, some_words
from tests.portals.site import WORDS


class SocrataPortal(DatedPortal):
    """Assets by identifier: all by scrolling, the latest ones by their dates."""

    filter_marks = ("order=updatedAt",)

    no_listings = (
        b'{"results": [], "resultSetSize": 0}',
        b'{"results": [], "resultSetSize": 21',
        b'{"error": "Domain not found: portal.example"}',
        b'{"results": null, "resultSetSize": 21}',
    )
    quiet_requests = 1
    quiet_bytes = 12_000

    def __init__(self) -> None:
        super().__init__()
        self.address = f"socrata:{self.url}"
        self.page_max = 10_000

    def make(self, name: str, /, title: Any = None, *, tick_h: float = 2, dated: bool = True, **more: Any) -> Record:
        """An asset as it is from now on; `resource` is added to its own."""
        self.tick(tick_h)
        licence = more.pop("licence", "CC0")
        record = {
            "resource": {
                "id": name,
                "name": title or f"Dataset {name}",
                "description": f"<p>All about <b>{name}</b>.</p>",
                "attribution": "The Farm",
                "type": "dataset",
                "createdAt": "2020-01-31T00:00:00.000Z",
                "updatedAt": self.clock.isoformat(timespec="milliseconds") if dated else None,
                "page_views": {"page_views_total": len(self.log)},
                "download_count": len(self.log),
                **more.pop("resource", {}),
            },
            "classification": {"domain_tags": ["hay"], "domain_category": "Farming", "domain_metadata": []},
            "metadata": {"domain": "127.0.0.1", "license": licence},
            "permalink": f"{self.url}/d/{name}",
            "link": f"{self.url}/Farming/Hay/{name}",
            **more,
        }
        return self.store(name, record, dated=dated)

    def make_nameless(self) -> None:
        self.make("?", resource={"id": None})

    def stir(self) -> None:
        for record in self.records.values():
            record["resource"] |= {"page_views": {"page_views_total": 10**6}, "download_count": 10**6}

    def backdate(self, name: str) -> None:
        self.dates[name] = datetime(2020, 1, 1, tzinfo=UTC)
        self.records[name]["resource"]["updatedAt"] = "2020-01-01T00:00:00.000Z"

    def went_on(self, behind: int) -> bool:
        return self.questions()[0]["scroll_id"] != ""

    def lie(self, lie: str) -> None:
        self.ignores = {"order"} if lie == "everything" else set()
        self.empty_when_filtered = lie == "nothing"

    async def _search(self, request: web.Request) -> web.Response:
        if request.path != "/api/catalog/v1":
            return web.Response(status=404, text="Not found")
        query = dict(request.query)
        if query.get("domains") != "127.0.0.1":
            return web.json_response({"error": f"Domain not found: {query.get('domains')}"}, status=404)
        rows, start = int(query.get("limit", 100)), int(query.get("offset", 0))
        if start + rows > self.window:
            return web.json_response({"error": "We're sorry. Something went wrong."}, status=500)
        if refused := await self.burden(rows):
            return refused
        found = self._found(query)
        page = [self.records[name] for name in self.slice(found, start, rows)] if rows else []
        total = max(0, len(self._wanted(query)) + self.miscount)
        return self.told({"results": page, "resultSetSize": total, "timings": {"serviceMillis": 7}}, start)

    def _wanted(self, query: dict[str, str]) -> list[str]:
        sorts = {sort.removesuffix("s") for sort in query.get("only", "").split(",") if sort}
        if query.get("order", "").startswith("updatedAt") and self.empty_when_filtered:
            return []
        names = [*self.records, *(name for name in self.twice if name in self.records)]
        wanted = query.get("ids", "").split(",") if "ids" in query else names
        return [name for name in names if name in wanted and (not sorts or self._sort(name) in sorts)]

    def _sort(self, name: str) -> str:
        record = self.records[name]
        return record["resource"]["type"] if isinstance(record, dict) else "dataset"

    def _found(self, query: dict[str, str]) -> list[str]:
        names = self._wanted(query)
        if "order" in self.ignores:
            return names
        if query.get("order") == "updatedAt DESC":
            early = datetime.min.replace(tzinfo=UTC)
            return sorted(names, key=lambda name: self.dates[name] or early, reverse=True)
        names.sort()
        if query.get("scroll_id") and "filter" not in self.ignores:
            return [name for name in names if name > query["scroll_id"]]
        return names


class ChangingSocrata(Changing, SocrataPortal):
    """A portal for the refresh-equals-rebuild machine."""

    kind = "socrata"
    garbage = (b'{"results": [{"reso',)

    def trick(self, chance: Random, name: str) -> None:
        self.twice = chance.choice([[], ["always"]])
        self.make(name, resource={"type": chance.choice(["map", "story", "dataset"])})

    def write(self, chance: Random, name: str) -> None:
        text = some_words(chance)
        odd = chance.choice([{}, {"description": None}, {"attribution": None}, {"name": None}])
        resource = {"name": chance.choice(WORDS), "description": text, **odd}
        self.make(name, tick_h=chance.choice([0, 0.01, 0.5, 5]), resource=resource, licence=chance.choice(WORDS))

    def heal(self) -> None:
        super().heal()
        self.twice = []
