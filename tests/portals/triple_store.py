"""A SPARQL endpoint on loopback that takes updates."""

import pyoxigraph as ox
from aiohttp import web

from tests.portals.site import Page, Site


class TripleStore(Site):
    """Takes updates at `/sparql`: `failures` answer 503 before an update is taken, `lost_answers` after."""

    def __init__(self) -> None:
        super().__init__()
        self.store = ox.Store()
        self.endpoint = f"{self.url}/sparql"
        self.updates: list[str] = []
        self.keys: list[str] = []
        self.failures = self.lost_answers = 0
        self.pages["/sparql"] = Page(handler=self._update)

    async def _update(self, request: web.Request) -> web.StreamResponse:
        self.keys.append(request.headers.get("Authorization", ""))
        if self.failures:
            self.failures -= 1
            return web.Response(status=503)
        text = (await request.read()).decode()
        self.updates.append(text)
        self.store.update(text)
        if self.lost_answers:
            self.lost_answers -= 1
            return web.Response(status=503)
        return web.Response(status=204)

    def statements(self) -> set[str]:
        """All that it holds, without graphs."""
        return {str(quad.triple) for quad in self.store}

    def graphs(self) -> set[str]:
        """The names of its graphs."""
        return {getattr(quad.graph_name, "value", "") for quad in self.store}
