"""Nothing that a caller names is opened, looked for or resolved before it is decided that the caller may name it.

Options and bodies are taken from their declarations, so that a new one is attacked without a test of its own. Each is
sent the names of files that there are and of those that there are not; whoever may not name files must not be able to
tell them apart.
"""

import asyncio
import json
import os
import pwd
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import httpx
import pytest
from mcp import Client

from rowen import Rowen
from rowen.connectors import registry
from rowen.errors import RefusedError, RowenError, SourceError, UsageError
from rowen.interfaces.mcp.server import AssistantServer, _tools
from rowen.model.access import Reach
from rowen.operations.runs import named
from tests.conftest import TEST_TIME_LIMIT_S, ScratchDatabase
from tests.server.interfaces import Interface, interface

pytestmark = pytest.mark.unwatched  # thousands of requests, which are not measured here

MARK = "rowen-marked"
SECRET = "hunter2-of-this-machine"
FAR = {"trusts_loopback": False, "client": "203.0.113.9", "requests_per_minute": 1_000_000, "workers": 0}
_WATCHED = {"open", "os.listdir", "os.scandir", "os.chdir", "os.remove", "os.rename", "os.mkdir", "glob.glob"}
_WATCHED |= {"socket.getaddrinfo", "socket.gethostbyname", "socket.connect", "subprocess.Popen", "os.posix_spawn"}


class Watch:
    """What this process opens, looks for or resolves that has the mark in its name."""

    def __init__(self) -> None:
        self.seen: list[str] | None = None

    def told(self, event: str, *arguments: Any) -> None:
        if self.seen is not None and MARK in repr(arguments).casefold():
            self.seen.append(f"{event} {arguments!r}")

    @contextmanager
    def watching(self) -> Iterator[list[str]]:
        self.seen = []
        try:
            yield self.seen
        finally:
            self.seen = None


WATCH = Watch()
# A hook stays for as long as the process lives; it does nothing but while a test watches.
sys.addaudithook(lambda event, arguments: WATCH.told(event, *arguments) if event in _WATCHED else None)


@pytest.fixture(autouse=True)
def _looking_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking for a file raises no audit event, so the calls are replaced by ones that tell."""

    def telling(module: Any, name: str) -> None:
        plain = getattr(module, name)

        def told(*arguments: Any, **how: Any) -> Any:
            WATCH.told(name, *arguments)
            return plain(*arguments, **how)

        monkeypatch.setattr(module, name, told)

    for name in ("stat", "lstat", "access", "readlink"):
        telling(os, name)
    telling(pwd, "getpwnam")


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    """Opening a pipe would stop the whole process: no limit of the event loop ends that, a signal does."""

    def stop(*_: object) -> None:
        raise AssertionError("the process waits for something that nobody will ever write")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(TEST_TIME_LIMIT_S - 10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


class Marked(NamedTuple):
    """Files that there are, with what they are not to tell; `missing` has a name of the same length."""

    there: Path
    missing: Path
    pipe: Path

    def spelled(self, path: Path) -> list[str]:
        """A path in the spellings by which a program may be led to open it."""
        return [
            f"file:{path}",
            f"FILE://{path}",
            f"\tFile:{path}",
            f"git+file://{path}",
            str(path),
            f"x:/../..{path}",
            f"HTTP:/../..{path}",
        ]


@pytest.fixture
def marked(tmp_path: Path) -> Marked:
    found = Marked(tmp_path / f"{MARK}.there", tmp_path / f"{MARK}.empty", tmp_path / f"{MARK}.pipes")
    found.there.write_text(SECRET)
    os.mkfifo(found.pipe)
    return found


NOWHERE = ("ssh://git@rowen-marked.invalid/x.git", "git+ssh://git@rowen-marked.invalid/x.git", "~rowen-marked/x")
HOST = "https://rowen-marked.invalid/x"


def test_the_watch_sees_what_it_is_for(marked: Marked) -> None:
    with WATCH.watching() as seen:
        assert marked.there.exists()
        marked.there.read_text()
        with pytest.raises(socket.gaierror):
            socket.getaddrinfo("rowen-marked.invalid", 80)
        os.path.expanduser("~rowen-marked")  # noqa: PTH111 (the call that is watched)

    assert {one.partition(" ")[0] for one in seen} == {"stat", "open", "socket.getaddrinfo", "getpwnam"}


# Options

ADDRESSES = {
    "announced": "https://127.0.0.1:9/feed",
    "files": "https://127.0.0.1:9/",
    "git": "https://127.0.0.1:9/x.git",
    "github": "https://github.com/rowen/rowen",
    "npm": "npm:rowen",
    "pypi": "pypi:rowen",
}


def options() -> list[tuple[str, str]]:
    """Each option of each kind, as they are declared."""
    return [(kind, name) for kind in registry.kinds() for name in sorted(registry.connector(kind).Options.model_fields)]


def address_of(kind: str) -> str:
    return ADDRESSES.get(kind, f"https://127.0.0.1:9/{kind}")


Send = Callable[[str, str, Any], Awaitable[httpx.Response]]


@asynccontextmanager
async def writer(database: ScratchDatabase) -> AsyncIterator[tuple[Interface, dict[str, str]]]:
    async with interface(database, **FAR) as it:
        yield it, await it.token("write")


def by_post(it: Interface, token: dict[str, str]) -> Send:
    async def send(kind: str, name: str, value: Any) -> httpx.Response:
        body = {"address": address_of(kind), "kind": kind, "name": "one", "options": {name: value}}
        answer = await it.http.post("/api/v1/sources", json=body, headers=token)
        if answer.status_code == 201:
            await it.http.delete("/api/v1/sources/one", headers=token)
        return answer

    return send


def by_patch(it: Interface, token: dict[str, str]) -> Send:
    async def send(kind: str, name: str, value: Any) -> httpx.Response:
        return await it.http.patch(f"/api/v1/sources/held-{kind}", json={"options": {name: value}}, headers=token)

    return send


def by_apply(it: Interface, token: dict[str, str]) -> Send:
    async def send(kind: str, name: str, value: Any) -> httpx.Response:
        entry = {"name": "one", "kind": kind, "url": address_of(kind), "options": {name: value}}
        return await it.http.post("/api/v1/apply?dry_run=true", json={"source": [entry]}, headers=token)

    return send


def by_toml(it: Interface, token: dict[str, str]) -> Send:
    async def send(kind: str, name: str, value: Any) -> httpx.Response:
        # A text of JSON is one of TOML as well.
        told = json.dumps(value) if isinstance(value, str) else '""'
        text = f'[[source]]\nname = "one"\nkind = "{kind}"\nurl = "{address_of(kind)}"\noptions.{name} = {told}\n'
        headers = {**token, "Content-Type": "application/toml"}
        return await it.http.post("/api/v1/apply?dry_run=true", content=text, headers=headers)

    return send


def by_form(it: Interface, token: dict[str, str]) -> Send:
    async def send(kind: str, name: str, value: Any) -> httpx.Response:
        told = value if isinstance(value, str) else json.dumps(value)
        form = {"address": address_of(kind), "kind": kind, "name": "one", "options": f"{name}={told}"}
        answer = await it.http.post("/add", data=form, headers={**token, "Accept": "application/json"})
        await it.http.delete("/api/v1/sources/one", headers=token)
        return answer

    return send


def by_edit_form(it: Interface, token: dict[str, str]) -> Send:
    async def send(kind: str, name: str, value: Any) -> httpx.Response:
        told = value if isinstance(value, str) else json.dumps(value)
        form = {"name": f"held-{kind}", "options": f"{name}={told}"}
        accept = {"Accept": "application/json"}
        return await it.http.post(f"/sources/held-{kind}/edit", data=form, headers={**token, **accept})

    return send


def by_preview(it: Interface, token: dict[str, str]) -> Send:
    async def send(kind: str, name: str, value: Any) -> httpx.Response:
        body = {"address": address_of(kind), "kind": kind, "options": {name: value}}
        # What is only a text to this option is previewed, which asks for the address and is not what is looked at here.
        if not str(value).strip().lower().startswith("file:"):
            return httpx.Response(200)
        return await it.http.post("/api/v1/preview", json=body, headers=token)

    return send


@pytest.mark.parametrize("way", [by_post, by_patch, by_apply, by_toml, by_form, by_edit_form, by_preview])
async def test_no_option_of_any_kind_is_opened_looked_for_or_resolved(
    database: ScratchDatabase, marked: Marked, way: Callable[[Interface, dict[str, str]], Send]
) -> None:
    async with writer(database) as (it, token):
        for kind in registry.kinds():
            address = str(marked.there.parent) if kind == "files" else address_of(kind)
            await it.rowen.sources.add(address, kind=kind, name=f"held-{kind}")
        send, told_apart, quoted, sent = way(it, token), [], [], 0
        there, missing = marked.spelled(marked.there), marked.spelled(marked.missing)
        others = (HOST, {HOST: HOST}, [f"file:{marked.there}"], *NOWHERE)
        with WATCH.watching() as seen:
            for at, (kind, name) in enumerate(options()):
                # To each option the first spelling, and the others in turn.
                for spelling in sorted({0, at % len(there)}):
                    found, lost = await send(kind, name, there[spelling]), await send(kind, name, missing[spelling])
                    told_apart += [(kind, name, spelling)] if alike(found, marked) != alike(lost, marked) else []
                    quoted += [(kind, name)] if SECRET in found.text else []
                    sent += 2
                for value in (f"file:{marked.pipe}", others[at % len(others)]):
                    await asyncio.wait_for(send(kind, name, value), 10)
                    sent += 1

    assert seen == []
    assert (told_apart, quoted) == ([], [])
    assert sent >= 4 * len(options())


def alike(answer: httpx.Response, marked: Marked) -> tuple[int, str]:
    """What an answer says, without the name that was sent, which it may repeat."""
    text = answer.text.replace(marked.there.name, "NAME").replace(marked.missing.name, "NAME")
    try:
        told = {name: value for name, value in json.loads(text).items() if name in ("code", "detail", "hint", "title")}
    except (ValueError, AttributeError):
        told = {}
    return answer.status_code, json.dumps(told)


async def test_no_option_is_opened_for_an_assistant(database: ScratchDatabase, marked: Marked) -> None:
    async with database.open(workers=0) as rowen, assistant(rowen) as asked:
        with WATCH.watching() as seen:
            for kind, name in options():
                for value in (f"file:{marked.there}", f"FILE:{marked.pipe}", str(marked.there)):
                    given = {"address": address_of(kind), "kind": kind, "name": "one", "options": {name: value}}
                    answer = await asyncio.wait_for(asked.call_tool("add_source", given), 10)
                    assert SECRET not in str(answer)
                    if not answer.is_error:
                        await rowen.sources.remove("one")

    assert seen == []


@asynccontextmanager
async def assistant(rowen: Rowen, **how: Any) -> AsyncIterator[Client]:
    async def opened() -> Rowen:
        return rowen

    server = AssistantServer(opened, **{"allow_writes": True, "local_files": False, **how})
    try:
        async with Client(server.protocol) as client:
            yield client
    finally:
        await server.close()


async def test_a_declaration_of_a_stranger_opens_nothing_without_trust(
    database: ScratchDatabase, marked: Marked
) -> None:
    """`rowen apply FILE` without `--trust`: it may name folders to read, and still no option reads a file."""
    async with database.open(workers=0) as rowen:
        with WATCH.watching() as seen:
            for kind, name in options():
                entry = {
                    "name": "one",
                    "kind": kind,
                    "url": address_of(kind),
                    "options": {name: f"file:{marked.there}"},
                }
                with pytest.raises(RowenError) as refused:
                    await rowen.sources.declare({"source": [entry]}, dry_run=True, reach=Reach.FILES)
                assert SECRET not in str(refused.value), (kind, name)

    assert seen == []


# Addresses, and all else that a request may carry


async def test_no_field_of_any_body_is_opened_looked_for_or_resolved(database: ScratchDatabase, marked: Marked) -> None:
    async with writer(database) as (it, token):
        await it.rowen.sources.add("https://127.0.0.1:9/", kind="web", name="guide")
        sent = 0
        with WATCH.watching() as seen:
            for method, path, body in bodies(it.interfaces.inner.openapi()):
                for changed in hostile(body, marked):
                    request = it.http.request(method, path, json=changed, headers=token)
                    answer = await asyncio.wait_for(request, 20)
                    assert SECRET not in answer.text, (method, path, changed)
                    sent += 1

    assert seen == []
    assert sent > 1000


async def test_no_parameter_of_any_operation_is_opened_looked_for_or_resolved(
    database: ScratchDatabase, marked: Marked
) -> None:
    async with writer(database) as (it, token):
        sent = 0
        with WATCH.watching() as seen:
            for method, path, query in parameters(it.interfaces.inner.openapi()):
                for value in (str(marked.there), f"FILE://{marked.there}", f"git+file://{marked.there}", *NOWHERE):
                    filled = path.replace("{}", quote(value, safe=""))
                    asked = "&".join(urlencode({name: value}) for name in query)
                    request = it.http.request(method, f"{filled}?{asked}", headers=token)
                    answer = await asyncio.wait_for(request, 20)
                    assert SECRET not in answer.text, (method, path)
                    sent += 1

    assert seen == []
    assert sent > 500


@pytest.mark.parametrize("profile", ["rowen", "docs-server"])
async def test_no_argument_of_any_tool_is_opened_looked_for_or_resolved(
    database: ScratchDatabase, marked: Marked, profile: Any
) -> None:
    values = [*marked.spelled(marked.there), f"file:{marked.pipe}", *NOWHERE]
    async with database.open(workers=0) as rowen, assistant(rowen, profile=profile) as asked:
        with WATCH.watching() as seen:
            for name, tool in _tools(profile).items():
                properties = tool.input_schema.get("properties", {})
                texts = [field for field, shape in properties.items() if "string" in json.dumps(shape)]
                numbers = {field: 1 for field in tool.input_schema.get("required", ()) if field not in texts}
                for value in values:
                    given = {field: value for field in texts if field in tool.input_schema.get("required", ())}
                    for field in texts:
                        call = asked.call_tool(name, {**numbers, **given, field: value})
                        assert SECRET not in str(await asyncio.wait_for(call, 20)), (name, field)

    assert seen == []


_ENDLESS = ("/events", "/live")  # they answer for as long as somebody listens


def bodies(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each operation that takes a body, with the example of it that the document shows."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if content is None or "hooks" in operation["tags"]:
                continue
            schema = resolved(document, content["schema"])
            yield method.upper(), filled(path, "guide"), {**blank(schema), **schema.get("example", {})}


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return resolved(document, document["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    parts = [resolved(document, one) for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    return parts[0] if parts else schema


def blank(schema: dict[str, Any]) -> dict[str, Any]:
    """Each property that may be a text, a list or an object, with a value of that kind."""
    kinds: dict[Any, Any] = {"string": "", "array": [], "object": {}}
    found = {}
    for name, one in schema.get("properties", {}).items():
        types = [one.get("type"), *(part.get("type") for part in one.get("anyOf", ()))]
        if fitting := [kinds[kind] for kind in types if kind in kinds]:
            found[name] = fitting[0]
    return found


def hostile(body: dict[str, Any], marked: Marked) -> Iterator[dict[str, Any]]:
    """A body with a hostile value in each place where a text may stand, one at a time; the rest is left out or kept."""
    example = {name: value for name, value in body.items() if value not in ("", [], {})}
    for value in (*marked.spelled(marked.there), f"file:{marked.pipe}", *NOWHERE):
        for name in body:
            for form in (value, [value], {value: value}, {"url": value, "name": "one", "kind": "web"}):
                yield {**example, name: form}
        yield {**example, **dict.fromkeys(body, value)}


def parameters(document: dict[str, Any]) -> Iterator[tuple[str, str, list[str]]]:
    """Each operation without a body, with the names of its parameters that are texts."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if "requestBody" in operation or path.endswith(_ENDLESS):
                continue
            query = [
                one["name"]
                for one in operation.get("parameters", ())
                if one["in"] == "query" and "string" in json.dumps(one["schema"])
            ]
            yield method.upper(), filled(path, "{}"), query


def filled(path: str, value: str) -> str:
    return "/".join(value if part.startswith("{") else part for part in path.split("/"))


async def test_an_administrator_still_names_files_and_secrets(database: ScratchDatabase, marked: Marked) -> None:
    """Else nothing above could fail."""
    async with interface(database, **FAR) as it:
        admin = await it.token("admin")
        with WATCH.watching() as seen:
            answer = await by_post(it, admin)("web", "shapes", f"file:{marked.there}")
            with pytest.raises(RefusedError):
                await it.rowen.extract(str(marked.there), "product", reach=Reach.OUTSIDE)

    assert any(one.startswith("open ") for one in seen)
    assert answer.status_code == 400
    assert SECRET not in answer.text


@pytest.mark.parametrize("word", ["$ref", "$dynamicRef", "$schema", "$id"])
@pytest.mark.parametrize("place", ["page", "enum", "const"])
async def test_a_schema_that_refers_to_a_file_is_answered_alike_whether_there_is_one(
    database: ScratchDatabase, marked: Marked, word: str, place: str
) -> None:
    """The library for schemas opens files by itself where it is let, which no hook of Python would see."""
    marked.there.write_text(json.dumps({"type": "string", "enum": [SECRET]}))
    async with writer(database) as (it, token):
        for path in ("/api/v1/schemas", "/api/v1/extractions"):
            answers = []
            for file in (marked.there, marked.missing):
                inner = {"type": "object", "properties": {place: {word: file.as_uri()}}}
                body = {"ref": "x@1.0.0", "definition": inner} if path.endswith("schemas") else {"schema": inner}
                body |= {} if path.endswith("schemas") else {"url": "https://127.0.0.1:9/", "dry_run": True}
                answers.append(await it.http.post(path, json=body, headers=token))
                await it.http.delete("/api/v1/schemas/x@1.0.0", headers=token)
            assert alike(answers[0], marked) == alike(answers[1], marked), path
            assert SECRET not in "".join(answer.text for answer in answers)


# Folders that are named like schemes

NAMED_LIKE_SCHEMES = ["HTTP:", "https:", "pkg:npm", "git+http:", "GIT+https:", "ckan:https:"]


@pytest.mark.parametrize("scheme", NAMED_LIKE_SCHEMES)
@pytest.mark.parametrize("reach", list(Reach))
async def test_what_begins_with_a_scheme_is_no_path_even_where_a_folder_has_its_name(
    database: ScratchDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, reach: Reach
) -> None:
    place = tmp_path / scheme / "127.0.0.1:9" / MARK
    (place / "objects").mkdir(parents=True)
    for name in ("HEAD", "notes.md"):
        (place / name).write_text(SECRET)
    monkeypatch.chdir(tmp_path)
    url = f"{scheme}//127.0.0.1:9/{MARK}"
    async with database.open(workers=0) as rowen:
        await rowen.sources.add(str(tmp_path), name="held")
        with WATCH.watching() as seen:
            for address in (f"{url}/notes.md", url, f"\t{url}"):
                for ask in (
                    rowen.extraction.read_page(address, reach=reach),
                    rowen.extract(address, "product", reach=reach),
                    rowen.extraction.estimate(address, "product", reach=reach),
                    rowen.sources.add(address, kind="files", reach=reach),
                    rowen.sync("held", only=[address]),
                ):
                    with suppress(RowenError):
                        assert SECRET not in repr(await ask)
                with suppress(RowenError):
                    added = await rowen.sources.add(address, name=f"added {address}", reach=reach)
                    assert added.kind != "files"
                    assert not added.url.startswith(("file:", "git+file:"))

    assert [one for one in seen if not one.startswith("socket.")] == []


async def test_a_file_of_that_name_is_named_as_a_path(
    database: ScratchDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes:today.md").write_text("# Hay\n\nHay dries for three days.\n")
    monkeypatch.chdir(tmp_path)
    async with database.open(workers=0) as rowen:
        with pytest.raises(UsageError) as bare:
            await rowen.sources.add("notes:today.md")
        page = await rowen.extraction.read_page("./notes:today.md")
        with pytest.raises(RefusedError):
            await rowen.extraction.read_page("./notes:today.md", reach=Reach.OUTSIDE)
        source = await rowen.sources.add("./notes:today.md")

    assert "./" in (bare.value.hint or "")
    assert "three days" in page.text
    assert source.url == (tmp_path / "notes:today.md").as_uri().replace("%3A", ":")


async def test_a_narrow_look_takes_no_address_for_a_path(database: ScratchDatabase, tmp_path: Path) -> None:
    (tmp_path / "hay.md").write_text("# Hay")
    async with database.open(workers=0) as rowen:
        source = await rowen.sources.add(str(tmp_path), name="notes")
        await rowen.sync("notes")
        run = await rowen.sync("notes", only=["https://nowhere.example/", "HTTPS://nowhere.example/x"])
        again = await rowen.sync("notes", only=[str(tmp_path / "hay.md")])

    assert named(source, "https://nowhere.example/") == "https://nowhere.example/"
    assert named(source, "HTTPS://nowhere.example/") == "https://nowhere.example/"
    assert named(source, str(tmp_path / "hay.md")) == (tmp_path / "hay.md").as_uri()
    assert (run.status, run.stats.skipped, again.stats.unchanged) == ("completed", 2, 1)


# Files that are none


@pytest.mark.parametrize("what", ["pipe", "folder", "device", "socket", "large", "binary"])
async def test_only_a_regular_file_is_read_for_an_option_or_a_page(
    database: ScratchDatabase, marked: Marked, what: str
) -> None:
    path = {"pipe": marked.pipe, "folder": marked.there.parent, "device": Path("/dev/zero")}.get(what, marked.missing)
    if what == "socket":
        with closing(socket.socket(socket.AF_UNIX)) as listening:
            listening.bind(os.fspath(path))
    if what == "large":
        with path.open("wb") as file:
            file.truncate(30 << 20)
    if what == "binary":
        path.write_bytes(b"\xff" * 10)
    async with database.open(workers=0) as rowen:
        with pytest.raises(UsageError, match="cannot be read") as option:
            await rowen.sources.add("https://127.0.0.1:9/", kind="web", options={"shapes": f"file:{path}"})
        if what != "binary":
            with pytest.raises((SourceError, RefusedError)):
                await rowen.extraction.read_page(str(path))
        held = await rowen.sources.list()

    assert str(path) in str(option.value)
    assert held == []


async def test_the_content_of_a_file_is_quoted_in_no_error(database: ScratchDatabase, marked: Marked) -> None:
    async with database.open(workers=0) as rowen:
        await rowen.sources.add("https://127.0.0.1:9/", kind="web", name="held")
        given = {"shapes": f"file:{marked.there}"}
        entry = {"name": "one", "kind": "web", "url": "https://127.0.0.1:9/x", "options": given}
        for ask in (
            rowen.sources.add("https://127.0.0.1:9/x", kind="web", options=given),
            rowen.sources.edit("held", options=given),
            rowen.sources.declare({"source": [entry]}, reach=Reach.ALL),
            rowen.sources.preview("https://127.0.0.1:9/x", kind="web", options=given),
        ):
            with pytest.raises(UsageError, match=str(marked.there)) as told:
                await ask
            assert SECRET not in f"{told.value} {told.value.hint}"
        await rowen.sources.add("ldes:https://127.0.0.1:9/y", name="stream", options={"shape": f"file:{marked.there}"})
        run = await rowen.sync("stream")

    assert run.status == "failed"
    assert str(marked.there) in str(run.error)
    assert SECRET not in str(run.error)
