"""One page or file as it is now, to be read for facts: fetched politely, by a proxy or a browser if asked for."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rowen.connectors.base import Meter
from rowen.connectors.opening import read_regular
from rowen.errors import NotFoundError, RefusedError, SourceError, UsageError
from rowen.model.item import Raw
from rowen.model.url import file_url

if TYPE_CHECKING:
    from rowen.harvest.engine import Engine
    from rowen.model.address import Address
    from rowen.model.facts import FactsWanted
    from rowen.net.client import Client
    from rowen.net.response import Response
    from rowen.net.robots import Robots

__all__ = ["PageAccess", "PageSource"]

# What a text file may have to be read for facts: a page of this size has more than any model reads.
_MOST_FILE_BYTES = 20_000_000
# A script leads to a sign-in or to a language, and that page to itself. More are a circle.
_MOST_RENDERED_MOVES = 3


class PageAccess(NamedTuple):
    """How a page is got at: drawn by a browser, through a proxy, within some time; all as the settings say if not."""

    render: bool = False
    proxy: str | None = None
    limit_s: float | None = None


class PageSource:
    """Gets pages and files."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def raw(self, place: Address, facts: FactsWanted | None, access: PageAccess | None = None) -> Raw:
        """A page or a file, unread, with the facts that are wanted of it.

        Whoever calls this has judged this very address: a file is opened without another question.
        """
        if place.is_file:
            return await asyncio.to_thread(_file, place, facts)
        if not place.is_web:
            raise UsageError(
                f"{place.text!r} is neither a web page nor a file.",
                hint="Give an address that begins with https://, or the path of a file.",
            )
        async with AsyncExitStack() as stack:
            response = await self._got(stack, place.text, access or PageAccess())
        media_type, charset = response.media_type, response.charset
        return Raw(response.url, response.body, media_type=media_type, charset=charset, facts=facts)

    async def markup(self, url: str) -> str:
        """The markup of a page."""
        from rowen.formats.charset import decode

        async with AsyncExitStack() as stack:
            response = await self._got(stack, url, PageAccess())
        return decode(response.body, charset=response.charset, media_type=response.media_type or "text/html", name=url)

    async def _got(self, stack: AsyncExitStack, url: str, access: PageAccess) -> Response:
        from rowen.net.robots import Robots

        proxy = None if access.proxy is None else checked_proxy(access.proxy)
        settings = self._engine.settings.for_source(url)
        client = await stack.enter_async_context(self._engine.client(Meter(), settings, proxy=proxy))
        robots = Robots(client)
        response = await _allowed(client, robots, url, access)
        return await _rendered(stack, client, robots, response, access) if access.render else response


async def _allowed(client: Client, robots: Robots, url: str, access: PageAccess) -> Response:
    rules = await robots.rules(url)
    if rules.refused is not None:
        raise SourceError(rules.refused)
    if not rules.allows(url):
        raise RefusedError(f"The robots.txt of its host does not let {url} be read.")
    response = await client.get(url, accept="text/html,*/*;q=0.5", limit_s=access.limit_s)
    if response.status in (404, 410):
        raise NotFoundError(f"{url} is not there (status {response.status}).")
    if not response.ok:
        raise SourceError(f"{url} answered with status {response.status}.")
    return response


async def _rendered(
    stack: AsyncExitStack, client: Client, robots: Robots, response: Response, access: PageAccess
) -> Response:
    """The page after its scripts have run; what is no page stays as it is."""
    from dataclasses import replace

    from rowen.net.render import LIMIT_S, Browser

    if (response.media_type or "").lower() not in ("text/html", "application/xhtml+xml"):
        return response

    async def may(url: str) -> bool:
        return (await robots.rules(url)).allows(url)

    browser = await stack.enter_async_context(Browser(client, may=may))
    most = client.settings.body_limit_bytes
    for _ in range(_MOST_RENDERED_MOVES + 1):
        drawn = await browser.render(response.url, response, max_bytes=most, limit_s=access.limit_s or LIMIT_S)
        if drawn.url == response.url:
            body = drawn.html.encode("utf-8", "replace")
            return replace(response, body=body, media_type="text/html", charset="utf-8")
        response = await _allowed(client, robots, drawn.url, access)
    raise SourceError(f"{response.url} leads from page to page, and never comes to rest.")


def checked_proxy(proxy: str) -> str:
    """A proxy that can be asked; its password is never repeated."""
    from rowen.errors import BadUrlError
    from rowen.net.target import parse

    try:
        parse(proxy)
    except BadUrlError as problem:
        raise UsageError(
            f"This is no proxy: {problem}", hint="An HTTP proxy is named as http://host:port, or http://user:password@…"
        ) from None
    return proxy


def _file(place: Address, facts: FactsWanted | None) -> Raw:
    try:
        path = Path(place.path)
        body = read_regular(path, limit_bytes=_MOST_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(f"{place.text!r} is neither a URL nor a file.") from None
    except (OSError, ValueError) as problem:
        why = (problem.strerror if isinstance(problem, OSError) else None) or problem
        raise SourceError(f"{place.text!r} cannot be read: {why}.") from None
    if len(body) > _MOST_FILE_BYTES:
        raise RefusedError(f"{path} has more than {_MOST_FILE_BYTES:,} bytes.")
    return Raw(file_url(bytes(path.absolute())), body, name=path.name, facts=facts)
