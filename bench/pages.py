"""How long the server takes for each page and each answer of the API: `python -m bench.pages [--items 1000000]`.

A store of its own is filled by SQL: a thousand sources, of which one has 60 % of the items and one 20 %, and every
fifth is a catalog of datasets; with passages, a change log, runs, deletions that are held back, items that cannot be
read, facts and deliveries. Each page is asked in this process, without a socket, first by a server that was just
started and then some times more. What counts is the processor time of this process and of the database together: that
is the server's own time on a machine that has nothing else to do, and the same on a busy one. `--home` keeps the
store for the next call; `--slow 50` lists only what takes longer than so many milliseconds.
"""

import argparse
import asyncio
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil

import rowen
from rowen.interfaces.web.routing import PAGES
from rowen.model.datasets import DATASET
from rowen.server.app import assemble
from rowen.settings import Settings
from rowen.store.database import Connection, Database
from rowen.store.search import words

HERE = "http://127.0.0.1:8400"
LIMIT_MS = 100
# From the eleventh time on a statement may be planned once for all values, which can be a worse plan.
TIMES = 12
SOURCES = 1000
RUNS_A_SOURCE = 30
# Words of Zipf's law, about: the square of an even number between 0 and 1 is small most of the time.
WORDS = """(select string_agg('w' || (power(random() + 0 * word, 4) * 50000)::int, ' ')
                       from generate_series(1, 60) word where n > 0)"""

SOURCE = """
insert into source (name, kind, url, schedule)
select 'source-' || n, (array['web', 'ckan', 'files', 'feed', 'git'])[1 + n % 5], 'https://s' || n || '.example/',
       'every 6h'
  from generate_series(1, {sources}) n
"""
ITEM = (
    """
insert into item (source_id, key, url, title, text, tags, record, content_hash, record_hash, language, media_type,
                  chunker, revision, created_at, updated_at, twins)
select source, sha256(convert_to(url, 'UTF8')), url, 'Field ' || n || ' ' || left(words, 30), words,
       array['tag' || n % 500, 'crop' || n % 20],
       jsonb_build_object('publisher', 'Office ' || n % 300, 'number', n, 'issued', '2026-01-05', 'resources',
                          jsonb_build_array(jsonb_build_object('url', url || '.csv', 'format', 'CSV'))),
       sha256(convert_to(words, 'UTF8')), sha256(convert_to(url, 'UTF8')), (array['en', 'de', null])[1 + n % 3],
       case when source % 5 = 1 then '{dataset}' else 'text/html' end, 1, 1 + (n % 10 = 0)::int,
       now() - n % 300 * interval '1 day', now() - n % 90 * interval '1 day',
       case when source % 5 = 1 then array[n, -n - case when n % 100 = 31 then 7 else 0 end] end
  from generate_series({first}::bigint, {last}) n
  cross join lateral (select case when n % 10 < 6 then 1 when n % 10 < 8 then 2 else 3 + n / 10 % {rest} end) s(source)
  cross join lateral (select 'https://s' || source || '.example/page/' || n) u(url)
  cross join lateral """
    + WORDS
    + """ w(words)
"""
)
CHUNK = """
insert into chunk (item_id, position, heading, text, text_hash, tsv)
select id, 0, '{{}}', text, content_hash, passage_tsv(language, title, '{{}}', text) from item
 where id between {first} and {last}
"""
CHECK = """
insert into item_check (item_id, run_id, recipe, etag, depth, links)
select id, 1, '\\x00', 'w/' || id, 2, url || E'\\n' || url || '/next' from item where id between {first} and {last}
"""
TITLE = """
insert into item_title (item_id, text_hash)
select id, sha256(convert_to(title, 'UTF8')) from item where id between {first} and {last}
"""
CHANGE = """
insert into change (number, source_id, source, run_id, key, kind, url, title, content_hash, record_hash, at)
select id, source_id, 'source-' || source_id, source_id, key, 'created', url, title, content_hash, record_hash,
       now() - ({items} - id) * interval '1 second' from item where id between {first} and {last}
"""
REST = [
    """
insert into change (number, source_id, source, run_id, key, kind, url, title, content_hash, record_hash, at)
select {items} + row_number() over (order by id), source_id, 'source-' || source_id, 1000 + source_id, key, 'updated',
       url, title, content_hash, record_hash, now() from item where revision = 2
""",
    """
insert into change (number, source_id, source, run_id, key, kind, url, title, at)
select (select max(number) from change) + n, 1, 'source-1', 2001, sha256(convert_to('gone' || n, 'UTF8')), 'deleted',
       'https://s1.example/gone/' || n, 'Field that was sold ' || n, now() from generate_series(1, 1000) n
""",
    """
insert into run (source_id, mode, status, complete, started_at, finished_at, tally, error)
select s, 'incremental', (array['completed', 'completed', 'partial', 'failed'])[1 + (random() * 3.3)::int % 4], true,
       now() - r * interval '6 hours', now() - r * interval '6 hours' + interval '1 minute',
       jsonb_build_object('created', 1, 'updated', 2, 'unchanged', 500, 'requests', 503, 'not_modified', 490,
                          'bytes', 100000, 'stopped_at_validator', 490, 'seconds', 60.0, 'embedded', 3), null
  from generate_series({runs}, 1, -1) r, generate_series(1, {sources}) s
""",
    "insert into source_due (source_id, due_at) select id, now() + id * interval '1 minute' from source",
    """
insert into source_freshness (source_id, looked_at, shape, span_s, items, requests)
select id, now() - interval '1 hour', 1.5, 864000, 200, 500 from source
""",
    """
insert into quarantine (source_id, key, url, error)
select source_id, key, url, 'The server answered ' || 500 + id % 7 || '.' from item where id % 50 = 0
""",
    "insert into item_held (item_id, source_id, run_id) select id, source_id, 1 from item where id % 100 = 0",
    """
insert into item_change_rate (item_id, source_id, looked_at, shape, span_s)
select id, source_id, now() - interval '1 day', 1.5, 864000 from item where id % 20 = 0
""",
    """
insert into revision (item_id, number, content_hash, title, text, tags, at)
select id, 1, content_hash, title, 'before ' || text, tags, created_at from item where revision = 2
""",
    """
insert into schema (name, version, number, definition, hash)
values ('farm', '1.0.0', '{{1,0,0}}', '{{"type":"object","properties":{{"acres":{{"type":"number"}}}}}}', '\\x00')
""",
    """
insert into source_schema (source_id, name, schema_id, extracted_to)
select source.id, 'farm', schema.id, (select max(number) from change)
  from source, schema where schema.name = 'farm' and source.id < 20
""",
    """
insert into extraction (source_id, key, url, name, number, schema_id, data, data_hash, diff, origin)
select source_id, key, item.url, 'farm', 1, schema.id, json_build_object('acres', item.id), '\\x00', '[]', 'rules'
  from item, schema where item.id % 10 = 0 and schema.name = 'farm'
""",
    """
insert into extraction_check (source_id, key, name, extraction_id, change, state)
select source_id, key, name, id, id, 'current' from extraction
""",
    """
insert into webhook (name, url, secrets, after)
select 'hook-' || n, 'https://h.example', '{{env:X}}', {items} - n * 10000
  from generate_series(1, 20) n
""",
    """
insert into delivery (webhook_id, number, status, seconds)
select webhook.id, n, 204, 0.1 from webhook, generate_series(1, 5000) n
""",
    """
insert into saved_search (name, query, after) select 'search-' || n, 'w' || n, {items} from generate_series(1, 20) n
""",
    """
insert into provider_call (source_id, provider, purpose, model, at, inputs, tokens_sent, tokens_received, usd,
                           latency_s, result)
select 1 + n % {sources}, 'openai', 'extract', 'small-1', now() - n * interval '30 seconds', 1, 900, 50, 0.001, 0.5,
       'ok'
  from generate_series(1, 100000) n
""",
]
BLOCK = 50_000


async def fill(home: Path, items: int) -> None:
    """Load what is not there."""
    database = Database(Settings(home=home, embedder="none"))
    await database.open()
    try:
        async with database.connection() as c:
            row = await (await c.execute("select count(*) from saved_search")).fetchone()
            if row is None or not row[0]:
                await _load(c, items)
                await c.execute("vacuum analyze")
        await words.count_words(database)
    finally:
        await database.close()


async def _load(c: Connection, items: int) -> None:
    values = {"items": items, "sources": SOURCES, "rest": SOURCES - 2, "runs": RUNS_A_SOURCE, "dataset": DATASET}
    began = time.perf_counter()
    await c.execute("drop index chunk_tsv")
    await c.execute("drop index item_twins")
    await c.execute("set synchronous_commit = off")
    await c.execute(SOURCE.format(**values).encode())
    for first in range(1, items + 1, BLOCK):
        for statement in (ITEM, CHUNK, CHECK, TITLE, CHANGE):
            last = min(first + BLOCK - 1, items)
            await c.execute(statement.format(**values, first=first, last=last).encode())
        print(f"{first + BLOCK - 1:,} items in {time.perf_counter() - began:.0f} s", flush=True)
    await c.execute("set maintenance_work_mem = '1GB'")
    await c.execute("create index chunk_tsv on chunk using gin (tsv)")
    await c.execute("create index item_twins on item using gin (twins) with (fastupdate = off) where twins is not null")
    for statement in REST:
        await c.execute(statement.format(**values).encode())
    print(f"filled in {time.perf_counter() - began:.0f} s", flush=True)


VALUES = {"name": "source-1", "number": "7", "ref": "farm", "form": "atom", "node": "pages/3"}
ASKED = {"q": "w7 w90", "url": "https://s1.example/page/5", "schema": "farm", "older": "farm", "newer": "farm"}


def paths(document: dict[str, Any]) -> Iterator[str]:
    """All pages, and all that the API answers with a `GET` and at once."""
    for path in PAGES:
        name = "hook-1" if path.startswith("/webhooks") else "source-1"
        yield re.sub(r"\{(\w+)(?::\w+)?\}", lambda found, name=name: {**VALUES, "name": name}[found[1]], path)
    for tab in ("items", "changes", "runs", "settings"):
        yield f"/sources/source-1?tab={tab}"
    yield from ("/item?url=https://s1.example/page/5", "/search?q=w7+w90", "/search?q=w3000", "/sources?needing=1")
    yield from ("/changes?source=source-2", "/changes?kind=deleted", "/changes?query=w3000", "/extractions?schema=farm")
    for path, methods in document["paths"].items():
        if "get" in methods and not re.search(r"/events|/exports/|/push|websub|data\.json|/feeds/\{form\}", path):
            needed = {one["name"] for one in methods["get"].get("parameters", ()) if one.get("required")}
            name = {"/saved-searches": "search-1", "/webhooks": "hook-1"}.get(re.sub(r"^/api/v1|/\{.*", "", path), "")
            filled = re.sub(r"\{(\w+)(?::\w+)?\}", lambda found, name=name: _value(found[1], name), path)
            yield f"{filled}?{httpx.QueryParams({one: ASKED[one] for one in needed & set(ASKED)})}".rstrip("?")
    yield from FURTHER


# What the document's examples do not ask: filters, pages further on, sources with no datasets, and rare words.
FURTHER = (
    *("/feeds/atom", "/feeds/atom?query=w3000", "/feeds/atom?kind=deleted", "/feeds/atom?field=acres"),
    *("/sources/source-1/feeds/atom", "/sources/source-3/feeds/json", "/changes?query=w200", "/changes?field=acres"),
    *("/api/v1/changes?since=1d", "/api/v1/changes/newest?kind=deleted", "/api/v1/changes/newest?query=w3000"),
    *("/api/v1/sources/source-2/items?limit=200", "/api/v1/search?q=w3000", "/api/v1/sources?limit=200"),
    *("/ldes/blocks/3", "/sources/source-1/ldes/blocks/3", "/sources/source-900/ldes"),
    *("/catalog/dcat?after=1x80", "/sources/source-2/catalog/dcat", "/sources/source-6/catalog/dcat"),
)
STREAMS = (
    *("/catalog/data.json", "/sources/source-1/catalog/data.json"),
    *("/api/v1/exports/items.jsonl", "/api/v1/exports/items.csv?source=source-1"),
)
"""Downloads: what counts is when they begin, and how much memory they take."""
# Of a download, so many pieces are read: several hundred pages of a hundred datasets, or as many items.
PIECES = 300


def _value(parameter: str, name: str) -> str:
    return name if parameter == "name" and name else VALUES[parameter]


class Clock:
    """Processor time of this process and of the embedded server, in milliseconds."""

    def __init__(self, postmaster: int) -> None:
        self._here = psutil.Process()
        self._server = psutil.Process(postmaster)

    def read(self) -> float:
        """All that was spent up to now; processes of the database that ended are counted by their parent."""
        spent = sum(self._here.cpu_times()[:2]) + sum(self._server.cpu_times()[:4])
        for one in self._server.children():
            with suppress(psutil.NoSuchProcess):
                spent += sum(one.cpu_times()[:2])
        return spent * 1000


async def measure(home: Path, slow_ms: float) -> None:
    """Ask for each page, and say how long it took."""
    settings: dict[str, Any] = {"home": home, "embedder": "none", "requests_per_minute": 10**9}
    async with rowen.open(**settings) as opened:
        clock = Clock(int((home / "postgres" / "data" / "postmaster.pid").read_text().split()[0]))
        interfaces = assemble(opened, trusts_loopback=True)
        transport = httpx.ASGITransport(interfaces.asgi, client=("127.0.0.1", 5000), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=HERE, timeout=600) as http:
            over = 0
            for path in dict.fromkeys(paths(interfaces.inner.openapi())):
                first_ms, _, status = await _asked(http, path, clock, times=1)
                usual_ms, wall_ms, _ = await _asked(http, path, clock, times=TIMES)
                over += usual_ms > LIMIT_MS
                if max(usual_ms, first_ms) >= slow_ms:
                    told = f"{usual_ms:7.0f} ms, at first {first_ms:7.0f}, waited for {wall_ms:7.0f}"
                    print(f"{told}  {status}  {path}", flush=True)
            print(f"{over} took more than {LIMIT_MS} ms")
        for path in STREAMS:
            await _begun(interfaces.asgi, path)


async def _begun(app: Any, path: str) -> None:
    """Read the beginning of a download, and say when it came and what was held meanwhile."""
    enough, began = asyncio.Event(), time.perf_counter()
    pieces: list[tuple[float, int]] = []
    held_mb = psutil.Process().memory_info().rss / 1e6

    async def receive() -> dict[str, Any]:
        if enough.is_set() or not asked.is_set():
            asked.set()
            return {"type": "http.disconnect" if enough.is_set() else "http.request"}
        await enough.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if body := message.get("body"):
            pieces.append((time.perf_counter() - began, len(body)))
        if len(pieces) == PIECES:
            enough.set()

    asked, (route, _, query) = asyncio.Event(), path.partition("?")
    scope = {"type": "http", "method": "GET", "path": route, "raw_path": route.encode(), "query_string": query.encode()}
    scope |= {"headers": [(b"host", b"127.0.0.1:8400")], "client": ("127.0.0.1", 5000), "server": ("127.0.0.1", 8400)}
    await app({**scope, "scheme": "http", "http_version": "1.1", "root_path": "", "state": {}}, receive, send)
    more_mb = psutil.Process().memory_info().rss / 1e6 - held_mb
    told = f"waited for the first byte for {pieces[0][0] * 1000:7.0f} ms"
    print(f"{told}; {sum(size for _, size in pieces) / 1e6:.1f} MB in {more_mb:+.0f} MB  {path}", flush=True)


async def _asked(http: httpx.AsyncClient, path: str, clock: Clock, *, times: int) -> tuple[float, float, int]:
    """What an answer takes of the processors, how long it was waited for at best, and its status."""
    accept = {"Accept": "application/json" if path.startswith("/api") else "text/html"}
    waited: list[float] = []
    before = clock.read()
    for _ in range(times):
        began = time.perf_counter()
        answer = await http.get(path, headers=accept)
        waited.append((time.perf_counter() - began) * 1000)
    return (clock.read() - before) / times, min(waited), answer.status_code


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--slow", type=float, default=0.0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rowen-pages-") as passing:
        Path(passing).chmod(0o755)
        place = chosen.home or Path(passing)
        asyncio.run(fill(place, chosen.items))
        asyncio.run(measure(place, chosen.slow))
