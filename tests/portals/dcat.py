"""A small RDF catalog on loopback, in any syntax, with or without pages, that changes, lies and fails."""

import json
from datetime import UTC, datetime
from email.utils import format_datetime
from random import Random
from typing import Any

from aiohttp import web
from pyoxigraph import BlankNode, Literal, NamedNode, Quad, RdfFormat, serialize

from tests.portals.catalogs import Changing, Portal, Record, some_words
from tests.portals.site import WORDS, Asked, Page, Site

DCAT, DCT, FOAF = "http://www.w3.org/ns/dcat#", "http://purl.org/dc/terms/", "http://xmlns.com/foaf/0.1/"
HYDRA, VCARD = "http://www.w3.org/ns/hydra/core#", "http://www.w3.org/2006/vcard/ns#"
RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
XSD_DATETIME = "http://www.w3.org/2001/XMLSchema#dateTime"
FORMATS = {
    "ttl": (RdfFormat.TURTLE, "text/turtle"),
    "rdf": (RdfFormat.RDF_XML, "application/rdf+xml"),
    "jsonld": (RdfFormat.JSON_LD, "application/ld+json"),
    "nt": (RdfFormat.N_TRIPLES, "application/n-triples"),
}
NAMES = {"dcat": DCAT, "dct": DCT, "foaf": FOAF, "hydra": HYDRA, "vcard": VCARD}


def name(short: str) -> NamedNode:
    """A property or class by its short name."""
    prefix, _, local = short.partition(":")
    return NamedNode(NAMES[prefix] + local)


def term(value: Any) -> Any:
    """A value of a record: an address in <>, a text with a language, a moment, or plain text."""
    match value:
        case (str(text), str(language)):
            return Literal(text, language=language)
        case datetime():
            return Literal(value.replace(tzinfo=None).isoformat(), datatype=NamedNode(XSD_DATETIME))
        case str() if value.startswith("<"):
            return NamedNode(value[1:-1])
        case str():
            return Literal(value)
    return value


def triples(node: Any, record: Record) -> list[Quad]:
    """What a record says of a node; a dictionary inside is a blank node, or the node of its `@id`."""
    found = []
    for key, values in record.items():
        if key == "@id":
            continue
        if key == "@type":
            found.append(Quad(node, NamedNode(RDF_TYPE), name(values)))
            continue
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, dict):
                inner = NamedNode(value["@id"]) if "@id" in value else BlankNode()
                found += [Quad(node, name(key), inner), *triples(inner, value)]
            else:
                found.append(Quad(node, name(key), term(value)))
    return found


class DcatPortal(Portal):
    """Records by IRI; a key that is none makes a blank node."""

    filter_marks = ("modified_since=",)

    def __init__(self) -> None:
        super().__init__()
        self.path = "/catalog"
        self.syntax = "ttl"
        self.media_type: str | None = None
        self.page_size: int | None = None
        self.hydra = "new"
        self.apart: str | None = None
        self.validator = "etag"
        self.cut_bytes = 0
        self.ignores_page = False
        self.refuses_filter = False
        self.site_url: str | None = None
        self.shuffled = 0
        self.lists = True

    @property
    def address(self) -> str:  # type: ignore[override]
        """Where it is read."""
        return f"dcat:{self.url}{self.path}.{self.syntax}"

    def make(self, name: str, /, title: Any = None, *, tick_h: float = 2, **more: Any) -> Record:
        """A dataset as it is from now on."""
        self.tick(tick_h)
        record: Record = {
            "@type": "dcat:Dataset",
            "dct:title": title or f"Dataset {name}",
            "dct:description": f"All about {name}.",
            "dct:modified": self.clock,
            "dcat:keyword": ["hay", "clover"],
            "dct:publisher": {"@type": "foaf:Agent", "foaf:name": "The Farm"},
            "dcat:distribution": {
                "@id": f"https://files.example/{name}",
                "@type": "dcat:Distribution",
                "dct:title": "Table",
                "dcat:downloadURL": f"<https://files.example/{name}.csv>",
                "dct:format": "CSV",
            },
            **{word.replace("_", ":", 1): value for word, value in more.items()},
        }
        kept = {word: value for word, value in record.items() if value is not None}
        self.records[name] = kept
        return kept

    def fill(self, count: int) -> None:
        super().fill(count - 1)

    def drop(self, count: int) -> None:
        """Take so many away."""
        for key in list(self.records)[:count]:
            del self.records[key]

    def iri(self, key: str) -> str:
        """The IRI of a record."""
        return f"http://portal.example/dataset/{key}"

    def node(self, key: str) -> Any:
        """A record's node: blank for a key that begins with a question mark."""
        return BlankNode() if key.startswith("?") else NamedNode(self.iri(key) if ":" not in key else key)

    def found(self, query: dict[str, str]) -> list[str]:
        """The keys that are asked for, newest first, as CKAN gives them."""
        since = query.get("modified_since")
        keys = sorted(self.records, key=self._modified, reverse=True)
        if since and self.empty_when_filtered:
            return []
        if since and "filter" not in self.ignores:
            moment = datetime.fromisoformat(since)
            keys = [key for key in keys if self._modified(key) >= moment]
        return keys

    def _modified(self, key: str) -> datetime:
        value = self.records[key].get("dct:modified")
        return value if isinstance(value, datetime) else datetime(1999, 1, 1, tzinfo=UTC)

    def quads(self, query: dict[str, str]) -> list[Quad]:
        """What a page says."""
        keys = self.found(query)
        size = int(query.get("page_size", 0)) or self.page_size or len(keys) or 1
        number = 1 if self.ignores_page else int(query.get("page", 1))
        page = keys[(number - 1) * size : number * size]
        catalog = NamedNode("http://portal.example/")
        quads = triples(catalog, {"@type": "dcat:Catalog", "dct:title": "The Catalog"})
        files: list[Quad] = []
        for key in page:
            node = self.node(key)
            said = triples(node, self.records[key])
            quads += [Quad(catalog, name("dcat:dataset"), node)] if self.lists else []
            apart = {quad.object for quad in said if self.apart and quad.predicate == name("dcat:distribution")}
            quads += [quad for quad in said if quad.subject not in apart]
        if self.apart:
            files = self._files(keys, number, size)
        return quads + files + (self._paging(catalog, query, number, size, len(keys)) if self.page_size else [])

    def _files(self, keys: list[str], number: int, size: int) -> list[Quad]:
        """The files of datasets on the page before, or behind: on another one than their datasets."""
        pages = max(1, -(-len(keys) // size))
        other = (number - 2 if self.apart == "after" else number) % pages
        found: list[Quad] = []
        for key in keys[other * size : (other + 1) * size]:
            inner = self.records[key].get("dcat:distribution")
            for one in inner if isinstance(inner, list) else [inner]:
                if isinstance(one, dict):
                    found += triples(NamedNode(one["@id"]), one)
        return found

    def _paging(self, catalog: NamedNode, query: dict[str, str], number: int, size: int, count: int) -> list[Quad]:
        base = f"{self.site_url or self.url}{self.path}.{self.syntax}"
        kept = "".join(f"&{word}={query[word]}" for word in ("modified_since", "page_size") if word in query)
        kept = kept.replace("+", "%2B")
        view = NamedNode(f"{base}?page={number}{kept}")
        following = f"{base}?page={number + 1}{kept}" if number * size < count else None
        total = Literal(str(max(0, count + self.miscount)))
        if self.hydra == "old":
            kind = {"@type": "hydra:PagedCollection", "hydra:itemsPerPage": str(size)}
            link = [Quad(view, name("hydra:nextPage"), Literal(following))] if following else []
            return [*triples(view, kind), Quad(view, name("hydra:totalItems"), total), *link]
        link = [Quad(view, name("hydra:next"), NamedNode(following))] if following else []
        whole = [Quad(catalog, name("hydra:totalItems"), total), Quad(catalog, name("hydra:view"), view)]
        return [*whole, *triples(view, {"@type": "hydra:PartialCollectionView"}), *link]

    def document(self, query: dict[str, str] | None = None) -> bytes:
        """A page as it is sent, its triples in any order."""
        quads = self.quads(query or {})
        self.shuffled += 1
        Random(self.shuffled).shuffle(quads)
        body = serialize([quad.triple for quad in quads], format=FORMATS[self.syntax][0]) or b""
        return body[: len(body) - self.cut_bytes]

    async def _answer_for(self, request: web.Request) -> web.StreamResponse:
        if request.path != f"{self.path}.{self.syntax}":
            return await Site._answer_for(self, request)
        if self.refuses_filter and "modified_since" in request.query:
            self.failures = [web.Response(status=400, text="No such parameter.")]
        if self.failures:
            response = self.failures.pop(0)
            self.log.append(Asked(request.path_qs, response.status, False, 0))
            return response
        query = dict(request.query)
        body = self.body if self.body is not None else self.document(query)
        salt = "" if self.body is not None else json.dumps(self.records, default=str, sort_keys=True)
        kind = self.media_type or FORMATS[self.syntax][1]
        headers = {"Content-Type": kind, "Date": format_datetime(self.clock, usegmt=True)}
        # The order of triples differs each time: the tag is that of what they say.
        page = Page(body, validator="none" if self.validator == "etag" else self.validator, headers=headers)
        if self.validator == "etag":
            page = Page(body, validator="none", headers={**headers, "ETag": Page(salt.encode() or body).etag})
        self.pages[request.path_qs] = page
        response = await Site._answer_for(self, request)
        self.turn(int(query.get("page", 1)))
        return response


class PagedDcat(DcatPortal):
    """A catalog in pages."""

    def __init__(self) -> None:
        super().__init__()
        self.page_size = 10


class UdataPortal(DcatPortal):
    """A catalog in pages whose size is ours to choose."""

    def __init__(self) -> None:
        super().__init__()
        self.path, self.syntax, self.page_size = "/api/1/site/catalog", "jsonld", 100


class ChangingDcat(Changing, DcatPortal):
    """A catalog for the refresh-equals-rebuild machine."""

    kind = "dcat"

    def __init__(self) -> None:
        super().__init__()
        self.page_size = 4

    def change(self, chance: Random) -> None:
        key = chance.choice([f"n{chance.randrange(14)}", f"?b{chance.randrange(3)}", f"urn:x:{chance.randrange(3)}"])
        self.calm()
        match chance.randrange(13):
            case 0 | 1 | 2 | 3:
                self.write(chance, key)
            case 4 | 5:
                self.records.pop(key, None)
                self.tick(chance.choice([0.1, 5]))
            case 6:
                self.page_size = chance.choice([None, 2, 4, 100])
            case 7:
                self.hydra = chance.choice(["old", "new"])
                self.site_url = chance.choice([None, "http://inside.example:5000"])
            case 8:
                self.ignores = {"filter"} if chance.random() < 0.5 else set()
                self.empty_when_filtered = chance.random() < 0.3
            case 9:
                self.count_wrongly(chance.choice([0, 0, 1, -1]))
            case 10:
                self.body = chance.choice([None, b"<html>Maintenance</html>", b"@prefix x", b"", b"<rdf:RDF"])
                self.down = chance.random() < 0.2
            case 11:
                self.apart = chance.choice([None, "before", "after"])
            case 12:
                self.cut_bytes = chance.randrange(1, 900)

    def write(self, chance: Random, name: str) -> None:
        text = some_words(chance)
        odd = chance.choice(
            [{}, {"dct_description": None}, {"dcat_distribution": None}, {"dct_title": [(text, "de"), ("Foin", "fr")]}]
        )
        words = {"dct_description": text, "dct_license": f"<http://licence.example/{chance.randrange(3)}>", **odd}
        identifier = {"dct_identifier": name} if name.startswith("?") else {}
        self.make(name, chance.choice(WORDS), tick_h=chance.choice([0, 0.01, 0.5, 5]), **{**words, **identifier})

    def heal(self) -> None:
        super().heal()
        # A catalog without pages has no count either: what vanished from it waits for a reconciliation.
        self.page_size = self.page_size or 4

    def unreadable(self, chance: Random, record: Record) -> Record:
        inner: Record = {"dct:title": "The innermost"}
        for _ in range(200):
            inner = {"dct:relation": inner}
        return {**record, "dct:relation": inner}

    def calm(self) -> None:
        super().calm()
        self.cut_bytes = 0
