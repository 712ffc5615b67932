"""The worlds that join the machine: each kind of source has a line here."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from unittest.mock import patch

import rowen
from rowen.harvest import embed as flow
from tests.conftest import ScratchDatabase
from tests.portals.arcgis import ChangingGeoPortal, ChangingHub
from tests.portals.ckan import ChangingCkan
from tests.portals.council import ChangingCouncil
from tests.portals.csw import ChangingCsw
from tests.portals.datajson import ChangingDataJson
from tests.portals.dcat import ChangingDcat
from tests.portals.embedder import Provider
from tests.portals.feed import ChangingArchivedFeed, ChangingFeed
from tests.portals.folder import Folder
from tests.portals.git import Repository
from tests.portals.github import Portal as GitHub
from tests.portals.ldes import ChangingLdes
from tests.portals.oai import ChangingOai, ForgetfulOai
from tests.portals.opendatasoft import ChangingOpenDataSoft
from tests.portals.packages import ChangingPackage
from tests.portals.sdmx import ChangingSdmx
from tests.portals.site import ChangingSite
from tests.portals.socrata import ChangingSocrata
from tests.portals.sparql import ChangingSparql
from tests.portals.stac import ChangingStacApi, ChangingStaticStac
from tests.refresh.longlived import LongLivedMachine, Town
from tests.refresh.machine import Draw, Machine, World, differences, sync_into
from tests.refresh.workers import WorkerMachine

BATCH = 2  # texts in a question to the provider: small, so that harm falls between the batches of one run

Opened = AbstractContextManager[World]


@dataclass(frozen=True)
class Kind:
    """How one kind joins: its world, opened in a folder of its own, and its machine.

    `unfit` names steps after which a refresh is known to differ, each with the reason; they are left out of random
    examples, and a test of its own for each expects the failure until it is mended. `share` is how many times as long
    as others a kind is looked at: its examples are longer.
    """

    opened: Callable[[Path], Opened]
    machine: type[Machine] = Machine
    unfit: Mapping[str, str] = field(default_factory=dict)
    share: float = 1


def plain(make: Callable[[], World], unfit: Mapping[str, str] | None = None) -> Kind:
    """A world that needs nothing but itself."""
    return Kind(lambda folder: contextlib.closing(make()), unfit=unfit or {})


def in_folder(make: Callable[[Path], World]) -> Kind:
    """A world that lies in a folder."""
    numbers = count()
    return Kind(lambda folder: contextlib.closing(make(folder / f"world {next(numbers)}")))


@contextlib.contextmanager
def _package(folder: Path) -> Iterator[ChangingPackage]:
    """A package whose registry is asked for instead of those of pip and npm."""
    world = ChangingPackage()

    async def told(address: object) -> str:
        return world.index.url

    at = {"ROWEN_TEST_REGISTRY": world.index.url}
    asked = patch("rowen.connectors.packages.registry_of", told)
    with contextlib.closing(world), patch.dict(os.environ, at), asked:
        yield world


def vectors_of(database: ScratchDatabase) -> dict[bytes, str]:
    """Text hash → vector of all passages."""
    rows = database.query("select distinct text_hash, vector::text from chunk left join embedding using (text_hash)")
    assert all(vector is not None for _, vector in rows)
    return dict(rows)


async def embed(database: ScratchDatabase) -> None:
    async with database.open() as r:
        report = await r.embeddings.embed()
        assert report is not None
        assert (report.pending, report.error) == (0, None)


class EmbeddedFolder(Folder):
    """A folder with passages for many batches, which a provider embeds; it is down now and then."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.provider = Provider()
        for number in range(16):
            (self.root / f"field {number}.md").write_text(f"# Field {number}\n\nHere grows row {number}.\n")

    def close(self) -> None:
        self.provider.close()
        super().close()


@contextlib.contextmanager
def _embedded(folder: Path) -> Iterator[EmbeddedFolder]:
    with contextlib.closing(EmbeddedFolder(folder / "embedded")) as world:
        told = {f"ROWEN_{name.upper()}": value for name, value in world.provider.settings.items()}
        few = {"ROWEN_EMBEDDER_BATCH": str(BATCH), "ROWEN_EMBEDDER_CONCURRENCY": "1"}
        with patch.dict(os.environ, {**told, **few}), patch.object(flow, "LONGEST_PAUSE_S", 0.01):
            yield world


class EmbeddingMachine(Machine):
    """Vectors join too: after any harm a refreshed index has those of a rebuilt one, and each was paid for once."""

    world: EmbeddedFolder
    draws: Mapping[str, Draw] = {  # type: ignore[misc]
        **Machine.draws,
        "the_provider_goes_or_comes": lambda c: {"down": c.random() < 0.5},
        # Embedding comes after what the others are about.
        "a_run_is_killed": lambda c: {"statement": c.randint(20, 120), "after": c.random() < 0.5},
        "a_statement_fails": lambda c: {"statement": c.randint(20, 110)},
        "the_database_is_killed": lambda c: {"statement": c.randint(20, 110)},
    }
    most_steps = 10  # each is dearer than without vectors

    def the_provider_goes_or_comes(self, *, down: bool) -> None:
        self.world.provider.down = down

    def refresh_equals_rebuild(self) -> None:
        provider = self.world.provider
        provider.down = False
        self.world.heal()
        self._sync(accept_deletions=True, clean=True)
        asyncio.run(embed(self.database))
        paid_again = sum(provider.repeated().values()) - len(provider.repeated())
        harm = sum(self.counts[name] for name in ("a_run_is_killed", "a_statement_fails", "the_database_is_killed"))
        assert paid_again <= harm * BATCH, (harm, provider.repeated())

        rebuilt = self._compared()
        asyncio.run(embed(rebuilt))
        assert vectors_of(self.database) == vectors_of(rebuilt)

    def _compared(self) -> ScratchDatabase:
        """The rebuilt index, once it is the same but for its vectors."""
        databases: list[ScratchDatabase] = []
        new_database = self.new_database

        def remembered() -> ScratchDatabase:
            databases.append(new_database())
            return databases[-1]

        self.new_database = remembered
        super().refresh_equals_rebuild()
        return databases[-1]


class WindowMachine(Machine):
    """A feed shows a window: what a rebuild finds is the same after a refresh, and what the window passed stays.

    Only entries that the feed has shown, and no longer shows, may be there besides.
    """

    world: ChangingFeed

    def differences(self, rebuilt: ScratchDatabase) -> list[str]:
        passed = self.world.ever - {self.world.entry_url(post.name) for post in self.world.shown}
        kept = {f"only refreshed: {url}" for url in passed}
        return [line for line in differences(self.database, rebuilt) if line not in kept]


class AnnouncedMachine(Machine):
    """Documents are what their feed says: it is synced before them, as a worker would, and both are compared.

    A refresh equals a rebuild as far as the feed announces what changes, which the world does.
    """

    world: ChangingCouncil

    def synced(self, database: ScratchDatabase, **how: bool) -> rowen.Run:
        feed = asyncio.run(sync_into(database, self.world.feed, **how))
        documents = asyncio.run(sync_into(database, self.world.address, **how))
        return feed if feed.status != "completed" else documents


KINDS: Mapping[str, Kind] = {
    "announced": Kind(lambda folder: contextlib.closing(ChangingCouncil()), AnnouncedMachine),
    "arcgis-hub": plain(ChangingHub),
    "arcgis-portal": plain(ChangingGeoPortal),
    "ckan": plain(ChangingCkan),
    "csw": plain(ChangingCsw),
    "datajson": plain(ChangingDataJson),
    "dcat": plain(ChangingDcat),
    "embeddings": Kind(_embedded, EmbeddingMachine),
    "feed": Kind(lambda folder: contextlib.closing(ChangingFeed()), WindowMachine),
    "feed-archived": plain(ChangingArchivedFeed),
    "files": in_folder(Folder),
    "git": in_folder(Repository),
    "github": plain(GitHub),
    "ldes": plain(ChangingLdes),
    "long-lived": Kind(lambda folder: contextlib.closing(Town(folder / "world")), LongLivedMachine, share=2),
    "oai": plain(ChangingOai),
    "oai-without-tombstones": plain(ForgetfulOai),
    "opendatasoft": plain(ChangingOpenDataSoft),
    "packages": Kind(_package),
    "sdmx": plain(ChangingSdmx),
    "socrata": plain(ChangingSocrata),
    "sparql": plain(ChangingSparql),
    "stac": plain(ChangingStacApi),
    "stac-static": plain(ChangingStaticStac),
    "web": plain(ChangingSite),
    "workers-ckan": Kind(lambda folder: contextlib.closing(ChangingCkan()), WorkerMachine),
    "workers-files": Kind(lambda folder: contextlib.closing(Folder(folder / "world")), WorkerMachine),
}
