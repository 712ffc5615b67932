"""Push: sync announced changes before scheduled work (pokes), and keep subscriptions to WebSub hubs alive.

A poke with URLs syncs only these items if their kind can check single items and they are stored; otherwise it syncs
the whole source. Several pokes of a source become one job.

WebSub (W3C Recommendation): the secret and the callback address of a subscription are derived from the push key and
never stored. A hub verifies a request at the callback address and grants a lease of some days, which a job of the tick
renews in time.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode, urlsplit

from rowen.connectors import registry
from rowen.errors import ConfigurationError, NotFoundError, SourceError, UsageError
from rowen.formats.feeds import header_links, link_tags
from rowen.harvest.engine import Engine
from rowen.jobs.queue import POKED, put, put_renewal
from rowen.model.hashes import Hash
from rowen.model.push import Poked, Subscription
from rowen.model.sources import Source
from rowen.model.url import joined, key
from rowen.model.webhooks import derived
from rowen.net.credentials import resolve
from rowen.net.target import redact
from rowen.settings import Settings
from rowen.store import push
from rowen.store import sources as store_sources
from rowen.store.database import Connection

if TYPE_CHECKING:
    from rowen.net.client import Client

MOST_POKED = 100
"""The maximum number of URLs of a job. Each URL is a request; a walk of 10,000 records takes as many, a change listing
a few. With a maximum of ten, a page of a feed would cost a walk."""

# A waiting job may start just before it is changed; then a new job is enqueued.
_TRIES = 3


class Concern(NamedTuple):
    """A source with announced changes, of the items with the stored URLs `urls`; of the whole source if it is empty."""

    source: Source
    urls: tuple[str, ...] = ()


async def poke(c: Connection, engine: Engine, concern: Concern) -> Poked:
    """Enqueue a sync of announced changes, as part of a transaction."""
    source, only = concern.source, list(dict.fromkeys(concern.urls))
    if len(only) > MOST_POKED or not hasattr(registry.connector(source.kind), "look"):
        only = []
    arguments = {"only": only, "widen": True} if only else {}
    for _ in range(_TRIES):
        job_id = await put(c, engine.database, source.id, priority=POKED, **arguments)
        if job_id is not None:
            return Poked(source.name, job_id, len(only))
        merged = await push.merge_into_waiting_sync(c, source.id, POKED, only, most=MOST_POKED)
        if merged is not None:
            return Poked(source.name, merged.job, merged.urls, merged=True)
    raise AssertionError("a job of the source starts whenever one is enqueued")


async def concerned(engine: Engine, sources: Iterable[Source], urls: Sequence[str]) -> list[Concern]:
    """Return the sources to which these URLs belong, each with the stored URLs of its items.

    A source is returned as a whole if one of the URLs is not stored but may belong to it.
    """
    by_key = {key(url): url for url in urls}
    async with engine.database.connection() as c:
        owners = await push.holders(c, list(by_key))
    concerns = []
    for source in sources:
        ours = {item_key: url for source_id, item_key, url in owners if source_id == source.id}
        others = [url for item_key, url in by_key.items() if item_key not in ours]
        try:
            covers = registry.covers(source.kind, source.url, dict(source.options), others)
        except UsageError:
            # The kind or its options are unknown to this process.
            covers = False
        if covers or ours:
            concerns.append(Concern(source, () if covers else tuple(ours.values())))
    return concerns


# Ten days, as most hubs grant: a machine that is off for a week misses no renewal.
LEASE = timedelta(days=10)
# The share of a lease before its renewal: two of ten days are left for an outage of the hub. Half of it would
# double the requests for nothing.
_RENEW_SHARE = 0.8
# The shortest renewal interval; shorter leases lapse in between.
_SHORTEST = timedelta(minutes=5)
# The longest lease, since a hub may disappear unnoticed.
_LONGEST = timedelta(days=90)
# The delay before an unverified request is repeated: most hubs verify within seconds.
_AGAIN = timedelta(hours=6)
_DIGITS = 9
_LEAST_KEY = 16  # characters: 80 bits if random
_RENEWALS = 50  # per tick; there is at least one tick a minute
_PAGE_BYTES = 2_000_000  # link elements are at the top of a page


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of WebSub: the URL that a page or feed declares for itself, and its hub."""

    url: str
    hub: str


def push_key(settings: Settings) -> bytes:
    """Return the key from which all push secrets are derived."""
    if settings.push_key is None:
        raise ConfigurationError(
            "There is no push key, so pushed requests cannot be signed. Nothing was done.",
            hint="Set ROWEN_PUSH_KEY to a secret of your own, or to env:NAME or file:PATH.",
        )
    key = resolve(settings.push_key.get_secret_value()).encode()
    if len(key) < _LEAST_KEY:
        raise ConfigurationError(f"The push key has fewer than {_LEAST_KEY} characters. Nothing was done.")
    return key


def secret_of(key: bytes, source: Source, topic: str) -> str:
    """Return the secret with which a hub signs its notifications."""
    return derived(key, "websub", source.url, topic).hex()


def callback_of(key: bytes, source: Source, topic: str) -> str:
    """Return the last part of the callback address, which cannot be guessed."""
    return base64.urlsafe_b64encode(derived(key, "callback", source.url, topic)[:24]).decode()


def callback_hash(token: str) -> Hash:
    """Return the stored hash of a callback token."""
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def lease_of(seconds_text: str | None, now: datetime) -> tuple[datetime, datetime]:
    """Return when a subscription with a hub's `lease_seconds` expires, and when to renew it."""
    is_number = seconds_text is not None and seconds_text.isascii() and seconds_text.isdigit()
    # A number with more digits exceeds the longest lease, and might exceed the range of dates.
    seconds = int((seconds_text or "")[:_DIGITS]) if is_number else LEASE.total_seconds()
    lease = min(timedelta(seconds=seconds), _LONGEST)
    return now + lease, now + max(lease * _RENEW_SHARE, _SHORTEST)


async def discover(engine: Engine, source: Source, url: str) -> Topic:
    """Return the topic that a page or feed declares, or the topic of the first feed that the page links."""
    async with engine.client_for(source) as client:
        topic, feeds = await _topic(engine, client, url)
        if topic is None and feeds:
            topic, _ = await _topic(engine, client, feeds[0])
    if topic is None:
        raise NotFoundError(
            f"{redact(url)} names no hub, so its changes cannot be pushed. Nothing was done.",
            hint="Give the source a schedule instead: --every auto.",
        )
    return topic


async def _topic(engine: Engine, client: Client, url: str) -> tuple[Topic | None, list[str]]:
    """Return the topic that a page or feed declares, None if there is none, and the URLs of the feeds that it links."""
    answer = await client.get(url, max_bytes=_PAGE_BYTES)
    if not answer.ok:
        raise SourceError(f"{redact(url)} answered with status {answer.status}.")
    all_links = [*header_links(answer.headers.getall("Link", ())), *await engine.workers.call(link_tags, answer.body)]
    links = [(link, href) for link in all_links if (href := joined(answer.url, link.href)) is not None]
    hub = next((href for link, href in links if link.rel == "hub"), None)
    itself = next((href for link, href in links if link.rel == "self"), answer.url)
    return None if hub is None else Topic(itself, hub), [href for link, href in links if link.is_feed]


async def subscribe(engine: Engine, source: Source, topic: Topic, *, now: datetime | None = None) -> Subscription:
    """Request a subscription; it is active once the hub has verified the request."""
    at = now or datetime.now(UTC)
    key = push_key(engine.settings)
    token = callback_of(key, source, topic.url)
    is_safe = False
    with suppress(ValueError):
        hub = urlsplit(topic.hub)
        networks = engine.settings.for_source(source.url).allow_addresses
        is_safe = hub.scheme == "https" or (
            hub.scheme == "http" and any(ip_address(hub.hostname or "") in network for network in networks)
        )
    if not is_safe:
        raise UsageError(
            f"The hub {redact(topic.hub)} would get the secret without encryption. Nothing was sent.",
            hint="Ask the publisher for a hub with https, or give the source a schedule.",
        )
    callback = _callback_url(engine.settings, token)
    async with engine.database.transaction() as c:
        # Stored first: a hub may verify the request before it answers.
        await push.store_request(
            c,
            source.id,
            topic=topic.url,
            hub=topic.hub,
            callback_hash=callback_hash(token),
            now=at,
            again_at=at + _AGAIN,
        )
    form = {"hub.secret": secret_of(key, source, topic.url), "hub.lease_seconds": str(int(LEASE.total_seconds()))}
    await _ask_hub(engine, source, topic, mode="subscribe", callback=callback, form=form)
    async with engine.database.connection() as c:
        stored = await push.subscription(c, source.id)
    assert stored is not None  # noqa: S101 (it was stored above, and only `unsubscribe` removes it)
    return stored


async def unsubscribe(engine: Engine, source: Source, subscription: Subscription) -> None:
    """Request the end of a subscription; refuse further notifications from now on."""
    key = push_key(engine.settings)
    callback = _callback_url(engine.settings, callback_of(key, source, subscription.topic))
    async with engine.database.transaction() as c:
        await push.settle(c, source.id, "ending", expires_at=subscription.expires_at, renew_at=None)
    await _ask_hub(
        engine, source, Topic(subscription.topic, subscription.hub), mode="unsubscribe", callback=callback, form={}
    )


async def renew(engine: Engine, source_id: int, *, now: datetime | None = None) -> None:
    """Renew the subscription of a source."""
    async with engine.database.connection() as c:
        source = await store_sources.by_id(c, source_id)
        known = await push.subscription(c, source_id)
    if source is not None and known is not None and known.state in ("pending", "active"):
        await subscribe(engine, source, Topic(known.topic, known.hub), now=now)


async def put_renewals(engine: Engine, c: Connection, now: datetime) -> None:
    """Enqueue renewals of subscriptions, as part of the tick."""
    for source_id in await push.due_renewals(c, now, limit=_RENEWALS):
        await put_renewal(c, engine.database, source_id)


async def _ask_hub(
    engine: Engine, source: Source, topic: Topic, *, mode: str, callback: str, form: dict[str, str]
) -> None:
    """Send a request to a hub; store and raise its refusal. The secret is sent in the body only."""
    body = urlencode({"hub.mode": mode, "hub.topic": topic.url, "hub.callback": callback, **form}).encode()
    async with engine.client_for(source) as client:
        answer = await client.request(
            "POST",
            topic.hub,
            body=body,
            headers={"Content-Type": "application/x-www-form-urlencoded"},
            follow=False,
            tries=1,
            max_bytes=_PAGE_BYTES,
        )
    if answer.ok:
        return
    why = f"The hub {redact(topic.hub)} answered with status {answer.status} to {mode}."
    async with engine.database.transaction() as c:
        await push.note_error(c, source.id, why)
    raise SourceError(why, hint="An earlier subscription stays as it was; the source is synced by its schedule.")


def _callback_url(settings: Settings, token: str) -> str:
    base = settings.public_url
    if base is None or urlsplit(base).scheme not in ("http", "https"):
        raise ConfigurationError(
            "The public address for callbacks of hubs is unknown. Nothing was done.",
            hint="Set ROWEN_PUBLIC_URL to the address of this server as it is reached from outside.",
        )
    return f"{base.rstrip('/')}/push/websub/{token}"
