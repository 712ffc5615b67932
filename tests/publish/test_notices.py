"""Messages to people: many changes in one, with what differs; sent by Apprise, and kept from private addresses."""

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiohttp import web

from rowen import Complete, ConfigurationError, Fetched, UsageError
from rowen.jobs import webhooks as webhook_jobs
from tests.conftest import ScratchDatabase
from tests.portals.scripted import Scripted, page, shows
from tests.portals.site import Page, Site


class Chat(Site):
    """Takes what Apprise's `json://` sends."""

    def __init__(self) -> None:
        super().__init__()
        self.status = 200
        self.heard: list[dict[str, Any]] = []
        self.default = Page(handler=self._take)

    async def _take(self, request: web.Request) -> web.StreamResponse:
        self.heard.append(json.loads(await request.read()))
        return web.Response(status=self.status)


@pytest.fixture
def chat(kinds: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch) -> Iterator[Chat]:
    kinds(Scripted)
    site = Chat()
    monkeypatch.setenv("CHAT", site.url.replace("http://", "json://me:hush@") + "/room")
    yield site
    site.close()


async def _harvest(r: Any, *documents: Any) -> None:
    shows(*map(Fetched, documents), Complete())
    await r.sync("scripted:one")


async def test_people_get_one_message_about_many_changes_with_what_differs(
    database: ScratchDatabase, chat: Chat
) -> None:
    async with database.open(trust_database=True) as r:
        await _harvest(r, page(1, "Nine perches for nine hens."))
        await r.webhooks.add_notice("team", "env:CHAT")
        await _harvest(r, page(1, "Ten perches for nine hens."), *(page(n) for n in range(2, 6)))

        delivered = await r.webhooks.deliver("team")
        again = await r.webhooks.deliver("team")

    assert (delivered, again) == (5, 0)
    (message,) = chat.heard
    assert message["title"].endswith("and 4 more")
    assert "-Nine perches for nine hens.\n+Ten perches for nine hens." in message["message"]
    assert database.query("select url, secrets from webhook") == [("env:CHAT", ["env:CHAT"])]


async def test_people_get_one_message_after_the_other_and_none_after_one_that_was_refused(
    database: ScratchDatabase, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_jobs, "MOST_IN_A_NOTICE", 2)
    async with database.open(trust_database=True) as r:
        await r.webhooks.add_notice("team", "env:CHAT")
        await _harvest(r, *(page(n) for n in range(6)))
        chat.status = 500
        refused = await r.webhooks.deliver("team")
        heard = len(chat.heard)
        chat.status = 200
        delivered = await r.webhooks.deliver("team")

    assert (refused, heard) == (0, 1)
    assert (delivered, len(chat.heard)) == (6, 4)


async def test_a_service_that_refuses_is_told_again_later_and_no_login_is_shown(
    database: ScratchDatabase, chat: Chat
) -> None:
    chat.status = 500
    async with database.open(trust_database=True) as r:
        await r.webhooks.add_notice("team", "env:CHAT")
        await _harvest(r, page(1), page(2))
        await r.webhooks.deliver("team")
        (notice,) = await r.webhooks.list_notices()
        chat.status = 200
        await r.webhooks.deliver("team")
        (after,) = await r.webhooks.list_notices()

    assert (notice.failures, notice.waiting, after.waiting) == (1, 2, 0)
    assert "hush" not in json.dumps([str(one) for one in await _log(database)])


async def _log(database: ScratchDatabase) -> list[Any]:
    async with database.open(trust_database=True) as r:
        return list(await r.webhooks.deliveries("team"))


async def test_a_private_address_is_refused_where_it_would_be_reached(database: ScratchDatabase, chat: Chat) -> None:
    async with database.open(trust_database=True, allow_addresses="") as r:
        await r.webhooks.add_notice("team", "env:CHAT")
        await _harvest(r, page(1))
        await r.webhooks.deliver("team")
        (notice,) = await r.webhooks.list_notices()

    assert chat.heard == []
    assert "127.0.0.1 (loopback) is not a public address" in (notice.last_error or "")


async def test_an_address_is_given_by_where_it_is_found(
    database: ScratchDatabase, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRANGE", base64.b64encode(b"nonsense").decode())
    async with database.open(trust_database=True) as r:
        with pytest.raises(UsageError, match="never itself"):
            await r.webhooks.add_notice("team", "json://me:hush@example.org/")
        with pytest.raises(ConfigurationError):
            await r.webhooks.add_notice("team", "env:NOT_SET")
        await r.webhooks.add_notice("team", "env:STRANGE")
        await _harvest(r, page(1))
        await r.webhooks.deliver("team")
        (notice,) = await r.webhooks.list_notices()

    assert "not of a network service that Apprise supports" in (notice.last_error or "")
