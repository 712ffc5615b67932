"""A name that becomes part of a URL stays one part of it: it reaches no other path, query or host.

Each service is a real server on loopback that writes down the path of each request as it was sent.
"""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from unittest.mock import ANY

import pytest
from aiohttp import web

from rowen.connectors.arcgis import ArcGisOptions, HubListing
from rowen.connectors.github.api import GitHubApi
from rowen.connectors.github.files import RepositoryFiles, Trees
from rowen.connectors.github.options import GitHubOptions, RepositoryAddress, recognise
from rowen.connectors.opendatasoft import OpenDataSoftAddress
from rowen.connectors.packages import Npm, PyPI
from rowen.connectors.packages.indexes import NpmIndex, PyPIIndex
from rowen.connectors.packages.sites import versioned
from rowen.connectors.sdmx import SdmxAddress
from rowen.connectors.socrata import dataset_of
from rowen.enrich import base as embedders
from rowen.enrich.base import EmbedderTools, Spec
from rowen.enrich.llm import base as language_models
from rowen.enrich.llm.base import Message, ModelQuestion, ModelTools
from rowen.errors import RowenError
from rowen.net.client import Client
from tests.conftest import ScratchDatabase
from tests.net.world import serve, settings

NAMES = (
    "x/../../../admin/delete?force=1#",
    "../../admin",
    "..",
    ".",
    "%2e%2e",
    "..%2f..%2fadmin",
    "..\\..\\admin",
    "x?key=1",
    "x#y",
    "x:deleteModel",
    "@other.example/x",
    "//other.example/x",
    "\\\\other.example\\x",
    "https://other.example/",
    "x\r\nHost: other.example",
    "x\ty",
    "..;/admin",
    "\udc80",
    "",
)


@dataclass
class Recorder:
    """Answers every request with the same JSON."""

    answer: Any = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    url: str = ""

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.paths.append(request.raw_path)
        return web.json_response(self.answer)

    def check(self, allowed: str) -> None:
        """Every path that was asked for has this form."""
        assert [path for path in self.paths if not re.fullmatch(allowed, path)] == []


@asynccontextmanager
async def recording(answer: Any = None) -> AsyncIterator[tuple[Recorder, Client]]:
    recorder = Recorder({} if answer is None else answer)
    async with serve(recorder) as recorder.url, Client(settings(fetch_tries=1)) as client:
        yield recorder, client


MODEL_PATHS = {
    "anthropic": "/v1/messages",
    "gemini": r"/v1/models/[A-Za-z0-9._-]+:generateContent",
    "ollama": "/v1/api/chat",
    "openai": "/v1/chat/completions",
}
EMBEDDING_PATHS = {"gemini": r"/v1/models/[A-Za-z0-9._-]+:batchEmbedContents", "openai": "/v1/embeddings"}


@pytest.mark.parametrize("kind", sorted(language_models.KINDS))
async def test_the_name_of_a_language_model_leads_nowhere_else(kind: str) -> None:
    question = ModelQuestion(
        (Message("system", "s"), Message("user", "u")), "thing", {"type": "object"}, 100, "extract"
    )
    async with recording() as (recorder, client):

        async def opened() -> Client:
            return client

        made = settings(fetch_tries=1, llm=kind, llm_url=f"{recorder.url}/v1", llm_key="sk-1")
        for name in (*NAMES, "models/good-1.5"):
            with suppress(RowenError):
                model = language_models.make(ModelTools(opened, made), model=name)
                with suppress(RowenError):
                    await model.ask(question)
                await model.close()

    recorder.check(MODEL_PATHS[kind])
    assert recorder.paths


@pytest.mark.parametrize("kind", [kind for kind in embedders.kinds() if kind not in ("local", "none")])
async def test_the_name_of_an_embedding_model_leads_nowhere_else(kind: str) -> None:
    async with recording() as (recorder, client):

        async def opened() -> Client:
            return client

        made = settings(fetch_tries=1, embedder=kind, embedder_url=f"{recorder.url}/v1", embedder_key="sk-1")
        for name in (*NAMES, "models/good-1.5"):
            with suppress(RowenError):
                embedder = embedders.make(Spec(kind, name, None, f"{recorder.url}/v1"), EmbedderTools(opened, made))
                with suppress(RowenError):
                    await embedder.embed(["text"])
                await embedder.close()

    recorder.check(EMBEDDING_PATHS[kind])
    assert recorder.paths


async def test_a_ref_of_github_leads_to_no_other_path_of_the_api() -> None:
    async with recording() as (recorder, client):
        for name in NAMES[:-1]:
            options = GitHubOptions(api_url=recorder.url)
            address = RepositoryAddress("https://github.com", "owner", "repo", name)
            api = GitHubApi(client, address, options, lambda: datetime.now(UTC))
            with suppress(RowenError):
                await anext(RepositoryFiles(api, address, options).pull({}, None))

    recorder.check(r"/repos/owner/repo/commits/(?!\.\.?$)[^/?#\\]*")
    assert recorder.paths


async def test_a_tree_that_github_names_leads_to_no_other_path_of_the_api() -> None:
    class OneLevel:
        def enters(self, folder: str) -> bool:
            return "/" not in folder

    commit = "0" * 40
    for name in NAMES:
        async with recording({"truncated": True, "tree": [{"path": "a", "type": "tree", "sha": name}]}) as (
            recorder,
            client,
        ):
            options = GitHubOptions(api_url=recorder.url)
            address = RepositoryAddress("https://github.com", "owner", "repo")
            api = GitHubApi(client, address, options, lambda: datetime.now(UTC))
            with suppress(RowenError):
                await Trees(api, OneLevel()).entries(commit)  # type: ignore[arg-type]

        recorder.check(r"/repos/owner/repo/git/trees/(?!\.\.?(?:$|\?))[^/?#\\]*(?:\?recursive=1)?")
        assert recorder.paths


@pytest.mark.parametrize("typed", ["github:../admin", "github:owner/..", "github:./x", "github:../.."])
def test_dots_are_neither_an_owner_nor_a_repository(typed: str) -> None:
    assert recognise(typed) is None


@pytest.mark.parametrize(
    ("index", "allowed"),
    [(NpmIndex, r"/r/@scope%2Fhay/[^/?#]+"), (PyPIIndex, r"/r/pypi/%40scope%2Fhay/[^/?#]+/json")],
)
async def test_the_version_of_a_package_leads_to_no_other_path_of_the_registry(index: Any, allowed: str) -> None:
    async with recording() as (recorder, client):
        for name in NAMES[:-1]:
            await client.get(index(f"{recorder.url}/r").release("@scope/hay", name))

    recorder.check(allowed)
    assert len(recorder.paths) == len(NAMES) - 1


async def test_a_tag_of_a_registry_leads_to_no_other_path_of_it(
    database: ScratchDatabase, kinds: Callable[[Any], None]
) -> None:
    kinds(Npm)
    kinds(PyPI)
    answer = {"name": "hay", "versions": {}, "dist-tags": {"latest": "../../admin?x=1"}, "time": {}}
    async with recording(answer) as (recorder, _), database.open() as r:
        await r.sources.add("npm:hay", options={"registry": f"{recorder.url}/r/"})
        await r.sync("hay")

    recorder.check(r"/r/hay(/[^/?#]+)?")
    assert recorder.paths


def test_a_release_names_one_part_of_the_path_of_its_documentation() -> None:
    versions = ("1.0+/../../admin?x=1#", "1.0+\\g<5>", "1.0+\\1")
    found = [url for version in versions for url in versioned("https://docs.example/latest/index.html", version)]

    assert len(found) == 4 * len(versions)
    assert [url for url in found if not re.fullmatch(r"https://docs\.example/[^/?#\\]+/index\.html", url)] == []


ADDRESSES: dict[str, tuple[Callable[[str, str], str], str]] = {
    "arcgis": (
        lambda base, name: HubListing(ANY, base, ArcGisOptions()).record_url(name),
        "/api/search/v1/collections/dataset/items/",
    ),
    "opendatasoft": (
        lambda base, name: OpenDataSoftAddress.of(base).part(name, "exports"),
        "/api/explore/v2.1/catalog/datasets/",
    ),
    "sdmx": (lambda base, name: SdmxAddress(base).item("agency", name), "/dataflow/agency/"),
    "sdmx data": (lambda base, name: SdmxAddress(base).data("a", name, "/dataflow") or "", "/data/a,"),
    "socrata": (
        lambda base, name: dataset_of({"resource": {"id": name, "type": "map"}}, base).resources[0].url,
        "/api/geospatial/",
    ),
}


@pytest.mark.parametrize("kind", sorted(ADDRESSES))
async def test_the_identifier_of_a_record_is_one_part_of_a_path(kind: str) -> None:
    url_of, beginning = ADDRESSES[kind]
    async with recording() as (recorder, client):
        for name in NAMES[:-1]:
            await client.get(url_of(recorder.url, name))

    recorder.check(re.escape(beginning) + r"(?!\.\.?(?:/|$))[^/?#\\]+(?:/exports|\?method=export&format=GeoJSON)?")
    assert len(recorder.paths) == len(NAMES) - 1
