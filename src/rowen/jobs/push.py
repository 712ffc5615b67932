"""Pokes: a source, or somebody who knows it, says that something changed, and it is looked at before all that is due.

Named items are looked at by themselves where their kind can do that and we hold them; otherwise the whole source is.
Several pokes of one source become one job.


WebSub (W3C Recommendation): subscribing to hubs that announce what changed, and staying subscribed.

The secret of a subscription and its callback address are derived from the push key and never stored. A hub is asked to
subscribe, asks back at the callback address whether we meant it, and lends the subscription for some days. It is
renewed before they are over, by a job that the tick makes.
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
from rowen.formats.feeds import FeedLink, header_links, link_tags
from rowen.harvest.engine import Engine
from rowen.jobs.queue import POKED, put
from rowen.model.hashes import Hash
from rowen.model.push import Poked, Subscription
from rowen.model.sources import Source
from rowen.model.url import joined, key
from rowen.model.webhooks import derived
from rowen.net.credentials import resolve
from rowen.net.target import redact
from rowen.settings import Settings
from rowen.store import push, queue
from rowen.store import sources as store_sources
from rowen.store.database import Connection

if TYPE_CHECKING:
    from rowen.net.client import Client
    from rowen.net.response import Response

__all__ = [
    "MOST_POKED",
    "Concern",
    "Topic",
    "callback_hash",
    "concerned",
    "discover",
    "lease_of",
    "poke",
    "push_key",
    "put_renewals",
    "renew",
    "secret_of",
    "subscribe",
    "unsubscribe",
]

MOST_POKED = 100
"""URLs of one job. Each is a request; a catalog of 10,000 records is walked for as many, and a listing of what changed
costs a few. With ten of them a page of a feed would cost a walk."""

# A job that waits may begin just when it is to be changed; the next one does not.
_TRIES = 3


class Concern(NamedTuple):
    """A source that something was said about: some of its items, by their stored URLs, or all of it."""

    source: Source
    urls: tuple[str, ...] = ()


async def poke(c: Connection, engine: Engine, concern: Concern) -> Poked:
    """Have a source looked at, as a part of a transaction."""
    source, only = concern.source, list(dict.fromkeys(concern.urls))
    if len(only) > MOST_POKED or not hasattr(registry.connector(source.kind), "look"):
        only = []
    told = {"only": only, "widen": True} if only else {}
    for _ in range(_TRIES):
        job_id = await put(c, engine.database, source.id, priority=POKED, **told)
        if job_id is not None:
            return Poked(source.name, job_id, len(only))
        merged = await push.merge_into_waiting_sync(c, source.id, POKED, only, most=MOST_POKED)
        if merged is not None:
            return Poked(source.name, merged.job, merged.urls, merged=True)
    raise AssertionError("a job for the source begins whenever one is put into the queue")


async def concerned(engine: Engine, sources: Iterable[Source], urls: Sequence[str]) -> list[Concern]:
    """Which sources some URLs concern: as a whole, where one of them is not held and may be theirs."""
    by_key = {key(url): url for url in urls}
    async with engine.database.connection() as c:
        held = await push.holders(c, list(by_key))
    found = []
    for source in sources:
        ours = {item_key: url for source_id, item_key, url in held if source_id == source.id}
        others = [url for item_key, url in by_key.items() if item_key not in ours]
        if _covers(source, others):
            found.append(Concern(source))
        elif ours:
            found.append(Concern(source, tuple(ours.values())))
    return found


def _covers(source: Source, urls: Sequence[str]) -> bool:
    """Whether one of some URLs may be of a source; of one whose kind or options are not known here, none is."""
    try:
        return registry.covers(source.kind, source.url, dict(source.options), urls)
    except UsageError:
        return False


# Ten days, as most hubs lend: a machine that is off for a week misses no renewal.
LEASE = timedelta(days=10)
# Of a lease: two of ten days are left for a hub that is down. At half of it, hubs are asked twice as often for nothing.
_RENEW_SHARE = 0.8
# A hub that lends for less is asked no more often, and the subscription lapses in between.
_SHORTEST = timedelta(minutes=5)
# A hub that lends for longer may be gone by then without a word.
_LONGEST = timedelta(days=90)
# A hub that was asked and never asked back: most do within seconds.
_AGAIN = timedelta(hours=6)
_DIGITS = 9
_LEAST_KEY = 16  # letters: 80 bits where they are random, as keys are
_RENEWALS = 50  # in one tick; a tick comes at least once a minute
_PAGE_BYTES = 2_000_000  # links for programs stand at the top of a page


@dataclass(frozen=True, slots=True)
class Topic:
    """What can be subscribed to: the address that a page or feed gives itself, and the hub that it names."""

    url: str
    hub: str


def push_key(settings: Settings) -> bytes:
    """The key that all secrets of pushes are derived from."""
    if settings.push_key is None:
        raise ConfigurationError(
            "There is no push key, so nobody can sign anything for us. Nothing was done.",
            hint="Set ROWEN_PUSH_KEY to a secret of your own, or to env:NAME or file:PATH.",
        )
    key = resolve(settings.push_key.get_secret_value()).encode()
    if len(key) < _LEAST_KEY:
        raise ConfigurationError(f"The push key has fewer than {_LEAST_KEY} letters. Nothing was done.")
    return key


def secret_of(key: bytes, source: Source, topic: str) -> str:
    """The secret that a hub signs with."""
    return derived(key, "websub", source.url, topic).hex()


def callback_of(key: bytes, source: Source, topic: str) -> str:
    """The last part of the callback address, which nobody can guess."""
    return base64.urlsafe_b64encode(derived(key, "callback", source.url, topic)[:24]).decode()


def callback_hash(token: str) -> Hash:
    """What is stored of a callback address."""
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def lease_of(said: str | None, now: datetime) -> tuple[datetime, datetime]:
    """When a subscription ends by a hub's word, and when it is renewed."""
    is_number = said is not None and said.isascii() and said.isdigit()
    # What has more digits is longer than the longest, and might be no date any more.
    seconds = int((said or "")[:_DIGITS]) if is_number else LEASE.total_seconds()
    lease = min(timedelta(seconds=seconds), _LONGEST)
    return now + lease, now + max(lease * _RENEW_SHARE, _SHORTEST)


async def discover(engine: Engine, source: Source, url: str) -> Topic:
    """The hub of a page or feed, by its headers or its links; or that of the first feed that it names."""
    async with engine.client_for(source) as client:
        answer, links = await _links(engine, client, url)
        found = _topic(answer.url, links)
        feeds = [link.href for link in links if link.is_feed]
        if found is None and feeds:
            answer, links = await _links(engine, client, feeds[0])
            found = _topic(answer.url, links)
    if found is None:
        raise NotFoundError(
            f"{redact(url)} names no hub, so nobody would tell us of its changes. Nothing was done.",
            hint="Give the source a schedule instead: --every auto.",
        )
    return found


async def _links(engine: Engine, client: Client, url: str) -> tuple[Response, list[FeedLink]]:
    answer = await client.get(url, max_bytes=_PAGE_BYTES)
    if not answer.ok:
        raise SourceError(f"{redact(url)} answered with status {answer.status}.")
    told = [*header_links(answer.headers.getall("Link", ())), *await engine.workers.call(link_tags, answer.body)]
    absolute = [(link, joined(answer.url, link.href)) for link in told]
    return answer, [link._replace(href=href) for link, href in absolute if href is not None]


def _topic(url: str, links: list[FeedLink]) -> Topic | None:
    hub = next((link.href for link in links if link.rel == "hub"), None)
    if hub is None:
        return None
    itself = next((link.href for link in links if link.rel == "self"), url)
    return Topic(itself, hub)


async def subscribe(engine: Engine, source: Source, topic: Topic, *, now: datetime | None = None) -> Subscription:
    """Ask a hub to tell us; the subscription is active when the hub has asked back."""
    at = now or datetime.now(UTC)
    key = push_key(engine.settings)
    token = callback_of(key, source, topic.url)
    _refuse_unsafe(engine.settings.for_source(source.url), topic.hub)
    callback = _callback_url(engine.settings, token)
    async with engine.database.transaction() as c:
        # Written first: a hub may ask back before it has answered.
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
        found = await push.subscription(c, source.id)
    assert found is not None  # noqa: S101 (it was written above, and only `unsubscribe` takes it away)
    return found


async def unsubscribe(engine: Engine, source: Source, held: Subscription) -> None:
    """Ask a hub to tell us no more; what it sends until it has asked back is taken no longer."""
    key = push_key(engine.settings)
    callback = _callback_url(engine.settings, callback_of(key, source, held.topic))
    async with engine.database.transaction() as c:
        await push.settle(c, source.id, "ending", expires_at=held.expires_at, renew_at=None)
    await _ask_hub(engine, source, Topic(held.topic, held.hub), mode="unsubscribe", callback=callback, form={})


async def renew(engine: Engine, source_id: int, *, now: datetime | None = None) -> None:
    """Ask the hub of a source once more, before its subscription ends."""
    async with engine.database.connection() as c:
        source = await store_sources.by_id(c, source_id)
        held = await push.subscription(c, source_id)
    if source is not None and held is not None and held.state in ("pending", "active"):
        await subscribe(engine, source, Topic(held.topic, held.hub), now=now)


async def put_renewals(engine: Engine, c: Connection, now: datetime) -> None:
    """Make jobs of the subscriptions that are to be renewed, as a part of the tick."""
    due = await push.due_renewals(c, now, limit=_RENEWALS)
    if not due:
        return
    from procrastinate.jobs import Job as Entry

    for source_id in due:
        name = f"push:{source_id}"
        entry = Entry(
            queue="sync",
            task_name="subscribe",
            lock=name,
            queueing_lock=name,
            task_kwargs={"source_id": source_id},
        )
        await queue.defer(c, engine.database, entry)


async def _ask_hub(
    engine: Engine, source: Source, topic: Topic, *, mode: str, callback: str, form: dict[str, str]
) -> None:
    """One question to a hub; what it refuses is kept with the subscription. The secret is in the body alone."""
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
    raise SourceError(why, hint="It keeps what it had before, if anything; the source is looked at by its schedule.")


def _callback_url(settings: Settings, token: str) -> str:
    base = settings.public_url
    if base is None or urlsplit(base).scheme not in ("http", "https"):
        raise ConfigurationError(
            "It is not known where hubs reach this machine. Nothing was done.",
            hint="Set ROWEN_PUBLIC_URL to the address of your doors as it is seen from outside.",
        )
    return f"{base.rstrip('/')}/push/websub/{token}"


def _refuse_unsafe(settings: Settings, hub: str) -> None:
    """A secret goes to a hub over TLS only, or inside a network that the user opened."""
    is_encrypted = is_ours = False
    with suppress(ValueError):
        parts = urlsplit(hub)
        is_encrypted = parts.scheme == "https"
        is_ours = parts.scheme == "http" and any(
            ip_address(parts.hostname or "") in network for network in settings.allow_addresses
        )
    if is_encrypted or is_ours:
        return
    raise UsageError(
        f"The hub {redact(hub)} would get our secret without encryption. Nothing was sent.",
        hint="Ask the publisher for a hub with https, or give the source a schedule.",
    )
