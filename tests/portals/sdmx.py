"""A small SDMX service on loopback that changes, lies and fails, and speaks all three notations."""

import json
from html import escape
from random import Random
from typing import Any

from aiohttp import web

from tests.portals.catalogs import nested
from tests.portals.site import WORDS, Page, Site

Flow = dict[str, Any]

LISTS = {
    "2.1": "/rest/dataflow/all/all/latest",
    "3.0": "/rest/structure/dataflow/*/*/~",
    "json": "/rest/dataflow/all/all/latest",
}


class SdmxService(Site):
    """Dataflows in a list; the document is written anew, with another `prepared`, whenever it is asked for."""

    no_listings = (
        b"<html><body>Maintenance</body></html>",
        b'<m:Structure xmlns:m="x"><m:Structures/></m:Structure>',
        b'<m:Structure xmlns:m="x"><m:Dataflows/></m:Structure>',
        b'<m:Error xmlns:m="x"><m:ErrorMessage code="100"><m:Text>No results found</m:Text></m:ErrorMessage></m:Error>',
        b'{"data": {"dataflows": []}}',
        b'{"data": {}}',
        b"{" * 100_000,
        b"<a>" * 100_000,
        b'<!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><a>&b;</a>',
    )

    def __init__(self) -> None:
        super().__init__()
        self.address = f"sdmx:{self.url}/rest"
        self.flows: list[Flow] = []
        self.notation = "2.1"
        self.validator = "etag"
        self.body: bytes | None = None
        self.cut_bytes = 0
        self.failures: list[Page] = []
        self.prepared = 0

    def add(self, identifier: str | None, name: Any = None, **more: Any) -> Flow:
        """One more dataflow; `names` and `descriptions` are by language, `notes` (type, title, url)."""
        flow = {
            "id": identifier,
            "agencyID": "FARM",
            "version": "1.0",
            "names": {"en": name or f"Flow {identifier}", "fr": f"Flux {identifier}"},
            "descriptions": {"en": f"All about {identifier}."},
            "notes": [],
            **more,
        }
        self.flows.append(flow)
        return flow

    def fill(self, count: int) -> None:
        for number in range(count):
            self.add(f"F{number:04}")

    def drop(self, count: int) -> None:
        """Take so many away."""
        del self.flows[:count]

    def document(self) -> bytes:
        """The document in the notation of the service."""
        self.prepared += self.validator == "none"
        body = self._json() if self.notation == "json" else self._xml()
        return body[: len(body) - self.cut_bytes]

    def _json(self) -> bytes:
        flows = [
            {
                **{name: value for name, value in flow.items() if name != "notes"},
                "annotations": [{"type": kind, "title": title} for kind, title, _ in flow["notes"]],
            }
            for flow in self.flows
        ]
        meta = {"schema": "https://example/sdmx-json-structure-schema.json", "prepared": str(self.prepared)}
        return json.dumps({"meta": meta, "data": {"dataflows": flows, "categorySchemes": [{"id": "C"}]}}).encode()

    def _xml(self) -> bytes:
        space = f"http://www.sdmx.org/resources/sdmxml/schemas/{'v3_0' if self.notation == '3.0' else 'v2_1'}"
        return (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<m:Structure xmlns:m="{space}/message" '
            f'xmlns:s="{space}/structure" xmlns:c="{space}/common"><m:Header><m:ID>X</m:ID>'
            f"<m:Prepared>{self.prepared}</m:Prepared></m:Header><m:Structures><s:Dataflows>"
            f"{''.join(map(_written, self.flows))}</s:Dataflows></m:Structures></m:Structure>"
        ).encode()

    async def _answer_for(self, request: web.Request) -> web.StreamResponse:
        if self.failures:
            self.pages[request.path_qs] = self.failures.pop(0)
        elif request.path == LISTS[self.notation]:
            body = self.document() if self.body is None else self.body
            kind = "application/json" if self.notation == "json" else "application/xml"
            self.pages[request.path_qs] = Page(body, validator=self.validator, headers={"Content-Type": kind})
        elif request.path.startswith("/rest"):
            self.pages.pop(request.path_qs, None)
        return await super()._answer_for(request)


def _written(flow: Flow) -> str:
    attributes = "".join(
        f' {name}="{escape(str(flow[name]))}"'
        for name in ("id", "agencyID", "version", "validFrom")
        if flow.get(name) is not None
    )
    notes = "".join(
        f"<c:Annotation><c:AnnotationTitle>{escape(title)}</c:AnnotationTitle><c:AnnotationType>{kind}</c:AnnotationType>"
        + (f"<c:AnnotationURL>{escape(url)}</c:AnnotationURL>" if url else "")
        + "</c:Annotation>"
        for kind, title, url in flow["notes"]
    )
    texts = "".join(
        f'<c:{tag} xml:lang="{code}">{escape(str(text))}</c:{tag}>'
        for tag, said in (("Name", flow["names"]), ("Description", flow["descriptions"]))
        for code, text in said.items()
    )
    odd = "<c:Odd>" * 300 + "</c:Odd>" * 300 if "odd" in flow else ""
    return f"<s:Dataflow{attributes}><c:Annotations>{notes}</c:Annotations>{texts}{odd}</s:Dataflow>"


class ChangingSdmx(SdmxService):
    """A service for the refresh-equals-rebuild machine."""

    kind = "sdmx"

    def __init__(self) -> None:
        super().__init__()
        self.fill(6)
        self.add("always")

    def change(self, chance: Random) -> None:
        self._calm()
        match chance.randrange(10):
            case 0 | 1 | 2:
                name = f"F{chance.randrange(14):04}"
                text = " ".join(chance.choices(WORDS, k=chance.randrange(3, 40)))
                self.flows = [flow for flow in self.flows if flow["id"] != name]
                self.add(name, chance.choice(WORDS), descriptions={chance.choice(["en", "de"]): text})
            case 3 if len(self.flows) > 2:
                self.flows.pop(chance.randrange(len(self.flows)))
            case 4:
                chance.shuffle(self.flows)
            case 5:
                self.notation = chance.choice(["2.1", "3.0", "json"])
            case 6:
                self.validator = chance.choice(["etag", "both", "none"])
            case 7:
                self.cut_bytes = chance.randrange(1, 900)
            case 8:
                self.body = chance.choice([b"<html>Maintenance</html>", b"<a/>", b'{"data": {"dataflows": []}}', b""])
                self.down = chance.random() < 0.2
            case 9:
                self.add(None)

    def _calm(self) -> None:
        self.body, self.cut_bytes, self.down = None, 0, False

    def ail(self, chance: Random) -> None:
        self._calm()
        name = f"F{chance.randrange(14):04}"
        if chance.random() < 0.6:
            self.flows = [flow for flow in self.flows if flow["id"] != name]
            self.add(name, chance.choice(WORDS))
        chance.choice(self.flows)["odd"] = nested(900)

    def recover(self) -> None:
        for flow in self.flows:
            flow.pop("odd", None)

    def heal(self) -> None:
        self._calm()
        self.recover()
        self.flows = [flow for flow in self.flows if flow["id"]]
