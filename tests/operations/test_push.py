"""Pushes of others: who cannot sign is refused, who can is believed once, and what they name is looked at."""

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from rowen import ConfigurationError, NotFoundError, PushVerdict, Rowen, SourceError, UsageError
from rowen.jobs.push import lease_of, put_renewals
from rowen.model.webhooks import webhook_signature
from rowen.operations import push as module
from rowen.operations.push import Push
from tests.conftest import ScratchDatabase
from tests.portals.hub import Hub, Interface
from tests.portals.site import Site, html, keep

KEY = "a key that only this test has"
NOW = datetime.now(UTC).replace(microsecond=0)  # workers go by the clock of the database


class Clock:
    """A clock that stands still until it is told."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    site.grow(13)
    yield site
    site.close()


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub()
    yield hub
    hub.close()


@pytest.fixture
def interface() -> Iterator[Interface]:
    interface = Interface()
    yield interface
    interface.close()


@asynccontextmanager
async def opened(database: ScratchDatabase, clock: Clock, **more: Any) -> AsyncIterator[tuple[Rowen, Push]]:
    async with database.open(push_key=KEY, **more) as r:
        yield r, _at(Push(r, r._engine), clock)


def _at(push: Push, clock: Clock) -> Push:
    push._now = clock
    return push


def of_github(secret: str, payload: Any, *, event: str = "push", delivery: str = "d-1") -> tuple[dict[str, str], bytes]:
    body = json.dumps(payload).encode()
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": delivery,
        "X-Hub-Signature-256": f"sha256={signature}",
        "Content-Type": "application/json",
    }, body


def pushed(ref: str = "refs/heads/main", name: str = "Acme/Docs") -> dict[str, Any]:
    at = f"https://github.com/{name}"
    repository = {"full_name": name, "html_url": at, "clone_url": f"{at}.git", "default_branch": "main"}
    return {"ref": ref, "repository": {**repository, "ssh_url": f"git@github.com:{name}.git"}}


async def test_a_push_to_github_has_the_sources_of_its_branch_looked_at(
    database: ScratchDatabase, clock: Clock
) -> None:
    async with opened(database, clock) as (r, push):
        await r.sources.add("github:acme/docs", name="default")
        await r.sources.add("github:acme/docs@v2", name="v2")
        await r.sources.add("git+ssh://git@github.com/acme/docs.git", name="clone")
        await r.sources.add("git+https://github.com/acme/docs.git", name="clone-v2", options={"ref": "v2"})
        await r.sources.add("github:acme/other", name="other")
        secret = (await push.access("default"))[0].secret
        main = await push.receive_github(*of_github(secret, pushed()))
        tag = await push.receive_github(*of_github(secret, pushed("refs/tags/v2"), delivery="d-2"))
        none = await push.receive_github(*of_github(secret, pushed("refs/heads/wip"), delivery="d-3"))

    assert (main.status, {one.source for one in main.poked}) == (202, {"default", "clone"})
    assert {one.source for one in tag.poked} == {"v2", "clone-v2"}
    assert (none.status, none.poked) == (202, ())


async def test_other_events_of_github_concern_sources_that_read_what_they_are_about(
    database: ScratchDatabase, clock: Clock
) -> None:
    async with opened(database, clock) as (r, push):
        await r.sources.add("github:acme/docs", name="talk", options={"issues": True, "releases": True})
        secret = (await push.access("talk"))[0].secret
        told = [
            await push.receive_github(*of_github(secret, pushed(), event=event, delivery=event))
            for event in ("issues", "release", "gollum", "star")
        ]
        ping = await push.receive_github(*of_github(secret, {"zen": "Keep it simple."}, event="ping"))

    assert [len(one.poked) for one in told] == [1, 1, 0, 0]
    assert (ping.status, ping.body) == (200, "pong")


async def test_a_delivery_counts_once_also_as_a_form(database: ScratchDatabase, clock: Clock) -> None:
    async with opened(database, clock) as (r, push):
        await r.sources.add("github:acme/docs", name="docs")
        secret = (await push.access("docs"))[0].secret
        first = await push.receive_github(*of_github(secret, pushed()))
        again = await push.receive_github(*of_github(secret, pushed()))
        body = urlencode({"payload": json.dumps(pushed())}).encode()
        headers = of_github(secret, pushed(), delivery="d-9")[0]
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        headers["x-hub-signature-256"] = f"sha256={hmac.new(secret.encode(), body, 'sha256').hexdigest()}"
        del headers["X-Hub-Signature-256"]
        form = await push.receive_github(headers, body)

    assert (len(first.poked), again.status, again.poked, len(form.poked)) == (1, 202, (), 1)


async def test_who_cannot_sign_is_refused_and_learns_nothing(
    database: ScratchDatabase, clock: Clock, site: Site
) -> None:
    async with opened(database, clock) as (r, push):
        await keep(r, site)
        await r.sources.add("github:acme/docs", name="docs")
        headers, body = of_github("a guess", pushed())
        weak = {**headers, "X-Hub-Signature-256": f"sha1={hmac.new(b'a guess', body, 'sha1').hexdigest()}"}
        verdicts = [
            await push.receive_github(headers, body),
            await push.receive_github(weak, body),
            await push.receive_github({}, b"\xff"),
            await push.receive_call("site", {}, b"{}"),
            await push.receive_call("no-such-source", {}, b"{}"),
        ]
        large = await push.receive_github(headers, b" " * (module.MOST_BYTES + 1))

    assert verdicts == [PushVerdict(401, "refused")] * 5
    assert large.status == 413
    assert database.query("select count(*) from procrastinate_jobs") == [(0,)]


def call(
    secret: str, urls: Any, clock: Clock, *, delivery: str = "c-1", late_s: float = 0
) -> tuple[dict[str, str], bytes]:
    body = json.dumps({"urls": urls}).encode()
    timestamp = str(int((clock.now - timedelta(seconds=late_s)).timestamp()))
    return {
        "webhook-id": delivery,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,AAAA {webhook_signature(secret, delivery, timestamp, body)}",
    }, body


async def test_a_signed_call_has_the_named_pages_looked_at(database: ScratchDatabase, clock: Clock, site: Site) -> None:
    async with opened(database, clock) as (r, push):
        await keep(r, site)
        [access] = await push.access("site")
        urls = [f"{site.url}/p3", f"{site.url}/p4", "https://elsewhere.example/x"]
        verdict = await push.receive_call("site", *call(access.secret, urls, clock))
        await r.queue.work(until_idle=True)
        strange = await push.receive_call("site", *call(access.secret, urls[2:], clock, delivery="c-2"))
        whole = await push.receive_call("site", *call(access.secret, [], clock, delivery="c-3"))

    assert (verdict.status, [one.urls for one in verdict.poked]) == (202, [2])
    assert sorted(site.asked()) == ["/p3", "/p4"]
    assert (strange.poked, [one.urls for one in whole.poked]) == ((), [0])


async def test_a_call_is_believed_once_and_within_five_minutes(
    database: ScratchDatabase, clock: Clock, site: Site
) -> None:
    async with opened(database, clock) as (r, push):
        await keep(r, site)
        [access] = await push.access("site")
        signed = call(access.secret, [f"{site.url}/p3"], clock)
        first = await push.receive_call("site", *signed)
        replay = await push.receive_call("site", *signed)
        skewed = [
            await push.receive_call("site", *call(access.secret, [], clock, delivery=f"s{late_s}", late_s=late_s))
            for late_s in (299, -299, 301, -301)
        ]
        clock.now += timedelta(minutes=6)
        late = await push.receive_call("site", *signed)
        other = await push.receive_call("site", signed[0], signed[1] + b" ")

    assert (len(first.poked), replay.body, replay.poked) == (1, "taken before", ())
    assert [one.status for one in skewed] == [202, 202, 401, 401]
    assert (late.status, other.status) == (401, 401)


async def test_the_secret_of_one_source_opens_no_other(database: ScratchDatabase, clock: Clock, site: Site) -> None:
    async with opened(database, clock) as (r, push):
        await keep(r, site)
        await r.sources.add(f"{site.url}/p1", name="other")
        [access] = await push.access("other")
        verdict = await push.receive_call("site", *call(access.secret, [], clock))

    assert verdict.status == 401


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"urls": "x"}', b'{"urls": [1]}', b"[" * 100_000, b'{"data": 1}']
)
async def test_a_signed_call_that_says_nothing_is_called_unreadable(
    database: ScratchDatabase, clock: Clock, body: bytes
) -> None:
    async with opened(database, clock) as (r, push):
        await r.sources.add("https://example.org/", name="site", kind="web")
        [access] = await push.access("site")
        stamp = str(int(clock.now.timestamp()))
        headers = {"webhook-id": "1", "webhook-timestamp": stamp}
        headers["webhook-signature"] = webhook_signature(access.secret, "1", stamp, body)
        verdict = await push.receive_call("site", headers, body)

    assert verdict.status == 400


async def test_a_sender_that_comes_too_often_is_told_to_wait(
    database: ScratchDatabase, clock: Clock, site: Site
) -> None:
    async with opened(database, clock, push_per_minute=2) as (r, push):
        await keep(r, site)
        [access] = await push.access("site")
        verdicts = [
            await push.receive_call("site", *call(access.secret, [], clock, delivery=f"d{number}"))
            for number in range(3)
        ]

    assert [one.status for one in verdicts] == [202, 202, 429]
    assert verdicts[2].retry_in_s == 60


ATOM = """<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><link rel="hub" href="{hub}"/>
<link rel="self" href="{site}/feed"/><entry><link href="{site}/p3"/></entry></feed>"""


def announce(site: Site, hub: Hub) -> None:
    """A home page that names its feed, which names the hub."""
    link = '<link rel="alternate" type="application/atom+xml" href="/feed">'
    site.alter("/", body=html("Page 0", "Home.", links=("/p1", "/p2"), head=link))
    feed = ATOM.format(hub=hub.url, site=site.url).encode()
    site.pages["/feed"] = type(site.default)(feed, headers={"Content-Type": "application/atom+xml"})


def at(interface: Interface, push: Push) -> None:
    interface.push, interface.home = push, asyncio.get_running_loop()


async def test_a_subscription_is_found_asked_for_verified_and_told(
    database: ScratchDatabase, clock: Clock, site: Site, hub: Hub, interface: Interface
) -> None:
    async with opened(database, clock, public_url=interface.url) as (r, push):
        await keep(r, site)
        announce(site, hub)
        at(interface, push)
        held = await push.subscribe("site")
        site.log.clear()
        feed = site.pages["/feed"].body
        told = await asyncio.to_thread(hub.publish, feed, method="sha512")
        forged = await asyncio.to_thread(hub.publish, feed, secret="a guess")
        await r.queue.work(until_idle=True)
        [run] = await r.runs.list("site", limit=1)

    assert (held.state, held.topic, held.expires_at) == ("active", f"{site.url}/feed", NOW + timedelta(days=10))
    assert held.renew_at == NOW + timedelta(days=8)
    assert hub.verdicts[0] == (200, "a challenge & more")
    assert (told[0], forged) == (202, (202, ""))
    assert (run.stats.only, site.asked()) == (1, ["/p3"])
    assert database.query("select count(*) from procrastinate_jobs") == [(1,)]


async def test_no_secret_of_a_subscription_stands_in_the_database(
    database: ScratchDatabase, clock: Clock, site: Site, hub: Hub, interface: Interface
) -> None:
    async with opened(database, clock, public_url=interface.url) as (r, push):
        await keep(r, site)
        announce(site, hub)
        at(interface, push)
        await push.subscribe("site")
    [form] = hub.asked_for
    stored = str(database.query("select row_to_json(push_subscription)::text from push_subscription"))

    assert len(form["hub.secret"]) == 64
    assert form["hub.secret"] not in stored
    assert form["hub.callback"].rpartition("/")[2] not in stored


async def test_a_subscription_is_renewed_before_it_ends(
    database: ScratchDatabase, clock: Clock, site: Site, hub: Hub, interface: Interface
) -> None:
    async with opened(database, clock, public_url=interface.url) as (r, push):
        await keep(r, site)
        announce(site, hub)
        at(interface, push)
        held = await push.subscribe("site")
        assert held.renew_at is not None
        for early in (timedelta(minutes=1), timedelta()):
            clock.now = held.renew_at - early
            async with r._engine.database.transaction() as c:
                await put_renewals(r._engine, c, clock.now)
                await put_renewals(r._engine, c, clock.now)
            await r.queue.work(until_idle=True)
        [renewed] = await push.list_subscriptions()

    assert [form["hub.mode"] for form in hub.asked_for] == ["subscribe", "subscribe"]
    assert hub.asked_for[0]["hub.secret"] == hub.asked_for[1]["hub.secret"]
    assert (renewed.state, renewed.expires_at) == ("active", held.renew_at + timedelta(days=10))


async def test_a_hub_may_deny_and_may_be_left(
    database: ScratchDatabase, clock: Clock, site: Site, hub: Hub, interface: Interface
) -> None:
    async with opened(database, clock, public_url=interface.url) as (r, push):
        await keep(r, site)
        announce(site, hub)
        at(interface, push)
        hub.denies = "Not for you."
        denied = await push.subscribe("site")
        over = await asyncio.to_thread(hub.publish, b"<feed/>")
        hub.denies = None
        again = await push.subscribe("site")
        await push.unsubscribe("site")
        left = await push.list_subscriptions()
        gone = await asyncio.to_thread(hub.publish, b"<feed/>")
        with pytest.raises(NotFoundError, match="subscribed to no hub"):
            await push.unsubscribe("site")

    assert (denied.state, denied.error) == ("denied", "The hub denied it. Not for you.")
    assert (over[0], again.state, left, gone[0]) == (410, "active", [], 410)


async def test_a_stranger_can_neither_confirm_nor_end_a_subscription(
    database: ScratchDatabase, clock: Clock, site: Site, hub: Hub, interface: Interface
) -> None:
    async with opened(database, clock, public_url=interface.url) as (r, push):
        await keep(r, site)
        announce(site, hub)
        at(interface, push)
        hub.asks_back = False
        await push.subscribe("site")
        token = hub.asked_for[0]["hub.callback"].rpartition("/")[2]
        topic = hub.asked_for[0]["hub.topic"]
        asked = [
            ("guess", {"hub.mode": "subscribe", "hub.topic": topic, "hub.challenge": "x"}),
            (token, {"hub.mode": "subscribe", "hub.topic": "https://elsewhere.example/", "hub.challenge": "x"}),
            (token, {"hub.mode": "unsubscribe", "hub.topic": topic, "hub.challenge": "x"}),
            (token, {}),
        ]
        verdicts = [await push.verify_websub(*one) for one in asked]
        [held] = await push.list_subscriptions()

    assert {one.status for one in verdicts} == {404}
    assert (held.state, held.expires_at) == ("pending", None)


@pytest.mark.parametrize(
    ("said", "days"), [("864000", 10.0), (None, 10.0), ("no number", 10.0), ("9" * 50, 90.0), ("-5", 10.0)]
)
def test_a_lease_is_what_the_hub_says_within_reason(said: str | None, days: float) -> None:
    expires_at, renew_at = lease_of(said, NOW)

    assert expires_at == NOW + timedelta(days=days)
    assert renew_at < expires_at


async def test_what_is_missing_for_push_is_said(
    database: ScratchDatabase, clock: Clock, site: Site, hub: Hub, interface: Interface
) -> None:
    async with opened(database, clock) as (r, push):
        await keep(r, site)
        with pytest.raises(NotFoundError, match="names no hub"):
            await push.subscribe("site")
        announce(site, hub)
        with pytest.raises(ConfigurationError, match="public address for callbacks of hubs"):
            await push.subscribe("site")
    async with opened(database, clock, public_url=interface.url) as (_, push):
        hub.answers = 500
        with pytest.raises(SourceError, match="answered with status 500"):
            await push.subscribe("site")
        [held] = await push.list_subscriptions()
        site.pages["/feed"].headers["Link"] = '<http://hub.example/>; rel="hub"'
        with pytest.raises(UsageError, match="without encryption"):
            await push.subscribe("site")
        # No addresses: the page names another hub.
        site.pages["/feed"].headers["Link"] = '<http://[>; rel="hub", <http://]/>; rel="self"'
        with pytest.raises(SourceError, match="answered with status 500"):
            await push.subscribe("site")
    async with database.open(push_key="short") as r:
        with pytest.raises(ConfigurationError, match="fewer than 16"):
            await r.push.access("site")
    async with database.open() as r:
        with pytest.raises(ConfigurationError, match="no push key"):
            await r.push.access("site")

    assert "status 500" in (held.error or "")
