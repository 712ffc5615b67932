"""Worlds whose bodies are too large to be read inline, and which can stall in the middle of a run."""

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from aiohttp import web

from tests.harvest.shop import LAMP, Shop
from tests.portals.ckan import ChangingCkan
from tests.portals.feed import ChangingArchivedFeed
from tests.portals.folder import Folder
from tests.portals.language_model import Model
from tests.portals.site import WORDS, ChangingSite, Page, Site, html

# Markup that a reader goes through and drops: it takes a worker 10 to 100 ms, and the database nothing. Pages of 8 kB
# and less are read inline; larger ones than these would only make an example slower.
MARKUP_BYTES = (0, 12_000, 40_000, 120_000)
# A passage of a catalog's text is cut by a worker above 64 kB.
LONG_TEXT_WORDS = 12_000
LONG_FILE_PARAGRAPHS = 60
PROBES = 4


def markup(chance: Random, size: int) -> str:
    """A menu of so many bytes, which is no part of a page's text."""
    entry = f"<span class=c{chance.randrange(10**6)}>menu</span>"
    return f"<nav>{entry * (size // len(entry))}</nav>"


class Stalling(Site):
    """A server that tells of each request before it is answered, and leaves all of them waiting while it is stalled."""

    def __init__(self, *of_server: Any, **more: Any) -> None:
        self.asked_for: Callable[[], None] | None = None
        self._going = asyncio.Event()
        self._going.set()
        super().__init__(*of_server, **more)

    def stall(self) -> None:
        """Answer nothing from now on."""
        self._loop.call_soon_threadsafe(self._going.clear)

    def resume(self) -> None:
        """Answer what waits, and everything else."""
        self._loop.call_soon_threadsafe(self._going.set)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if self.asked_for is not None:
            self.asked_for()
        await self._going.wait()
        return await super()._answer(request)


class LargeSite(Stalling, ChangingSite):
    """A random graph of pages, each of which says which page it is; `/probe/N` never changes."""

    def __init__(self) -> None:
        super().__init__()
        for number in range(PROBES):
            body = html(f"Probe {number}", f"This is probe {number}.").replace(
                b"<nav>", markup(Random(number), 40_000).encode() + b"<nav>"
            )
            self.pages[f"/probe/{number}"] = Page(body)

    def _write(self, chance: Random, number: int) -> None:
        super()._write(chance, number)
        path = f"/p{number}"
        menu = markup(chance, chance.choice(MARKUP_BYTES))
        body = self.pages[path].body.replace(b"<main>", f"{menu}<main><p>This is {self.url}{path}.</p>".encode())
        self.alter(path, body=body)

    async def _answer_for(self, request: web.Request) -> web.StreamResponse:
        if request.path.startswith("/probe/"):
            return await Site._answer_for(self, request)
        return await super()._answer_for(request)

    def probe(self, number: int) -> str:
        """The URL of a page that never changes."""
        return f"{self.url}/probe/{number % PROBES}"


class ChangingShop(Stalling, Shop):
    """A shop whose prices change, with a language model that reads them."""

    kind = "web"

    def __init__(self) -> None:
        super().__init__(lamps=6)
        self.address = f"{self.url}/"
        self.model = Model()
        self.schema: Mapping[str, Any] = LAMP

    def change(self, chance: Random) -> None:
        self.down = False
        number = chance.randint(1, self.lamps)
        match chance.randrange(8):
            case 6:
                self.pages.pop(f"/{number}", None)
            case 7:
                self.down = True
            case _:
                menu = markup(chance, chance.choice(MARKUP_BYTES))
                self.sell(number, price=chance.randrange(1, 100), colour=chance.choice(WORDS), boilerplate=menu)

    def ail(self, chance: Random) -> None:
        self.change(chance)

    def recover(self) -> None:
        self.down = False

    def heal(self) -> None:
        self.down = False

    def close(self) -> None:
        self.model.close()
        super().close()


class LargeFolder(Folder):
    """Files, some of them long."""

    def _text(self, chance: Random) -> str:
        text = super()._text(chance)
        if chance.random() < 0.4:
            text += "\n\n" + "\n\n".join(self._paragraph(chance) for _ in range(LONG_FILE_PARAGRAPHS))
        return text


class LargeCkan(Stalling, ChangingCkan):
    """A portal, some of whose datasets are described at length."""

    def write(self, chance: Random, name: str) -> None:
        super().write(chance, name)
        if chance.random() < 0.2:
            self.records[name]["notes"] = " ".join(chance.choices(WORDS, k=LONG_TEXT_WORDS))


class StallingFeed(Stalling, ChangingArchivedFeed):
    """A feed with archives."""
