"""Nothing that a caller writes keeps the event loop from answering others, in whatever language it is.

Operations, options, tools and forms are taken from their declarations, and each of their fields is sent the worst
families of the languages that it takes (`families.py`), and some of all others: a new one is attacked without a test
of its own.
"""

import asyncio
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import httpx
import pytest

import rowen.interfaces.web
from rowen import Rowen
from rowen.content.structured import FieldRule
from rowen.errors import ConfigurationError, RowenError
from rowen.harvest.parse_pool import Workers
from rowen.harvest.parse_worker import Prepared, Refused
from rowen.interfaces.mcp.server import _tools
from rowen.model.items import FactsWanted, Raw
from rowen.server.app import HttpServer, Interfaces, assemble
from rowen.settings import load
from tests.cli.conftest import Cli
from tests.conftest import ScratchDatabase
from tests.hostile.clock import at_most, costs_at_most, slowness
from tests.hostile.families import LANGUAGES, TOML, languages_of
from tests.hostile.operations import ANYWHERE
from tests.hostile.test_no_io_before_reach import options
from tests.hostile.watchdog import Steps, beats, steps

pytestmark = pytest.mark.unwatched  # each request is watched by itself, so that the one that blocks is named

BODY_CHARS = 200_000
QUERY_CHARS = 20_000
"""A request line may have 64 kB, and a family may be written with three characters for each."""

OTHERS = 2
"""So many families of languages that a field does not take are sent to it as well."""

ANSWER_S = 60.0
HEALTH_S = 5.0
"""By the clock: what a thread does beside the loop must let it answer, also where other tests have the machine."""

_ENDLESS = ("/events", "/live")


class Watched:
    """A server on loopback, a client, and what kept its event loop busy."""

    def __init__(self, rowen: Rowen, http: httpx.AsyncClient, interfaces: Interfaces, seen: Steps) -> None:
        self.rowen, self.http, self.interfaces, self.seen = rowen, http, interfaces, seen
        self.sent = 0
        self.bugs: list[str] = []

    async def send(self, label: str, request: Awaitable[Any]) -> Any:
        """Send one request; it is answered in time, and by no bug."""
        self.seen.during = label
        answer = await asyncio.wait_for(request, ANSWER_S)
        self.sent += 1
        if isinstance(answer, httpx.Response) and answer.status_code == 500 and "configuration" not in answer.text:
            self.bugs.append(f"{label}: {answer.text[:200]}")
        return answer


@asynccontextmanager
async def watched(database: ScratchDatabase, **how: Any) -> AsyncIterator[Watched]:
    """A real server, asked over sockets; at the end its loop was never blocked, and it has answered all the time."""
    import uvicorn

    settings = {"requests_per_minute": 1_000_000, "public_read": True, "probe": False, **how}
    async with database.open(**settings) as rowen:
        interfaces = assemble(rowen, trusts_loopback=True)
        server = HttpServer(uvicorn.Config(interfaces.asgi, port=0, log_config=None, access_log=False, lifespan="on"))
        task = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        base = f"http://127.0.0.1:{port}"
        try:
            async with httpx.AsyncClient(base_url=base, timeout=ANSWER_S) as http:
                await http.get("/healthz")
                with steps() as seen, answering(f"{base}/healthz") as late:
                    it = Watched(rowen, http, interfaces, seen)
                    async with beats(seen):
                        yield it
        finally:
            interfaces.close()
            server.should_exit = True
            await asyncio.wait_for(task, ANSWER_S)
    print(f"{it.sent} requests, longest step {seen.longest_s * 1000:.0f} ms, wait {seen.longest_wait_s * 1000:.0f} ms")
    assert seen.blocks == []
    assert it.bugs == []
    assert late == []


class answering:  # noqa: N801 (it is used as a context)
    """Ask over and over, from another thread, whether the server is well; lists the answers that came late."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._over = threading.Event()
        self._late: list[str] = []
        self._thread = threading.Thread(target=self._ask, daemon=True)

    def __enter__(self) -> list[str]:
        self._thread.start()
        return self._late

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _ask(self) -> None:
        with httpx.Client(timeout=ANSWER_S) as http:
            while not self._over.wait(0.05):
                began = time.monotonic()
                try:
                    status = http.get(self._url).status_code
                except httpx.HTTPError as problem:
                    if not self._over.is_set():
                        self._late.append(repr(problem))
                    continue
                took_s = time.monotonic() - began
                if (status != 200 or took_s > HEALTH_S * slowness()) and not self._over.is_set():
                    self._late.append(f"{status} after {took_s:.1f} s")


def texts(field: str, at: int, size: int) -> Iterator[tuple[str, str]]:
    """What is sent to a field: all families of its languages, and some others, which differ from field to field."""
    taken = languages_of(field)
    for name in taken:
        for family, made in LANGUAGES[name].families.items():
            yield f"{name}: {family}", made(size)
    others = [
        (f"{name}: {family}", made)
        for name, language in LANGUAGES.items()
        if name not in taken
        for family, made in language.families.items()
    ]
    for called, made in islice(cycle(others), at * OTHERS % len(others), at * OTHERS % len(others) + OTHERS):
        yield called, made(size)


def test_each_language_is_taken_by_a_field_that_there_is() -> None:
    fields = {name for _, name in options()} | set(re.findall(r'name="(\w+)"', _templates()))
    for tool in _tools("rowen").values():
        fields |= tool.input_schema.get("properties", {}).keys()
    fields |= {field.name for field in ANYWHERE}

    assert [name for name, language in LANGUAGES.items() if not any(map(language.fields.search, fields))] == []


def _templates() -> str:
    folder = Path(rowen.interfaces.web.__file__).parent / "templates"
    return "".join(path.read_text() for path in sorted(folder.rglob("*.html")))


# TOML


@pytest.mark.parametrize("family", TOML)
async def test_a_declaration_in_toml_keeps_nobody_waiting(database: ScratchDatabase, family: str) -> None:
    async with watched(database) as it:
        for size in (10_000, 400_000):
            request = it.http.post(
                "/api/v1/apply?dry_run=true",
                content=TOML[family](size),
                headers={"Content-Type": "application/toml"},
            )
            answer = await it.send(f"{family} of {size:,} characters", request)
            assert len(answer.content) < 2_000_000 + 2 * size


@pytest.mark.parametrize("family", TOML)
def test_a_file_of_settings_that_anybody_wrote_is_read_in_no_time(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rowen.toml").write_text(TOML[family](99_000))

    with costs_at_most(1.0), at_most(10.0 * slowness()), pytest.raises(ConfigurationError):
        load()


def test_a_command_in_a_strangers_folder_ends_at_once(cli: Cli) -> None:
    cli.write({"rowen.toml": TOML["dotted key"](99_000)})

    done = cli("sources")

    assert (done.code, "more than 16 parts" in done.err) == (2, True)


async def test_a_file_of_sources_that_is_too_large_is_refused(database: ScratchDatabase, tmp_path: Path) -> None:
    large = tmp_path / "portals.toml"
    large.write_text("# " + "x" * 2_000_000)
    async with database.open() as it:
        with pytest.raises(RowenError, match="more than 1,000,000 characters"):
            await it.sources.apply(large)


# Rules for fields

NESTED = ("//*[count(" * 20 + "//*" + ")>0]" * 20, ":has(" * 12 + "z" + ")" * 12)


@pytest.mark.parametrize("rule", NESTED)
async def test_a_rule_is_read_without_being_evaluated(rule: str) -> None:
    with costs_at_most(0.25), at_most(10.0 * slowness()):
        assert FieldRule.parse(f"{rule} | text").place == rule


@pytest.mark.parametrize("rule", NESTED)
async def test_a_costly_rule_costs_its_page_and_nobody_else(rule: str) -> None:
    """Also of a page that is so small that it is read without a process of its own."""
    page = b"<title>Hay</title>" + b"<div>" * 100
    facts = FactsWanted(rules=(("product.price", rule),))
    workers = Workers(1, time_limit_s=2.0)
    try:
        with steps() as seen:
            [refused] = await workers.prepare([Raw("https://h.example/", page, "a", "text/html", facts=facts)])
            [read] = await workers.prepare([Raw("https://h.example/b", page, "b", "text/html")])
    finally:
        await workers.close()

    assert isinstance(refused, Refused)
    assert "took longer" in refused.error
    assert isinstance(read, Prepared)
    assert seen.blocks == []
