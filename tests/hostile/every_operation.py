"""Send hostile values to every operation of the server; `python -m tests.hostile.every_operation --all` sends all.

Operations are read from their declarations (`operations.py`), values from the classes of `values.py`, so that a new
operation is attacked without a test of its own. A build sends each class to each operation once.
"""

import argparse
import asyncio
import logging
import os
import re
import socket
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote, unquote_plus

import aiohttp
import uvicorn
from starlette.routing import Route
from yarl import URL

from rowen import Rowen
from rowen.connectors import registry
from rowen.errors import RowenError
from rowen.interfaces.mcp import http_app
from rowen.server.app import HttpServer, Interfaces, assemble
from rowen.server.connections import OpenConnections, raise_file_limit
from rowen.server.logs import JsonLine
from tests.conftest import QUIET, ScratchDatabase, migrated, started
from tests.hostile.operations import (
    BROKEN,
    DOCUMENTATION_SERVER,
    Field,
    Operation,
    Request,
    World,
    address_of,
    option_operations,
    page_operations,
    rest_operations,
    tool_operations,
)
from tests.hostile.test_caller_input import answering
from tests.hostile.values import Canaries, classes, shaped, values_of
from tests.hostile.watchdog import Steps, beats, steps
from tests.imports import import_everything
from tests.seeds import drawn

__all__ = ["GOOD", "PARTS", "Attack", "attacked", "stored"]

ANSWER_S = 60.0
LEFT_OVER_S = 20.0
# A connection that is kept open has one task in the server.
_TASKS_OF_A_CLIENT = 10
MOST_ANSWER_CHARS = 2_000_000
GOOD, BROKEN_BODIES, REPEATED = "as it should be", "broken bodies", "repeated parameters"
"""What is sent beside the classes of values."""
SETTINGS = {
    "port": 0,
    # A proxy is named, so that nobody is taken for the user of this machine.
    "proxies": "10.0.0.0/8",
    "allow_addresses": "",
    "requests_per_minute": 10**9,
    "connections_per_address": 1_000,
    "push_key": "canary-of-the-push-key-1234567890",
    "mcp_writes": True,
    "probe": False,
}
# An answer may say that something outside failed. Nothing else may fail.
_OUTSIDE = {502, 503, 504}
_BUG = re.compile(r"Traceback \(most|File \"/|site-packages|unexpectedly|asyncio\.|\bobject at 0x")
_DATABASE = re.compile(
    r"psycopg|SQLSTATE|violates|duplicate key|LINE 1:|invalid byte sequence|invalid input syntax|out of range for type"
    r"|no valid Unicode|syntax error (?:at|in ts)|cannot cast|could not determine|stack depth|current transaction"
)
_TOOL = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
_THING = '{"@context": "https://schema.org", "@type": "Product", "name": "Rake"}'
_RAKE = f'<title>Rake</title><script type="application/ld+json">{_THING}</script><h1>Rake</h1><p>It rakes hay.</p>'


class Listener:
    """Listens on loopback, and remembers who came."""

    def __init__(self) -> None:
        self.came: list[str] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                connection, address = self._socket.accept()
                self.came.append(str(address))
                connection.close()

    def close(self) -> None:
        self._socket.close()


class Logged(logging.Handler):
    """All lines of the log, as the server writes them."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(JsonLine())
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


class Attack:
    """A server with something of each sort in it, and what was found out about it."""

    def __init__(
        self, rowen: Rowen, database: ScratchDatabase, folder: Path, interfaces: Interfaces, seen: Steps
    ) -> None:
        self.rowen, self.database, self.seen = rowen, database, seen
        self.listener, self.log = Listener(), Logged()
        self.world = World(str(folder), (folder / "rake.html").as_uri(), "https://192.0.2.1")
        # An administrator may read what is in files: that is what sources of folders are for.
        self.readable, self.canaries, self.secrets = _canaries(database, folder, self.listener.port)
        self.tokens: dict[str | None, dict[str, str]] = {None: {}}
        self.sent: Counter[str] = Counter()
        self.by_class: dict[str, set[str]] = {}
        self.answered: set[str] = set()
        self.findings: dict[str, str] = {}
        self.interfaces = interfaces
        self._folder = folder
        self.base, self.tasks_before = "", 0
        self.http: aiohttp.ClientSession | None = None

    async def settle(self) -> None:
        """Have something of each sort, under the names that lead to it; what is there already stays."""
        self._folder.mkdir(exist_ok=True)
        (self._folder / "rake.html").write_text(_RAKE)
        (self._folder / "hay.md").write_text("# Hay\n\nCut it wet.\n")
        if await self._add(self.rowen.sources.add(str(self._folder), name="guide")):
            await self._add(self.rowen.schemas.add("tool@1.0.0", _TOOL))
            await self._add(self.rowen.extraction.attach("guide", "tool@1.0.0", only_urls=["*rake.html"]))
            await self.rowen.sync("guide")
        await self._add(self.rowen.sources.add("https://192.0.2.1/", kind="web", name="site"))
        await self._add(self.rowen.schemas.add("tool@1.0.0", _TOOL))
        await self._add(self.rowen.extraction.attach("guide", "tool@1.0.0", only_urls=["*rake.html"]))
        await self._add(self.rowen.searches.save("dry hay", "hay"))
        await self._add(self.rowen.webhooks.add("builds", "https://192.0.2.1/hook", secret="env:HOOK_SECRET"))
        await self._add(self.rowen.access.add_token("dashboard"))
        await self._add(self.rowen.rdf.add_endpoint("guide", "https://192.0.2.1/sparql"))

    async def hold_each_kind(self) -> None:
        """Have a source of each kind, whose options can be changed."""
        for kind in registry.kinds():
            address = self.world.folder if kind == "files" else address_of(kind)
            await self._add(self.rowen.sources.add(address, kind=kind, name=f"held-{kind}"))

    async def _add(self, made: Any) -> bool:
        try:
            await made
        except RowenError:
            return False
        return True

    async def authorize(self) -> None:
        """Make a token of each scope."""
        for scope in ("read", "write", "admin"):
            made = await self.rowen.access.add_token(f"attack-{scope}", scope=scope)
            self.tokens[scope] = {"Authorization": f"Bearer {made.secret}"}
            self.secrets.append(made.secret)

    # What is sent

    async def send_everything(
        self,
        operations: Iterable[Operation],
        scope: str | None,
        *,
        everything: bool = False,
        most: int | None = None,
    ) -> None:
        """Send each class of values, or `most` of them, to each operation, from a caller of this scope."""
        for operation in operations:
            for called, request in islice(self._requests(operation, everything=everything), most):
                status = await self.send(operation, called, request, scope)
                if called == GOOD and status < 400:
                    self.answered.add(operation.label)
            if operation.scope not in (None, "read") and operation.writes != "option":
                await self.settle()

    def _requests(self, operation: Operation, *, everything: bool) -> Iterator[tuple[str, Request]]:
        random = Random(drawn(f"every operation {operation.label}"))
        if operation.writes != "option":
            yield GOOD, operation.request({})
        fields = [one for one in operation.fields if one.place != "whole"]
        random.shuffle(fields)
        names = list(classes())
        random.shuffle(names)
        for at, name in enumerate(names):
            chosen = fields if everything else fields[at % len(fields) :][:1] if fields else []
            for one in chosen:
                values = values_of(name, one.name, self.canaries)
                for value in values if everything else [random.choice(values)]:
                    yield f"{name} in {one.name}", operation.request({one: self._shaped(one, value, random)})
        for one in [] if everything else fields[len(list(classes())) :]:
            name = random.choice(list(classes()))
            value = random.choice(values_of(name, one.name, self.canaries))
            yield f"{name} in {one.name}", operation.request({one: self._shaped(one, value, random)})
        if any(one.place == "whole" for one in operation.fields):
            for body in BROKEN if everything else random.sample(BROKEN, 2):
                yield BROKEN_BODIES, operation.request({Field("whole", ""): body})
        if any(one.place == "query" for one in operation.fields):
            filled = {one: "a" for one in operation.fields if one.place == "query"}
            yield REPEATED, operation.request(filled, repeated=True)

    def _shaped(self, one: Field, value: Any, random: Random) -> Any:
        return shaped(value, random) if one.place in ("body", "option") else value

    async def refuse(self, operations: Iterable[Operation], scope: str | None) -> None:
        """Send each operation from somebody who may not call it; it says so, whatever the values are."""
        for operation in operations:
            random = Random(drawn(f"refused {scope} {operation.label}"))
            for name in (GOOD, *random.sample(list(classes()), 2)):
                one = random.choice([*operation.fields, None])
                changed = {one: random.choice(values_of(name, one.name, self.canaries))} if one and name != GOOD else {}
                status = await self.send(operation, name, operation.request(changed), scope)
                if status not in (401, 403) and not (status in (400, 404, 405, 413, 414) and changed):
                    self.found(operation, name, f"{scope} is answered with {status}")

    async def send(self, operation: Operation, called: str, request: Request, scope: str | None) -> int:
        """Send one request, and look at its answer."""
        assert self.http is not None
        self.seen.during = f"{operation.label}: {called}"
        url = URL(self.base + request.target, encoded=True)
        headers = {**request.headers, **self.tokens[scope]}
        asked = self.http.request(
            request.method, url, data=request.content or None, headers=headers, allow_redirects=False
        )
        lines = len(self.log.lines)
        try:
            async with asyncio.timeout(ANSWER_S), asked as answer:
                body = b"" if operation.endless and answer.status == 200 else await answer.read()
                text, status, kind = body.decode("utf-8", "replace"), answer.status, answer.content_type
                head, leads_to = str(answer.headers), answer.headers.get("Location", "")
        except (TimeoutError, aiohttp.ClientError) as problem:
            self.found(operation, called, f"no answer: {problem!r}")
            return 0
        self.sent[operation.label] += 1
        self.by_class.setdefault(operation.label, set()).add(called.partition(" in ")[0])
        written = unquote(request.target) + unquote_plus(request.content.decode("utf-8", "replace"))
        text = head + text[:MOST_ANSWER_CHARS]
        secrets = [one for one in self.secrets if not (scope == "admin" and one in self.readable)]
        for problem in self._judge(status, kind, text, written, self.log.lines[lines:], secrets):
            self.found(operation, called, f"{problem}: {status} {text[:300]}", request)
        if operation.writes == "tool" and ('"isError":true' in text or '"error":{' in text):
            return 403 if '"refused"' in text else 400
        # Whoever asks for a page is led to where they can log in.
        if status == 303 and leads_to.startswith("/login?next="):
            return 401
        return status

    def _judge(
        self, status: int, kind: str, text: str, written: str, lines: list[str], secrets: list[str]
    ) -> Iterator[str]:
        if status >= 500 and not (status in _OUTSIDE or '"code":"configuration"' in text.replace(" ", "")):
            yield "a bug"
        logged = "\n".join(lines)
        if '"trace"' in logged:
            yield f"a traceback in the log {logged[-1500:]}"
        for pattern, said in ((_BUG, "words of the program"), (_DATABASE, "words of the database")):
            if (
                (found := pattern.search(text))
                and (status >= 400 or '"isError":true' in text)
                and found[0] not in written
            ):
                yield f"{said} ({found[0]!r})"
        for secret in secrets:
            if secret in text or secret in logged:
                yield f"the secret {secret!r}"
        if "root:x:0:0" in text:
            yield "a file of the machine"
        for place in (str(self.database.home), str(Path(__file__).parents[2]), sys.prefix):
            if place in text and place not in written:
                yield f"a path of the machine ({place})"
        if "html" in kind and re.search(r"<script>taken|<img src=x onerror|href=.?javascript:", text):
            yield "markup of the caller"

    def found(self, operation: Operation, called: str, problem: str, request: Request | None = None) -> None:
        """Note a finding, once for each operation and sort."""
        told = f"\n  {request.method} {request.target[:300]} {request.content[:200]!r}" if request else ""
        self.findings.setdefault(f"{operation.label} {problem[:40]}", f"{operation.label}: {called}: {problem}{told}")

    def figures(self) -> str:
        """What was done, in a line."""
        return (
            f"{sum(self.sent.values())} values to {len(self.sent)} operations, longest step of the event loop "
            f"{self.seen.longest_s * 1000:.0f} ms, longest wait of it {self.seen.longest_wait_s * 1000:.0f} ms, "
            f"{len(self.findings)} findings"
        )


def _canaries(database: ScratchDatabase, folder: Path, port: int) -> tuple[set[str], Canaries, list[str]]:
    secrets = {name: f"canary-of-{name}-{os.urandom(6).hex()}" for name in ("file", "data", "variable")}
    outside, inside = folder.parent / "canary.txt", database.home / "canary.txt"
    database.home.mkdir(parents=True, exist_ok=True)
    outside.write_text(secrets["file"])
    inside.write_text(secrets["data"])
    os.environ["ROWEN_TEST_CANARY"] = secrets["variable"]
    os.environ["HOOK_SECRET"] = "canary-of-the-hook-1234567890123456"
    known = [*secrets.values(), os.environ["HOOK_SECRET"], str(SETTINGS["push_key"])]
    return {secrets["file"], secrets["data"]}, Canaries(str(outside), str(inside), "ROWEN_TEST_CANARY", port), known


class _Connects:
    """Addresses that this process connects to, while somebody looks."""

    def __init__(self) -> None:
        self.seen: list[str] | None = None

    def told(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.seen is not None and event == "socket.connect":
            self.seen.append(str(arguments[1]))


_CONNECTS = _Connects()
# A hook stays for as long as the process lives; it does nothing but while somebody looks.
sys.addaudithook(_CONNECTS.told)


@contextmanager
def _cut_off() -> Iterator[list[str]]:
    """Names lead nowhere, and each connection that is made is seen."""
    plain = socket.getaddrinfo

    def resolving(host: Any, *arguments: Any, **how: Any) -> Any:
        how["flags"] = how.get("flags", 0) | socket.AI_NUMERICHOST
        return plain(host, *arguments[:1], **how) if not arguments[1:] else plain(host, *_numeric(arguments))

    socket.getaddrinfo = resolving  # type: ignore[assignment]
    _CONNECTS.seen = []
    try:
        yield _CONNECTS.seen
    finally:
        _CONNECTS.seen = None
        socket.getaddrinfo = plain


def _numeric(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    filled = (*arguments, *(None, 0, 0, 0, 0)[len(arguments) :])
    return (*filled[:4], filled[4] | socket.AI_NUMERICHOST)


@asynccontextmanager
async def attacked(database: ScratchDatabase, folder: Path) -> AsyncIterator[Attack]:
    """A real server on loopback with all its layers; at the end it was led nowhere, and holds nothing back."""
    async with database.open(**SETTINGS) as rowen:
        interfaces = assemble(rowen, trusts_loopback=False)
        interfaces.inner.openapi()
        with steps() as seen, _cut_off() as connects:
            it = Attack(rowen, database, folder, interfaces, seen)
            logging.getLogger().addHandler(it.log)
            try:
                async with _serving(it):
                    with answering(f"{it.base}/healthz") as late:
                        async with beats(seen):
                            yield it
                    await _look_at_what_is_left(it)
            finally:
                logging.getLogger().removeHandler(it.log)
                it.listener.close()
            own = it.base.rpartition(":")[2]
            led = [one for one in connects if own not in one]
            it.findings |= {"late": f"/healthz was late: {late[:5]}"} if late else {}
            it.findings |= {"blocks": "; ".join(seen.blocks)} if seen.blocks else {}
            it.findings |= (
                {"connections": f"connected to {led[:5]}, {it.listener.came[:5]}"} if led + it.listener.came else {}
            )


async def _look_at_what_is_left(it: Attack) -> None:
    """The server still answers, and neither tasks nor transactions are left over."""
    assert it.http is not None
    async with it.http.get(f"{it.base}/api/v1/sources", headers=it.tokens["read"]) as answer:
        it.findings |= {} if answer.status == 200 else {"end": f"the server answers {answer.status} at the end"}
    with suppress(TimeoutError):
        async with asyncio.timeout(LEFT_OVER_S):
            while (left := len(asyncio.all_tasks()) - it.tasks_before) > _TASKS_OF_A_CLIENT:
                await asyncio.sleep(0.05)
    it.findings |= {"tasks": f"{left} tasks are left over"} if left > _TASKS_OF_A_CLIENT else {}
    open_ones = "select query from pg_stat_activity where datname = current_database() and state like 'idle in tr%'"
    it.findings |= {"transactions": f"left open: {rows}"} if (rows := it.database.query(open_ones)) else {}


@asynccontextmanager
async def _serving(it: Attack) -> AsyncIterator[None]:
    """The server as `rowen serve` starts it, with the tools of the documentation server beside its own."""
    settings = it.rowen.settings
    documentation = http_app(it.rowen, allow_writes=True, profile="docs-server")
    it.interfaces.inner.router.routes.append(Route(DOCUMENTATION_SERVER, documentation, methods=["POST"]))
    connections = OpenConnections(settings, files=raise_file_limit())
    config = uvicorn.Config(it.interfaces.asgi, port=0, http=connections.protocol, log_config=None, access_log=False)  # type: ignore[arg-type]
    server = HttpServer(config)
    task = asyncio.create_task(server.serve())
    try:
        async with asyncio.timeout(ANSWER_S):
            while not server.started:
                await asyncio.sleep(0.01)
        it.base = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        await it.authorize()
        await it.settle()
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
            it.http, it.tasks_before = http, len(asyncio.all_tasks())
            yield
    finally:
        await documentation.close()
        it.interfaces.close()
        server.should_exit = True
        await asyncio.wait_for(task, ANSWER_S)


# Each of these changes by itself, or says who asked.
_UNCOMPARED = {"audit_log", "access_session", "idempotent_answer", "worker"}


def stored(database: ScratchDatabase) -> dict[str, list[str]]:
    """All rows of all tables, but for when a token was last used."""
    tables = database.query("select tablename from pg_tables where schemaname = 'rowen' order by 1")
    found = {}
    for (name,) in tables:
        if name not in _UNCOMPARED:
            rows = database.query(f"select (to_jsonb(it) - 'last_used_at')::text from {name} it")
            found[name] = sorted(row for (row,) in rows)
    return found


PARTS: dict[str, Callable[[Attack], list[Operation]]] = {
    "REST": lambda it: rest_operations(it.interfaces.inner.openapi(), it.world),
    "pages": lambda it: page_operations(it.interfaces.inner, it.world),
    "tools": lambda it: tool_operations(it.world),
    "options": lambda it: option_operations(it.world),
}


async def _send_all(database: ScratchDatabase, folder: Path) -> int:
    """Send each value to each field of each operation, and print what was found; returns how much that was."""
    findings = 0
    for name, operations in PARTS.items():
        async with attacked(database, folder) as it:
            await it.hold_each_kind()
            for operation in operations(it):
                await it.send_everything([operation], operation.scope, everything=True)
                print(f"{operation.label}: {it.sent[operation.label]} values, {len(it.findings)} findings", flush=True)
        print(f"{name}: {it.figures()}", *it.findings.values(), sep="\n", flush=True)
        findings += len(it.findings)
    return findings


def main() -> int:
    """Attack a server of its own, for an hour or so; the exit status is 1 if something was found."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--all", action="store_true", required=True, help="send each value to each field")
    parser.parse_args()
    os.environ.update(QUIET)
    import_everything()
    with started() as server, TemporaryDirectory(prefix="rowen-attack-") as folder:
        database = ScratchDatabase(server.conninfo(migrated(server)), Path(folder) / "home")
        return 1 if asyncio.run(_send_all(database, Path(folder) / "guide")) else 0


if __name__ == "__main__":
    raise SystemExit(main())
