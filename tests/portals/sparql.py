"""A small SPARQL endpoint on loopback: a real store behind it, with the caps, slowness and lies of real ones."""

import json
import re
from collections.abc import Callable
from datetime import datetime
from email.utils import format_datetime
from random import Random
from typing import Any

from aiohttp import web
from pyoxigraph import DefaultGraph, NamedNode, Quad, QueryResultsFormat, Store

from tests.portals.catalogs import Changing, some_words
from tests.portals.dcat import DcatPortal, name, triples
from tests.portals.site import WORDS, Asked

_PAGE = re.compile(r"LIMIT \d+\s*$")
_BATCH = re.compile(r"VALUES \?d \{(.*?)\}")


class SparqlEndpoint(DcatPortal):
    """The same records as those of a catalog; the store is filled anew for each question, in any order."""

    filter_marks = ("!BOUND",)

    no_listings = (
        b"<!doctype html><title>Virtuoso SPARQL Query Editor</title>",
        b"{}",
        b'{"head": {"vars": ["iri", "n"]}, "results": {"bind',
        b'{"head": {"vars": ["iri", "n"]}, "results": {"bindings": []}}',
        b'{"head": {"vars": ["other"]}, "results": {"bindings": []}}',
        b'{"head": {}, "boolean": true}',
    )

    def __init__(self) -> None:
        super().__init__()
        self.rows_max: int | None = None
        self.tells_cap = False
        self.broken_for: str | None = None
        self.no_count = False
        self.graph: str | None = None
        self.catalogues: dict[str, str] = {}
        self.headers: dict[str, str] = {}
        self.after_question: Callable[[str], None] | None = None

    @property
    def address(self) -> str:  # type: ignore[override]
        """Where it is asked."""
        return f"sparql:{self.url}/sparql"

    def store(self) -> Store:
        """The records as triples."""
        store = Store()
        graph: Any = NamedNode(self.graph) if self.graph else DefaultGraph()
        keys = list(self.records)
        self.shuffled += 1
        Random(self.shuffled).shuffle(keys)
        catalog = NamedNode("http://portal.example/")
        for key in keys:
            node = self.node(key)
            lists = NamedNode(self.catalogues[key]) if key in self.catalogues else catalog
            said = [*triples(node, self.records[key]), Quad(lists, name("dcat:dataset"), node)]
            store.extend(Quad(quad.subject, quad.predicate, quad.object, graph) for quad in said)
        return store

    def kinds_asked(self) -> list[str]:
        """The kinds of what was asked."""
        return [asked.path for asked in self.log]

    async def _answer_for(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        question = str(form.get("query", ""))
        response = self.trouble() or self.stumbled(self._answer_to(question))
        response.headers["Date"] = format_datetime(self.clock, usegmt=True)
        self.log.append(Asked(kind_of(question), response.status, False, response.content_length or 0))
        if self.after_question is not None:
            self.after_question(kind_of(question))
        return response

    def _answer_to(self, question: str) -> web.Response:
        if self.body is not None:
            return web.Response(body=self.body, content_type="application/sparql-results+json")
        kind = kind_of(question)
        batch = _BATCH.search(question)
        if batch and self.broken_above is not None and len(batch[1].split()) > self.broken_above:
            return web.Response(status=500, text="Virtuoso 42000 Error SR171: Transaction timed out")
        if self.broken_for and f"<{self.iri(self.broken_for)}>" in question:
            return web.Response(status=500, text="Virtuoso 37000 Error SP031")
        if self.refuses_filter and "!BOUND" in question:
            return web.Response(status=400, text="Virtuoso 37000 Error SP030: SPARQL compiler")
        if kind == "count" and self.no_count:
            return web.Response(status=504, text="Timeout")
        return self._results(question, kind)

    def _results(self, question: str, kind: str) -> web.Response:
        if "filter" in self.ignores and kind != "descriptions":
            question = re.sub(r"FILTER\(!BOUND.*?\"\d{4}-\d\d-\d\d\"\)", "", question)
        if self.empty_when_filtered and "!BOUND" in question:
            question = question.replace("WHERE {", "WHERE { FILTER(false)", 1)
        answer: Any = self.store().query(question)
        results = json.loads(answer.serialize(format=QueryResultsFormat.JSON))
        if "boolean" in results:
            return web.json_response(results)
        rows = results["results"]["bindings"]
        if kind == "count":
            rows[0]["n"]["value"] = str(max(0, int(rows[0]["n"]["value"]) + self.miscount))
        headers = dict(self.headers)
        if self.rows_max is not None and len(rows) > self.rows_max:
            rows = rows[: self.rows_max]
            headers |= {"X-SPARQL-MaxRows": str(self.rows_max)} if self.tells_cap else {}
        results["results"]["bindings"] = rows
        text = json.dumps(results)
        return web.Response(
            text=text[: len(text) - self.cut_bytes], content_type="application/sparql-results+json", headers=headers
        )


def kind_of(question: str) -> str:
    """What is asked for."""
    if "COUNT(" in question:
        return "count"
    if question.startswith("ASK"):
        return "ask"
    return "identifiers" if _PAGE.search(question) else "descriptions"


class ChangingSparql(Changing, SparqlEndpoint):
    """An endpoint for the refresh-equals-rebuild machine."""

    kind = "sparql"

    def change(self, chance: Random) -> None:
        key = chance.choice([f"n{chance.randrange(14)}", f"urn:x:{chance.randrange(3)}"])
        self.calm()
        match chance.randrange(11):
            case 0 | 1 | 2 | 3:
                self.write(chance, key)
            case 4 | 5:
                self.records.pop(key, None)
                self.tick(chance.choice([0.1, 5]))
            case 6:
                self.rows_max = chance.choice([None, 40, 100])
            case 7:
                self.broken_above = chance.choice([None, 1, 3])
            case 8:
                self.ignores = {"filter"} if chance.random() < 0.5 else set()
                self.empty_when_filtered = chance.random() < 0.3
            case 9:
                self.count_wrongly(chance.choice([0, 0, 1, -1]))
                self.no_count = chance.random() < 0.3
            case 10:
                self.body = chance.choice([None, b"<html>Maintenance</html>", b'{"head": {"vars"', b"{}"])
                self.down = chance.random() < 0.2

    def write(self, chance: Random, name: str) -> None:
        text = some_words(chance)
        odd: dict[str, Any] = chance.choice(
            [{}, {"dct_description": None}, {"dcat_distribution": None}, {"dct_title": [(text, "de"), ("Foin", "fr")]}]
        )
        undated: dict[str, Any] = chance.choice([{}, {}, {"dct_modified": None}])
        words = {"dct_description": text, "dct_license": {"dct:title": chance.choice(WORDS)}, **odd, **undated}
        self.make(name, chance.choice(WORDS), tick_h=chance.choice([0, 0.01, 0.5, 5]), **words)

    def ail(self, chance: Random) -> None:
        super().ail(chance)
        self.broken_for = list(self.ailing)[-1]

    def unreadable(self, chance: Random, record: dict[str, Any]) -> dict[str, Any]:
        """Every question about it fails."""
        return record

    def recover(self) -> None:
        super().recover()
        self.broken_for = None

    def calm(self) -> None:
        super().calm()
        self.cut_bytes, self.no_count = 0, False


def day(moment: datetime) -> str:
    """A date without its time, as many catalogs have it."""
    return moment.date().isoformat()
