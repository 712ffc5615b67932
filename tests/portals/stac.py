"""A small STAC API and a static STAC catalog on loopback, which change, lie and fail."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

from aiohttp import web

from tests.portals.catalogs import nested
from tests.portals.site import WORDS, Page, Site

Record = dict[str, Any]


def collection(identifier: Any, title: Any = None, **more: Any) -> Record:
    """A collection as real ones are."""
    return {
        "type": "Collection",
        "stac_version": "1.0.0",
        "id": identifier,
        "title": title or f"Collection {identifier}",
        "description": f"All about *{identifier}*.",
        "keywords": ["hay", "clover"],
        "license": "CC-BY-4.0",
        "providers": [{"name": "The Farm", "roles": ["producer"]}],
        "extent": {
            "spatial": {"bbox": [[-10, 40.5, 5, 60]]},
            "temporal": {"interval": [["2020-01-01T00:00:00Z", None]]},
        },
        "links": [],
        **more,
    }


class StacApi(Site):
    """Collections by identifier, in pages of any kind."""

    def __init__(self) -> None:
        super().__init__()
        self.address = f"stac:{self.url}/v1/"
        self.records: dict[str, Any] = {}
        self.page_size = 1000
        self.style = "get"
        self.validator = "etag"
        self.declares = True
        self.declares_once = False
        self.miscount = 0
        self.body: bytes | None = None
        self.cut_bytes = 0
        self.failures: list[Page] = []
        self.after_page: Callable[[int], None] | None = None
        self.endless = self.repeats = False
        self.landing: Record = {
            "type": "Catalog",
            "stac_version": "1.0.0",
            "id": "farm",
            "description": "A farm.",
            "conformsTo": ["https://api.stacspec.org/v1.0.0/core", "https://api.stacspec.org/v1.0.0/collections"],
            "links": [{"rel": "data", "href": f"{self.url}/v1/collections"}, {"rel": "self", "href": "https://wrong/"}],
        }

    def put(self, key: str, title: Any = None, **more: Any) -> Record:  # type: ignore[override]
        """A collection as it is from now on."""
        self.records[key] = collection(key, title, **more)
        return self.records[key]

    def fill(self, count: int) -> None:
        for number in range(count):
            self.put(f"c{number:04}")

    def _listing(self, start: int) -> Record:
        found = list(self.records.values())
        page = found[start : start + self.page_size]
        links = [{"rel": "self", "href": f"{self.url}/v1/collections"}]
        if start + self.page_size < len(found) or self.endless:
            links.append(self._next(0 if self.repeats else start + self.page_size))
        tells = self.declares and (start == 0 or not self.declares_once)
        counts = {"numberMatched": max(0, len(found) + self.miscount)} if tells else {}
        return {"collections": page, "links": links, **counts}

    def _next(self, start: int) -> Record:
        match self.style:
            case "relative":
                return {"rel": "next", "href": f"collections?startRecord={start}"}
            case "post":
                return {"rel": "next", "href": f"{self.url}/v1/collections", "method": "POST", "body": {"token": start}}
            case "merge":
                body: Record = {"token": start, "merge": 1} if start <= self.page_size else {"token": start}
                return {"rel": "next", "href": "collections", "method": "POST", "merge": True, "body": body}
        return {"rel": "next", "href": f"{self.url}/v1/collections?token={start}"}

    async def _answer_for(self, request: web.Request) -> web.StreamResponse:
        if request.path in ("/v1", "/v1/"):
            self.pages[request.path_qs] = self._page(self.landing)
        elif request.path == "/v1/collections":
            start = await self._start_of(request)
            page = self.failures.pop(0) if self.failures else self._page(self._listing(start))
            if self.body is not None:
                page = Page(self.body, headers={"Content-Type": "application/json"})
            self.pages[request.path_qs] = page
            if self.after_page is not None:
                self.after_page(start)
        return await super()._answer_for(request)

    async def _start_of(self, request: web.Request) -> int:
        if request.method != "POST":
            return int(request.query.get("token", request.query.get("startRecord", 0)))
        asked = await request.json()
        assert self.style != "merge" or asked["merge"] == 1, asked
        return int(asked["token"])

    def _page(self, document: Record) -> Page:
        body = json.dumps(document).encode()
        body = body[: len(body) - self.cut_bytes] if "collections" in document else body
        return Page(body, validator=self.validator, headers={"Content-Type": "application/json"})


class ChangingStacApi(StacApi):
    """An API for the refresh-equals-rebuild machine."""

    kind = "stac"

    def __init__(self) -> None:
        super().__init__()
        self.page_size = 3
        for number in range(6):
            self.put(f"n{number}")
        self.put("always")

    def change(self, chance: Random) -> None:
        self._calm()
        name = f"n{chance.randrange(14)}"
        match chance.randrange(11):
            case 0 | 1 | 2:
                text = " ".join(chance.choices(WORDS, k=chance.randrange(3, 40)))
                odd = chance.choice([{}, {"keywords": None}, {"extent": None}, {"assets": {"a": None}}, {"links": 7}])
                self.put(name, chance.choice(WORDS), description=text, **odd)
            case 3 | 4:
                self.records.pop(name, None)
            case 5:
                self.page_size = chance.choice([1, 2, 3, 1000])
                self.style = chance.choice(["get", "relative", "post"])
            case 6:
                self.validator = chance.choice(["etag", "both", "none"])
                self.declares = chance.random() < 0.5
            case 7:
                self.miscount = chance.choice([0, 1, -1, 50])
                self.endless = chance.random() < 0.2
            case 8:
                self.cut_bytes = chance.choice([0, 1, 40, 700])
            case 9:
                self.body = chance.choice([b"<html>Maintenance</html>", b'{"collections": []}', b"{}", b"[]", b""])
                self.down = chance.random() < 0.2
            case 10:
                self.records[name] = chance.choice([collection(None), None, "text", {}])
                self.repeats = chance.random() < 0.2

    def _calm(self) -> None:
        self.body, self.cut_bytes, self.down = None, 0, False

    def ail(self, chance: Random) -> None:
        self._calm()
        name = f"n{chance.randrange(14)}"
        if not isinstance(self.records.get(name), dict) or chance.random() < 0.6:
            self.put(name, chance.choice(WORDS))
        self.records[name]["odd"] = nested(900)

    def stick(self, chance: Random) -> None:
        """Let every page fail that would hold some records, which may be new, edited, or as they were."""
        self._calm()
        for name in chance.sample([f"n{number}" for number in range(14)], chance.choice([1, 1, 2])):
            if not isinstance(self.records.get(name), dict) or chance.random() < 0.3:
                self.put(name, chance.choice(WORDS))
            self.stuck.add(name)
        self.stuck_how = chance.choice(["status 500", "status 500", "status 400", "garbage", "truncated"])

    def recover(self) -> None:
        self.stuck.clear()
        for record in self.records.values():
            if isinstance(record, dict):
                record.pop("odd", None)

    def heal(self) -> None:
        self._calm()
        self.recover()
        self.miscount, self.endless, self.repeats = 0, False, False
        for name, record in list(self.records.items()):
            if not (isinstance(record, dict) and record.get("id")):
                self.put(name, "Healed")


class StaticStac(Site):
    """Documents by path, each with the paths of its children."""

    def __init__(self) -> None:
        super().__init__()
        self.address = f"stac:{self.url}/catalog.json"
        self.documents: dict[str, tuple[Record, list[str]]] = {}
        self.raw: dict[str, Page] = {}
        self.validator = "etag"
        self.catalog("/catalog.json")

    def catalog(self, path: str, *children: str, **more: Any) -> None:
        """A document that is no item."""
        document = {"type": "Catalog", "stac_version": "1.1.0", "id": path, "description": "Some.", **more}
        self.documents[path] = document, list(children)

    def collection(self, path: str, *children: str, title: Any = None, **more: Any) -> None:
        """A document that is one."""
        self.documents[path] = collection(path, title, **more), list(children)

    def grow(self, count: int) -> None:
        """A root, some catalogs below it, `count` collections below these."""
        self.catalog("/catalog.json", "a/catalog.json", "b/catalog.json")
        halves = [[f"c{number}/collection.json" for number in range(count) if number % 2 == odd] for odd in (0, 1)]
        for name, children in zip("ab", halves, strict=True):
            self.catalog(f"/{name}/catalog.json", *children)
            for child in children:
                self.collection(f"/{name}/{child}")

    async def _answer_for(self, request: web.Request) -> web.StreamResponse:
        path = request.path_qs
        if path in self.raw:
            self.pages[path] = self.raw[path]
        elif path in self.documents:
            document, children = self.documents[path]
            links = [{"rel": "child", "href": child} for child in children]
            links += [{"rel": "root", "href": "/catalog.json"}, {"rel": "item", "href": "item.json"}]
            body = json.dumps({**document, "links": links}).encode()
            self.pages[path] = Page(body, validator=self.validator, headers={"Content-Type": "application/json"})
        else:
            self.pages.pop(path, None)
        return await super()._answer_for(request)


class ChangingStaticStac(StaticStac):
    """A static catalog for the machine: a random graph of documents with random troubles."""

    kind = "stac"

    def __init__(self) -> None:
        super().__init__()
        self.grow(4)

    def change(self, chance: Random) -> None:
        self.down = False
        path = f"/d{chance.randrange(10)}.json"
        match chance.randrange(10):
            case 0 | 1 | 2:
                self.collection(path, *self._some(chance), title=chance.choice(WORDS), keywords=chance.sample(WORDS, 2))
            case 3:
                self.catalog(path, *self._some(chance))
            case 4:
                self.catalog("/catalog.json", "a/catalog.json", "b/catalog.json", *self._some(chance))
            case 5:
                self.documents.pop(path, None)
            case 6:
                bodies = [b"<html>Maintenance</html>", b"{", b"[]", b'{"type": "Feature"}']
                self.raw[path] = Page(chance.choice(bodies), status=chance.choice([200, 500, 403]))
            case 7:
                self.raw.clear()
            case 8:
                self.validator = chance.choice(["etag", "both", "none"])
            case 9:
                self.down = chance.random() < 0.3
                self.documents[path] = {"type": "Collection", "odd": [None]}, self._some(chance)

    def ail(self, chance: Random) -> None:
        self.down = False
        path = f"/d{chance.randrange(10)}.json"
        if path not in self.documents or chance.random() < 0.6:
            self.collection(path, title=chance.choice(WORDS))
        root, children = self.documents["/catalog.json"]
        if path not in children:
            self.documents["/catalog.json"] = root, [*children, path]
        self.raw[path] = Page(status=chance.choice([500, 403]))

    def recover(self) -> None:
        self.raw.clear()

    def _some(self, chance: Random) -> list[str]:
        return [f"/d{number}.json" for number in chance.sample(range(10), chance.randrange(4))]

    def heal(self) -> None:
        self.down = False
        self.raw.clear()
        for number in range(10):
            path = f"/d{number}.json"
            if path not in self.documents:
                self.collection(path, title="Healed")
