"""Models by their name on a hub: fetched whole or not at all, checked, and used by that name."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from rowen import Complete, ConfigurationError, Fetched, FetchedModel, FetchError, NotFoundError, UsageError
from rowen.enrich import hub as hub_module
from rowen.enrich.base import EmbedderTools, Spec
from rowen.enrich.embedders.local import Local
from rowen.enrich.hub import fetch_model
from rowen.errors import AddressRefusedError, BadAnswerError, BodyTooLargeError, RowenError, TruncatedError
from rowen.net.client import Client
from rowen.settings import Settings, load
from tests.cli.conftest import Cli
from tests.conftest import ScratchDatabase
from tests.enrich.tiny_model import TOKENIZER, VECTORS, WORDS, onnx_model, write_model
from tests.portals.scripted import Scripted, page, shows
from tests.portals.site import Page, Site

COMMIT = "c0ffee" * 6 + "c0ff"
QUANTISED = "onnx/model_quantized.onnx"


class Hub(Site):
    """A hub with one model, tiny; its large files lie elsewhere, and their checksums are told on the way there."""

    def __init__(self) -> None:
        super().__init__()
        self.offer("tokenizer.json", json.dumps(TOKENIZER).encode())
        self.offer("config.json", b"{}")
        self.offer("1_Pooling/config.json", b'{"pooling_mode_cls_token": true}')
        self.offer_large(QUANTISED, onnx_model())

    def offer(self, path: str, body: bytes, **more: Any) -> None:
        """A file at the default branch, and at its commit."""
        headers = {"X-Repo-Commit": COMMIT, **more.pop("headers", {})}
        for revision in ("main", COMMIT):
            self.pages[f"/hay/tiny/resolve/{revision}/{path}"] = Page(body, headers=headers, **more)

    def offer_large(self, path: str, body: bytes, *, told: str | None = None) -> None:
        """A file to which the hub redirects."""
        self.pages[f"/large/{path}"] = Page(body)
        checksum = told or hashlib.sha256(body).hexdigest()
        self.offer(path, b"", status=302, headers={"Location": f"/large/{path}", "X-Linked-ETag": f'"{checksum}"'})

    def withdraw(self, path: str) -> None:
        for revision in ("main", COMMIT):
            del self.pages[f"/hay/tiny/resolve/{revision}/{path}"]


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub()
    yield hub
    hub.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def settings(hub: Hub, home: Path, **more: Any) -> Settings:
    quick = {"host_delay_s": 0, "fetch_tries": 1, "allow_addresses": "127.0.0.0/8"}
    return Settings(home=home, **{"model_hub": hub.url, **quick, **more})


async def fetch(hub: Hub, home: Path, name: str = "hay/tiny", **more: Any) -> FetchedModel:
    given = settings(hub, home, **more)
    async with Client(given) as client:
        return await fetch_model(name, client, given)


async def no_client() -> None:
    raise AssertionError("a fetched model needs no network")


def local(model: str, home: Path) -> Local:
    return Local(Spec("local", model), EmbedderTools(no_client, Settings(home=home)))  # type: ignore[arg-type]


def left_in(home: Path) -> list[str]:
    return sorted(str(path.relative_to(home / "models")) for path in (home / "models").rglob("*"))


async def test_a_model_is_fetched_with_its_checksums_and_used_by_its_name(hub: Hub, home: Path) -> None:
    fetched = await fetch(hub, home)
    embedder = local("hay/tiny", home)
    [vector] = (await embedder.embed(["hay"])).vectors
    await embedder.close()

    folder = home / "models/hay/tiny"
    manifest = json.loads((folder / "rowen-model.json").read_text())
    assert set(fetched.files) == {"tokenizer.json", "config.json", "1_Pooling/config.json", QUANTISED}
    assert fetched.files[QUANTISED] == hashlib.sha256(onnx_model()).hexdigest()
    assert manifest == {"name": "hay/tiny", "hub": hub.url, "revision": COMMIT, "files": fetched.files}
    assert (fetched.folder, fetched.revision) == (str(folder), COMMIT)
    assert fetched.size_bytes == sum((folder / path).stat().st_size for path in fetched.files)
    assert vector.tolist() == pytest.approx(VECTORS[WORDS.index("[CLS]")])
    assert (embedder.spec.model, embedder.name.split(":")[0]) == ("hay/tiny", "tiny")
    # The tokenizer, seven declarations of which two are there, and the weights behind a redirect.
    assert (len(hub.log), len(hub.bodies())) == (10, 4)
    assert not any("Authorization" in asked.headers or "Cookie" in asked.headers for asked in hub.log)


async def test_all_files_are_of_the_commit_of_the_first_one(hub: Hub, home: Path) -> None:
    await fetch(hub, home)

    assert hub.log[0].path == "/hay/tiny/resolve/main/tokenizer.json"
    assert all(f"/resolve/{COMMIT}/" in asked.path for asked in hub.log[1:-1])


async def test_a_revision_can_be_named(hub: Hub, home: Path) -> None:
    fetched = await fetch(hub, home, f"hay/tiny@{COMMIT}")

    assert fetched.revision == COMMIT
    assert not any("/main/" in asked.path for asked in hub.log)


async def test_without_quantised_weights_others_are_taken(hub: Hub, home: Path) -> None:
    hub.withdraw(QUANTISED)
    hub.offer("model.onnx", onnx_model())
    hub.offer("onnx/model.onnx", onnx_model())

    assert "onnx/model.onnx" in (await fetch(hub, home)).files


async def test_weights_beside_the_graph_and_pooling_elsewhere_are_fetched(hub: Hub, home: Path) -> None:
    hub.offer(QUANTISED, onnx_model(location="weights.bin"))
    hub.offer("onnx/weights.bin", b"\0" * 400)
    hub.offer("modules.json", b'[{"type": "a.Pooling", "path": "2_Pooling"}]')
    hub.offer("2_Pooling/config.json", b'{"pooling_mode_max_tokens": true}')

    assert {"onnx/weights.bin", "2_Pooling/config.json"} <= (await fetch(hub, home)).files.keys()


async def test_weights_of_another_checksum_than_the_hub_tells_are_refused(hub: Hub, home: Path) -> None:
    hub.offer_large(QUANTISED, onnx_model(), told="0" * 64)

    with pytest.raises(BadAnswerError, match="not the checksum that the hub tells"):
        await fetch(hub, home)
    assert left_in(home) == []


@pytest.mark.parametrize(
    ("path", "told"), [(QUANTISED, "no weights in ONNX: .*model.onnx"), ("tokenizer.json", "json")]
)
async def test_a_model_without_weights_or_tokenizer_is_told_with_what_was_asked_for(
    hub: Hub, home: Path, path: str, told: str
) -> None:
    hub.withdraw(path)

    with pytest.raises(NotFoundError, match=told):
        await fetch(hub, home)
    assert left_in(home) == []


@pytest.mark.parametrize(
    "name",
    ["../tiny", "hay/..", "hay/.tiny", "hay/tiny/../x", "tiny", "/hay/tiny", "hay/tiny@../x", "hay/t?x", "a/b\n"],
)
async def test_a_name_that_is_none_is_refused_before_anything_is_asked(hub: Hub, home: Path, name: str) -> None:
    with pytest.raises(UsageError, match="no name of a model"):
        await fetch(hub, home, name)

    assert (hub.log, home.exists()) == ([], False)


async def test_an_interrupted_download_leaves_what_was_there_before(hub: Hub, home: Path) -> None:
    await fetch(hub, home)
    before = left_in(home)

    async def broken(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.close()
        return response

    hub.offer(QUANTISED, b"", handler=broken)
    with pytest.raises(TruncatedError):
        await fetch(hub, home)

    assert left_in(home) == before
    assert local("hay/tiny", home).name


async def test_a_download_that_is_cancelled_leaves_nothing(hub: Hub, home: Path) -> None:
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def endless(request: web.Request) -> web.StreamResponse:
        loop.call_soon_threadsafe(begun.set)
        await asyncio.Event().wait()
        raise AssertionError

    hub.offer(QUANTISED, b"", handler=endless)
    task = asyncio.create_task(fetch(hub, home))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert left_in(home) == []


async def test_a_later_fetch_takes_the_place_of_the_copy(hub: Hub, home: Path) -> None:
    await fetch(hub, home)
    first = local("hay/tiny", home).name
    hub.offer("1_Pooling/config.json", b'{"pooling_mode_mean_tokens": true}')
    await fetch(hub, home)

    assert local("hay/tiny", home).name != first
    assert [path.name for path in (home / "models").iterdir()] == ["hay"]


async def test_what_cannot_be_used_here_is_not_kept(hub: Hub, home: Path) -> None:
    hub.offer("modules.json", b'[{"type": "a.Dense"}]')

    with pytest.raises(ConfigurationError, match="a module Dense, which is not supported"):
        await fetch(hub, home)
    assert left_in(home) == []


async def test_a_file_that_is_too_large_is_not_kept(hub: Hub, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "LARGEST_WEIGHTS", 100)

    with pytest.raises(BodyTooLargeError, match=QUANTISED):
        await fetch(hub, home)
    assert left_in(home) == []


async def test_a_hub_that_wants_a_login_is_told_as_such(hub: Hub, home: Path) -> None:
    hub.default = Page(b"", status=401)
    hub.withdraw("tokenizer.json")

    with pytest.raises(FetchError, match="status 401") as told:
        await fetch(hub, home)
    assert "not public" in str(told.value.hint)


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({"model_hub": None}, ConfigurationError, "No model hub is named"),
        ({"model_hub": "http://me:secret@127.0.0.1"}, ConfigurationError, "contains a password"),
        ({"allow_addresses": ""}, AddressRefusedError, "not a public address"),
    ],
)
async def test_the_hub_is_one_that_the_user_names_and_may_reach(
    hub: Hub, home: Path, given: dict[str, Any], error: type[RowenError], told: str
) -> None:
    with pytest.raises(error, match=told):
        await fetch(hub, home, **given)

    assert hub.log == []


def test_a_file_in_the_current_folder_names_no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rowen.toml").write_text('model_hub = "https://models.example.org"\n')
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ConfigurationError, match="'model_hub' cannot be set in the current folder"):
        load()


@pytest.mark.parametrize(
    ("name", "body", "told"),
    [
        ("1_Pooling/config.json", b"{}", "has another 1_Pooling/config.json than was fetched"),
        ("model.onnx", b"x", "has a model.onnx that was not fetched"),
        ("config.json", None, "lacks config.json, which was fetched"),
    ],
)
async def test_a_changed_file_is_an_error_when_the_model_is_loaded(
    hub: Hub, home: Path, name: str, body: bytes | None, told: str
) -> None:
    path = Path((await fetch(hub, home)).folder, name)
    if body is None:
        path.unlink()
    else:
        path.write_bytes(body)

    with pytest.raises(ConfigurationError, match=told) as problem:
        local("hay/tiny", home)
    assert "`rowen embed --fetch hay/tiny` fetches it again" in str(problem.value.hint)


async def test_what_was_fetched_comes_before_a_folder_of_the_same_name(
    hub: Hub, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = write_model(tmp_path / "hay/tiny")
    assert local("hay/tiny", home).spec.model == str(folder)
    await fetch(hub, home)

    assert local("hay/tiny", home).spec.model == "hay/tiny"
    assert local("./hay/tiny", home).spec.model == str(folder)


def test_a_name_that_was_not_fetched_is_an_error_that_names_the_command(home: Path) -> None:
    with pytest.raises(ConfigurationError, match="nor a fetched model hay/tiny") as told:
        local("hay/tiny", home)

    assert "`rowen embed --fetch hay/tiny`" in str(told.value.hint)


async def test_a_house_fetches_embeds_and_remembers_the_name(
    hub: Hub, database: ScratchDatabase, kinds: Callable[[Any], None]
) -> None:
    kinds(Scripted)
    shows(Fetched(page(1, "Hay, hay.", title="A")), Fetched(page(2, "Goats.", title="B")), Complete())
    async with database.open(model_hub=hub.url) as r:
        await r.embeddings.fetch_model("hay/tiny")
    async with database.open(embedder="local", embedder_model="hay/tiny") as r:
        run = await r.sync("scripted:one")
    async with database.open(embedder=None) as r:
        answer = await r.search("goat")

    assert (run.stats.embedded, run.stats.embeddings_pending) == (4, 0)
    assert answer[0].vector_rank is not None
    assert database.query("select model from embedding_model") == [("hay/tiny",)]


def test_the_command_says_what_it_fetched_and_how_to_use_it(
    hub: Hub, database: ScratchDatabase, tmp_path: Path
) -> None:
    cli = Cli(tmp_path, {"ROWEN_DATABASE_URL": database.conninfo, "ROWEN_HOME": str(database.home)})
    there = {"ROWEN_MODEL_HUB": hub.url, "ROWEN_ALLOW_ADDRESSES": "127.0.0.0/8", "ROWEN_HOST_DELAY_S": "0"}
    nowhere = cli("embed", "--fetch", "hay/tiny")
    done = cli("embed", "--fetch", "hay/tiny", **there)

    assert (nowhere.code, "ROWEN_MODEL_HUB" in nowhere.err) == (2, True)
    assert done.code == 0, done.err
    assert done.out.startswith(f"hay/tiny at {COMMIT}: 4 files, ")
    assert "`rowen embed --embedder local --model hay/tiny` creates its vectors" in done.err
