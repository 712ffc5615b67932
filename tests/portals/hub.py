"""A WebSub hub on loopback, and the interface that it calls: both speak HTTP, as they do outside."""

import asyncio
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

import aiohttp
from aiohttp import web

from rowen.operations.push import Push
from tests.portals.site import Site


class Hub(Site):
    """Takes subscriptions, asks back, and tells subscribers what it is given.

    `lease_s` is how long it lends, `answers` the status of its own answer, `asks_back` whether it ever asks; `denies`
    is why it says no. `verdicts` are the statuses and bodies that callbacks answered with.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked_for: list[dict[str, str]] = []
        self.verdicts: list[tuple[int, str]] = []
        self.lease_s: int | None = 864_000
        self.answers = 202
        self.asks_back = True
        self.denies: str | None = None

    async def _answer_for(self, request: web.Request) -> web.StreamResponse:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.asked_for.append(form)
        if self.answers == 202 and self.asks_back:
            # Before it answers: a subscriber must be ready for that.
            await self._ask_back(form)
        return web.Response(status=self.answers)

    async def _ask_back(self, form: Mapping[str, str]) -> None:
        said = {"hub.mode": form["hub.mode"], "hub.topic": form["hub.topic"], "hub.challenge": "a challenge & more"}
        if self.denies is not None:
            said = {"hub.mode": "denied", "hub.topic": form["hub.topic"], "hub.reason": self.denies}
        elif self.lease_s is not None and form["hub.mode"] == "subscribe":
            said["hub.lease_seconds"] = str(self.lease_s)
        await self._call("GET", form["hub.callback"], params=said)

    def publish(self, body: bytes, *, method: str = "sha256", secret: str | None = None) -> tuple[int, str]:
        """Tell the last subscriber; a `secret` of somebody else's makes it a forgery."""
        form = next(one for one in reversed(self.asked_for) if one["hub.mode"] == "subscribe")
        signature = hmac.new((secret or form["hub.secret"]).encode(), body, getattr(hashlib, method)).hexdigest()
        headers = {"X-Hub-Signature": f"{method}={signature}", "Content-Type": "application/atom+xml"}
        calling = self._call("POST", form["hub.callback"], data=body, headers=headers)
        return asyncio.run_coroutine_threadsafe(calling, self._loop).result(10)

    async def _call(self, method: str, url: str, **more: Any) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.request(method, url, **more) as answer:
            verdict = answer.status, await answer.text()
        self.verdicts.append(verdict)
        return verdict


class Interface(Site):
    """Hands what comes to the service, which lives in the loop of the test."""

    def __init__(self) -> None:
        super().__init__()
        self.push: Push | None = None
        self.home: asyncio.AbstractEventLoop | None = None

    async def _answer_for(self, request: web.Request) -> web.StreamResponse:
        assert self.push is not None
        assert self.home is not None
        token, body = request.path.rpartition("/")[2], await request.read()
        if request.method == "GET":
            asked = self.push.verify_websub(token, dict(request.query))
        else:
            asked = self.push.receive_websub(token, dict(request.headers), body)
        verdict = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asked, self.home))
        return web.Response(status=verdict.status, text=verdict.body)
