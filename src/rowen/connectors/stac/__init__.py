"""STAC catalogs: the collections of an API, or of documents that lead to one another; one item a collection."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, ClassVar

from rowen.connectors.base import Known
from rowen.connectors.catalog.connector import CatalogConnector
from rowen.connectors.catalog.portal_client import PortalClient
from rowen.connectors.probe import Probe
from rowen.connectors.stac.address import StacOptions, accept, is_stac, listing_url, recognise
from rowen.connectors.stac.listing import Collections
from rowen.connectors.stac.tree import Tree, kind_of
from rowen.errors import SourceError
from rowen.formats.json import read_json
from rowen.model.item import Observation
from rowen.net.client import Client
from rowen.net.response import Response

if TYPE_CHECKING:
    from rowen.connectors.base import Options

__all__ = ["Stac"]


class Stac(CatalogConnector):
    """Reads the collections of a STAC catalog."""

    kind: ClassVar[str] = "stac"
    Options: "ClassVar[type[Options]]" = StacOptions
    recognise = staticmethod(recognise)
    accept = staticmethod(accept)

    @classmethod
    async def probe(cls, probe: Probe) -> str | None:
        """The catalog at an address: itself tells, to those who ask for JSON at the latest."""
        page = probe.page
        if page is not None and not is_stac(page.body) and b"<html" in page.body[:2000].lower():
            page = await probe.get(probe.url)
        return accept(probe.url) if page is not None and is_stac(page.body) else None

    async def _observe(self, client: Client, known: Known) -> AsyncGenerator[Observation]:
        """Ask the root what it is, and read its collections."""
        portal = PortalClient(client, self._url, self._options.as_catalog(), now=self._tools.now)
        tree = Tree(client, self._url, self._options, known)
        root = await portal.get(self._url, tokens=await tree.tokens())
        observations = tree.walk(root) if root.not_modified else self._read(portal, tree, root, known)
        async with aclosing(observations):
            async for observation in observations:
                yield observation

    def _read(self, portal: PortalClient, tree: Tree, root: Response, known: Known) -> AsyncGenerator[Observation]:
        data = read_json(root.body, self._url)
        listing = listing_url(data, root.url) if isinstance(data, dict) else None
        if listing is None:
            if kind_of(data) is None:
                raise SourceError(f"{self._url} is JSON, but no STAC catalog.")
            return tree.walk(root)
        collections = Collections(
            portal,
            listing,
            root=self._url,
            limit=self._options.limit,
            language=self._options.language,
            landing_page=self._options.landing_page,
            first=root if listing == root.url and not self._options.limit else None,
        )
        return self._refresh(collections, known)
