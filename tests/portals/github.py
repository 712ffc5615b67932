"""A small GitHub on loopback: its REST API over a repository in memory, which can be changed at random."""

import asyncio
import hashlib
import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from rowen import Run
from tests.conftest import ScratchDatabase
from tests.portals.git import SUBMODULE, Tree

Files = dict[str, tuple[str, bytes]]


def sha1(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


def blob_sha(body: bytes) -> str:
    return sha1(b"blob %d\0" % len(body) + body)


def _sha_of(files: Files, salt: str = "") -> str:
    rows = [(path, mode, blob_sha(body)) for path, (mode, body) in sorted(files.items())]
    return sha1(json.dumps([salt, rows]).encode())


class Repository(Tree):
    """Branches and tags in memory; a commit is what a branch holds when it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.default = "main"
        self.refs: dict[str, Files] = {}
        self.history = ""
        self.empty = False
        self.most_rows = 10_000
        self.objects: dict[str, Files] = {}
        self.issues: list[dict[str, Any]] = []
        self.releases: list[dict[str, Any]] = []
        self.discussions: list[dict[str, Any]] = []

    def commit(self, ref: str) -> str | None:
        files = self.files if ref in ("HEAD", self.default) else self.refs.get(ref)
        if files is None:
            return ref if ref in self.objects else None
        sha = _sha_of(files, self.history)
        self.objects[sha] = dict(files)
        return sha

    def tree(self, sha: str, *, recursive: bool) -> dict[str, Any] | None:
        if sha not in self.objects:
            return None
        rows = list(self._rows(self.objects[sha], recursive=recursive))
        truncated = recursive and len(rows) > self.most_rows
        return {"sha": sha, "tree": rows[: self.most_rows] if truncated else rows, "truncated": truncated}

    def _rows(self, files: Files, *, recursive: bool) -> list[dict[str, Any]]:
        rows: dict[str, dict[str, Any]] = {}
        for path, (mode, body) in sorted(files.items()):
            for end in [match.start() for match in re.finditer("/", path)][: None if recursive else 1]:
                rows.setdefault(path[:end], self._folder(files, path[:end]))
            if recursive or "/" not in path:
                rows[path] = _row(path, mode, body)
        return list(rows.values())

    def _folder(self, files: Files, folder: str) -> dict[str, Any]:
        below = {path[len(folder) + 1 :]: file for path, file in files.items() if path.startswith(f"{folder}/")}
        sha = _sha_of(below)
        self.objects[sha] = below
        return {"path": folder, "mode": "040000", "type": "tree", "sha": sha}

    def blob(self, sha: str) -> bytes | None:
        bodies = (body for files in self.objects.values() for _, body in files.values())
        return next((body for body in bodies if blob_sha(body) == sha), None)


def _row(path: str, mode: str, body: bytes) -> dict[str, Any]:
    if mode == SUBMODULE:
        return {"path": path, "mode": mode, "type": "commit", "sha": body.decode()}
    return {"path": path, "mode": mode, "type": "blob", "sha": blob_sha(body), "size": len(body)}


class Portal:
    """Serves a repository as `me/it` from a thread of its own; keeps what it was asked."""

    kind = "github"

    def __init__(self) -> None:
        self.repository = Repository()
        self.asked: list[tuple[str, int]] = []
        self.headers: list[dict[str, str]] = []
        self.said: dict[str, Callable[[], web.Response]] = {}
        self.allowed: int | None = None
        self.folders: dict[str, Path] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = self._do(self._start())
        self.web = f"http://127.0.0.1:{self.port}"
        self.address = f"github:{self.web}/me/it"
        self.api = f"{self.web}/api/v3/repos/me/it"

    async def _start(self) -> int:
        self._runner = web.ServerRunner(web.Server(self._answer), shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        port: int = self._runner.addresses[0][1]
        return port

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def close(self) -> None:
        self._do(self._runner.cleanup())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def take(self) -> list[tuple[str, int]]:
        """What was asked since the last time: path and status."""
        asked, self.asked = self.asked, []
        return asked

    def change(self, chance: Random) -> None:
        repository = self.repository
        deed: Callable[[Random], None] = chance.choice(
            [*repository.deeds(), *repository.deeds(), self.push, self.move, self.cut, self.limit, self.fail]
        )
        deed(chance)

    def push(self, chance: Random) -> None:
        """Other history, same files."""
        self.repository.history = str(chance.random())

    def move(self, chance: Random) -> None:
        self.repository.default = chance.choice(["main", "master", "trunk"])

    def cut(self, chance: Random) -> None:
        self.repository.most_rows = chance.choice([1, 3, 10_000])

    def limit(self, chance: Random) -> None:
        self.allowed = chance.choice([None, 0, 3, 6])

    def fail(self, chance: Random) -> None:
        place = chance.choice(["/git/blobs/", "/git/trees/", "/commits/"])
        self.said = {
            place: lambda: web.Response(status=chance.choice([500, 200, 404, 403]), text="<html>Unicorn</html>")
        }

    def ail(self, chance: Random) -> None:
        """GitHub does not give out one of its blobs."""
        repository, self.allowed = self.repository, None
        before = dict(repository.files)
        while not (new := [path for path, file in repository.files.items() if file != before.get(path) and file[1]]):
            repository.create(chance)
        body = repository.files[new[0]][1]
        self.said = {blob_sha(body): lambda: web.Response(status=500, text="<html>Unicorn</html>")}

    def recover(self) -> None:
        self.said = {}

    def heal(self) -> None:
        self.repository.heal()
        self.said, self.allowed = {}, None

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        response = self._limited() or self._route(request)
        if (
            response.status == 200
            and (etag := response.headers.get("ETag"))
            and etag == request.headers.get("If-None-Match")
        ):
            response = web.Response(status=304, headers={"ETag": etag})
        self.asked.append((request.raw_path.removeprefix("/api/v3/repos/me/it/"), response.status))
        self.headers.append(dict(request.headers))
        return response

    def _limited(self) -> web.Response | None:
        if self.allowed is None:
            return None
        self.allowed -= 1
        if self.allowed >= 0:
            return None
        headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1900000000"}
        return web.Response(status=403, text='{"message": "API rate limit exceeded"}', headers=headers)

    def _route(self, request: web.BaseRequest) -> web.Response:
        path, _, query = request.raw_path.partition("?")
        for prefix, folder in self.folders.items():
            if path.startswith(prefix):
                file = folder / path.removeprefix(prefix)
                return web.Response(body=file.read_bytes()) if file.is_file() else _missing()
        for place, say in self.said.items():
            if place in request.raw_path:
                return say()
        if path == "/api/graphql":
            return _json({"data": {"repository": {"discussions": self._discussions()}}})
        if path.startswith("/raw/me/it/"):
            commit, _, rest = path.removeprefix("/raw/me/it/").partition("/")
            found = self.repository.objects.get(commit, {}).get(unquote(rest))
            return web.Response(body=found[1]) if found else _missing()
        what, _, rest = path.removeprefix("/api/v3/repos/me/it/").partition("/")
        return self._repository(request, f"{what}/{rest}".rstrip("/"), query)

    def _repository(self, request: web.BaseRequest, path: str, query: str) -> web.Response:
        repository = self.repository
        last = unquote(path.rpartition("/")[2])
        if path.startswith("commits/"):
            if repository.empty:
                return _json({"message": "Git Repository is empty."}, status=409)
            commit = repository.commit(last)
            return _sha(commit, request) if commit else _json({"message": "No commit found"}, status=422)
        if path.startswith("git/trees/"):
            tree = repository.tree(last, recursive="recursive=1" in query)
            return _json(tree) if tree else _missing()
        if path.startswith("git/blobs/"):
            body = repository.blob(last)
            return web.Response(body=body) if body is not None else _missing()
        if path in ("issues", "releases"):
            return self._page(getattr(repository, path), query)
        return _missing()

    def _page(self, rows: list[dict[str, Any]], query: str) -> web.Response:
        page = int(re.findall(r"\bpage=(\d+)", query)[-1])
        response = _json(rows[(page - 1) * 100 : page * 100])
        if len(rows) > page * 100:
            response.headers["Link"] = f'<{self.web}/next?page={page + 1}>; rel="next"'
        return response

    def _discussions(self) -> dict[str, Any]:
        return {"pageInfo": {"hasNextPage": False, "endCursor": None}, "nodes": self.repository.discussions}


def _json(value: Any, *, status: int = 200) -> web.Response:
    text = json.dumps(value)
    etag = {"ETag": f'W/"{sha1(text.encode())}"'}
    return web.Response(status=status, text=text, content_type="application/json", headers=etag)


def _sha(commit: str, request: web.BaseRequest) -> web.Response:
    assert request.headers["Accept"] == "application/vnd.github.sha"
    return web.Response(text=commit, headers={"ETag": f'"{commit}"'})


def _missing() -> web.Response:
    return web.Response(status=404, text='{"message": "Not Found"}', content_type="application/json")


async def sync(database: ScratchDatabase, portal: Portal, *, address: str = "", **options: Any) -> Run:
    """One run over the portal's repository, which the first one adds."""
    portal.take()
    settings = {"allow_addresses": "127.0.0.0/8", "fetch_tries": 1, "proxy": None}
    async with database.open(**settings) as r:
        if not await r.sources.list():
            await r.sources.add(address or portal.address, name="it", kind="github", options={"delay_s": 0, **options})
        return await r.sync("it")


def paths(database: ScratchDatabase) -> set[str]:
    return {record["path"] for (record,) in database.query("select record from item")}


def errors(database: ScratchDatabase) -> list[str]:
    return [error for (error,) in database.query("select error from quarantine order by url")]


def costs(run: Run) -> tuple[int, int]:
    return run.stats.requests, run.stats.not_modified
