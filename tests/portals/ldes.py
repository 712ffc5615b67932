"""A small event stream on loopback: pages of members, in any syntax, which grows, is rebalanced, lies and fails."""

import json
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from aiohttp import web

from tests.portals.site import WORDS, Page, Site

PREFIXES = """@prefix ldes: <https://w3id.org/ldes#> .
@prefix tree: <https://w3id.org/tree#> .
@prefix prov: <http://www.w3.org/ns/prov#> .
@prefix dct: <http://purl.org/dc/terms/> .
@prefix as: <https://www.w3.org/ns/activitystreams#> .
@prefix ex: <http://ex.example/> .
@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""
MEDIA = {"ttl": "text/turtle", "trig": "application/trig", "nq": "application/n-quads", "jsonld": "application/ld+json"}


def at(minute: int) -> str:
    """A moment of the stream's own time."""
    return f"2024-{1 + minute // 40000:02}-{1 + minute // 1440 % 27:02}T{minute // 60 % 24:02}:{minute % 60:02}:00Z"


@dataclass(frozen=True)
class Event:
    """One member: a version of an object at a minute. `more` is Turtle that is said of it besides."""

    thing: str
    minute: int
    title: str = ""
    deletes: bool = False
    more: str = ""

    @property
    def name(self) -> str:
        return f"http://ex.example/{self.thing}#{self.minute}"

    def turtle(self) -> str:
        kind = "as:Delete" if self.deletes else "ex:Thing"
        return (
            f"<{self.name}> a {kind} ; dct:isVersionOf <http://ex.example/{self.thing}> ; {self.more}\n"
            f'  prov:generatedAtTime "{at(self.minute)}"^^xsd:dateTime ; dct:title "{self.title or self.thing}"@en ;\n'
            f"  ex:part [ ex:size {self.minute} ] .\n"
        )


@dataclass
class Leaf:
    """A page: its members, and where it leads: (path, kind of relation or None, minute)."""

    events: list[Event] = field(default_factory=list)
    relations: list[tuple[str, str | None, int]] = field(default_factory=list)
    immutable: bool = False
    header: str = ""
    body: bytes | None = None
    status: int = 200
    location: str | None = None


class LdesSite(Site):
    """A stream at `/ldes`, whose root page is `/root`."""

    def __init__(self) -> None:
        super().__init__()
        self.address = f"ldes:{self.url}/root"
        self.leaves: dict[str, Leaf] = {"/root": Leaf()}
        self.syntax = "ttl"
        self.validator = "etag"
        self.description = "ldes:timestampPath prov:generatedAtTime ; ldes:versionOfPath dct:isVersionOf ;"
        self.minute = 0

    def event(self, thing: str, title: str = "", **more: Any) -> Event:
        """The next event."""
        self.minute += 1
        return Event(thing, self.minute, title, **more)

    def fill(self, count: int) -> None:
        """Publish so many members on the root page."""
        self.leaves["/root"].events += [self.event(f"n{number}") for number in range(count)]

    def chain(self, *pages: list[Event], immutable: bool = True) -> None:
        """The root leads to the first page, each page to the next by the time that it begins with."""
        self.leaves = {"/root": Leaf(relations=[("/p0", None, 0)] if pages else [])}
        for number, events in enumerate(pages):
            following = pages[number + 1] if number + 1 < len(pages) else None
            relations = [(f"/p{number + 1}", "GreaterThanOrEqualToRelation", following[0].minute)] if following else []
            self.leaves[f"/p{number}"] = Leaf(events, relations, immutable and following is not None)

    def url_of(self, thing: str) -> str:
        """The URL of the item of an object."""
        return f"http://ex.example/{thing}"

    def _turtle(self, path: str, leaf: Leaf) -> str:
        page, stream = f"{self.url}{path}", f"{self.url}/ldes"
        lines = [PREFIXES, f"<{stream}> a ldes:EventStream ; {self.description} tree:view <{self.url}/root> ."]
        lines += [f"<{stream}> tree:member <{event.name}> ." for event in leaf.events]
        for target, kind, minute in leaf.relations:
            bound = (
                f'a tree:{kind} ; tree:path prov:generatedAtTime ; tree:value "{at(minute)}"^^xsd:dateTime ;'
                if kind
                else "a tree:Relation ;"
            )
            lines.append(f"<{page}> tree:relation [ {bound} tree:node <{self.url}{target}> ] .")
        if leaf.immutable:
            lines.append(f"<{page}> ldes:immutable true .")
        return "\n".join([*lines, *(event.turtle() for event in leaf.events)])

    def _body(self, path: str, leaf: Leaf) -> bytes:
        if leaf.body is not None:
            return leaf.body
        turtle = self._turtle(path, leaf)
        if self.syntax == "ttl":
            return turtle.encode()
        import pyoxigraph as ox

        syntax = {"trig": ox.RdfFormat.TRIG, "nq": ox.RdfFormat.N_QUADS, "jsonld": ox.RdfFormat.JSON_LD}[self.syntax]
        return ox.serialize(ox.parse(turtle, ox.RdfFormat.TURTLE), format=syntax) or b""

    async def _answer_for(self, request: web.Request) -> web.StreamResponse:
        path = request.path_qs
        if path in self.leaves:
            leaf = self.leaves[path]
            headers = {"Content-Type": MEDIA[self.syntax], **({"Cache-Control": leaf.header} if leaf.header else {})}
            if leaf.location:
                headers["Location"] = leaf.location
            body = self._body(path, leaf) if leaf.status == 200 else b""
            self.pages[path] = Page(body, leaf.status, self.validator, headers=headers)
        return await super()._answer_for(request)


class ChangingLdes(LdesSite):
    """A stream for the machine: it grows, closes pages, is rebalanced, and pages of it are gone for good."""

    kind = "ldes"

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Event] = []
        self.size = 3
        self.shift = 0
        self.broken: set[str] = set()
        for number in range(8):
            self._grow(f"n{number}", "first")

    def _grow(self, thing: str, title: str, **more: Any) -> None:
        self.events.append(self.event(thing, title, **more))
        self._lay()

    def _lay(self) -> None:
        """Put the events onto pages; those of another `shift` have other names."""
        cut = [self.events[start : start + self.size] for start in range(0, len(self.events), self.size)]
        names = [f"/s{self.shift}.{number}" for number in range(len(cut))]
        leaves = {"/root": Leaf()}
        for number, events in enumerate(cut):
            is_full = number + 1 < len(cut)
            leaves["/root"].relations.append((names[number], "GreaterThanOrEqualToRelation", events[0].minute))
            leaves[names[number]] = Leaf(events, [], immutable=is_full)
        self.leaves = {**{path: Leaf(status=410) for path in self.leaves}, **leaves}

    def change(self, chance: Random) -> None:
        self._calm()
        thing = f"n{chance.randrange(14)}"
        match chance.randrange(10):
            case 0 | 1 | 2 | 3:
                self._grow(thing, chance.choice(WORDS))
            case 4:
                self._grow(thing, deletes=True, title="gone")
            case 5:
                self.shift += 1
                self.size = chance.choice([2, 3, 5])
                self._lay()
            case 6:
                self.validator = chance.choice(["etag", "none"])
            case 7:
                self.syntax = chance.choice(list(MEDIA))
            case 8:
                path = chance.choice(list(self.leaves))
                broken = chance.choice([replace(self.leaves[path], status=500), replace(self.leaves[path], body=b"<a")])
                self.leaves[path] = broken
            case 9:
                self.down = True

    def _calm(self) -> None:
        self.down = False
        self._lay()

    def ail(self, chance: Random) -> None:
        self._calm()
        self._grow(f"n{chance.randrange(14)}", chance.choice(WORDS))
        path = self.leaves["/root"].relations[-1][0]
        self.leaves[path] = replace(self.leaves[path], body=b"@prefix broken")

    def recover(self) -> None:
        self._lay()

    def heal(self) -> None:
        self._calm()


def context_page(site: LdesSite, event: Event, context: Any) -> bytes:
    """A page in JSON-LD whose words are explained elsewhere."""
    document = {
        "@context": context,
        "@id": f"{site.url}/ldes",
        "timestampPath": {"@id": "http://www.w3.org/ns/prov#generatedAtTime"},
        "versionOfPath": {"@id": "http://purl.org/dc/terms/isVersionOf"},
        "view": {"@id": f"{site.url}/root"},
        "member": [{"@id": event.name, "versionOf": f"http://ex.example/{event.thing}", "at": at(event.minute)}],
    }
    return json.dumps(document).encode()
