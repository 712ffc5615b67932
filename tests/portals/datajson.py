"""A small site on loopback with a data.json that changes, lies and fails."""

import json
from random import Random
from typing import Any

from aiohttp import web

from tests.portals.catalogs import nested
from tests.portals.site import WORDS, Page, Site

Record = dict[str, Any]


class DataJsonSite(Site):
    """Records in a list; the document is written anew whenever it is asked for."""

    no_listings = (b'{"dataset": []}', b'{"dataset": null}', b'{"error": "none"}')

    def __init__(self) -> None:
        super().__init__()
        self.address = f"{self.url}/data.json"
        self.records: list[Record] = []
        self.validator = "etag"
        self.body: bytes | None = None
        self.cut_bytes = 0
        self.top_level = False
        self.page_size: int | None = None

    def add(self, identifier: Any, title: Any = "", **more: Any) -> Record:
        """One more record."""
        record = {
            "identifier": identifier,
            "title": title or f"Dataset {identifier}",
            "description": f"All about {identifier}.",
            "modified": "2024-01-01",
            "keyword": ["hay", "clover"],
            "publisher": {"name": "The Farm"},
            "distribution": [{"title": "Table", "downloadURL": "https://files.example/1.csv", "mediaType": "text/csv"}],
            **more,
        }
        self.records.append(record)
        return record

    def fill(self, count: int) -> None:
        """Records with identifiers that are addresses."""
        for number in range(count):
            self.add(f"http://portal.example/datasets/{number}")

    def drop(self, count: int) -> None:
        """Take so many away."""
        del self.records[:count]

    def document(self, page: int = 1) -> bytes:
        """The document, or a page of it."""
        records = self.records
        if self.page_size is not None:
            records = records[(page - 1) * self.page_size : page * self.page_size]
        whole = records if self.top_level else {"conformsTo": "https://example/1.1", "dataset": records}
        body = json.dumps(whole).encode()
        return body[: len(body) - self.cut_bytes]

    async def _answer_for(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/data.json":
            body = self.document(int(request.query.get("page", 1))) if self.body is None else self.body
            self.pages[request.path_qs] = Page(
                body, validator=self.validator, headers={"Content-Type": "application/json"}
            )
        return await super()._answer_for(request)


class ChangingDataJson(DataJsonSite):
    """A document for the refresh-equals-rebuild machine."""

    kind = "datajson"

    def __init__(self) -> None:
        super().__init__()
        for number in range(6):
            self.add(f"http://portal.example/n{number}")
        self.add("always")

    def change(self, chance: Random) -> None:
        self.body, self.cut_bytes, self.down = None, 0, False
        match chance.randrange(12):
            case 0 | 1 | 2:
                self._write(chance)
            case 3 if len(self.records) > 2:
                self.records.pop(chance.randrange(len(self.records)))
            case 4:
                chance.shuffle(self.records)
            case 5:
                self.validator = chance.choice(["etag", "modified", "both", "none"])
            case 6:
                self.cut_bytes = chance.randrange(1, 900)
            case 7:
                self.body = chance.choice([b"<html>Maintenance</html>", b'{"dataset": []}', b'{"dataset": null}', b""])
            case 8:
                self.down = True
            case 9:
                self.top_level = chance.random() < 0.5
            case 10:
                self.page_size = chance.choice([None, 100])
            case 11:
                self._rename(chance)
        if self.validator == "modified":
            # A date that does not move with its document is no validator at all.
            self.validator = "etag"

    def _write(self, chance: Random) -> None:
        name: Any = chance.choice([f"http://portal.example/n{chance.randrange(14)}", chance.randrange(9), "", None])
        text = " ".join(chance.choices(WORDS, k=chance.randrange(3, 40)))
        if chance.random() < 0.8:
            self.records = [record for record in self.records if record.get("identifier") != name or not name]
        odd = chance.choice([{}, {"keyword": None}, {"distribution": None}, {"publisher": "x"}, {"spatial": text * 30}])
        self.add(name, chance.choice([*WORDS, 707]), **{"description": text, "landingPage": text[:9], **odd})

    def _rename(self, chance: Random) -> None:
        """All addresses change their scheme, or their host."""
        both = [("http:", "https:"), ("portal.example", "hub.example")]
        before, after = chance.choice([*both, *((after, before) for before, after in both)])
        for record in self.records:
            if isinstance(record.get("identifier"), str):
                record["identifier"] = record["identifier"].replace(before, after)

    def ail(self, chance: Random) -> None:
        self.body, self.cut_bytes, self.down = None, 0, False
        if chance.random() < 0.6:
            self._write(chance)
        record = chance.choice(self.records)
        record["odd"] = nested(900)

    def recover(self) -> None:
        for record in self.records:
            record.pop("odd", None)

    def heal(self) -> None:
        self.body, self.cut_bytes, self.down = None, 0, False
        self.recover()
