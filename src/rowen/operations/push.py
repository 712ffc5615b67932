"""Push: pokes, signed calls, GitHub webhooks and WebSub. Interfaces pass headers and bytes, and send the verdict.

No part of a body is parsed before its signature is verified, and a rejected caller learns nothing else.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from rowen.connectors.github.options import RepositoryAddress
from rowen.errors import Hint, NotFoundError, RefusedError, action
from rowen.formats.feeds import entry_links
from rowen.jobs.push import (
    Concern,
    callback_hash,
    concerned,
    discover,
    lease_of,
    poke,
    push_key,
    secret_of,
    subscribe,
    unsubscribe,
)
from rowen.model.access import Scope
from rowen.model.push import Poked, PushAccess, PushVerdict, Subscription
from rowen.model.sources import Source
from rowen.model.text import letters
from rowen.model.url import Address, path_url, segment
from rowen.model.webhooks import derived, is_hub_signed, is_webhook_signed, webhook_secret
from rowen.operations.operation import ResourceGroup, operation
from rowen.store import push
from rowen.store.database import Connection

if TYPE_CHECKING:
    from typing import Annotated

    from msgspec import Meta

    from rowen.operations.parameters import SourceName

log = logging.getLogger(__name__)

MOST_BYTES = 5_000_000
"""The maximum size of a push: two thousand commits. GitHub sends up to 25 MB; a larger push is ignored, and the
schedule finds its changes. Verifying the signature takes 10 ms, parsing the JSON 100 ms.
"""
MOST_URLS = 1000
"""The maximum number of URLs in one call. Beyond a tenth of it, the whole source is checked instead of single items."""
TOLERANCE_S = 300.0
"""The tolerance that Standard Webhooks recommends: clocks differ by less, and a later replay is rejected."""
_LONGEST_ID = 200  # the id of a delivery; GitHub's ids have 36 characters, others up to 100

_REFUSED = PushVerdict(401, "refused")
_TOO_LARGE = PushVerdict(413, "too large")
_UNREADABLE = PushVerdict(400, "unreadable")
_UNKNOWN = PushVerdict(404, "not found")
_OVER = PushVerdict(410, "gone")
_TOO_OFTEN = PushVerdict(429, "too often", retry_in_s=60.0)


class Push(ResourceGroup):
    """Push: signals that something changed."""

    def _prepare(self) -> None:
        self._now: Callable[[], datetime] = partial(datetime.now, UTC)

    @operation(scope=Scope.WRITE)
    async def poke(
        self, *targets: Annotated[str, Meta(description="URLs, or names of sources.", extra={"flag": "target"})]
    ) -> list[Poked]:
        """Sync sources before all that is due: by name, or by URLs that belong to them."""
        by_name = {source.name: source for source in await self._client.sources.list(counted=False)}
        wanted = [Concern(by_name[target]) for target in dict.fromkeys(targets) if target in by_name]
        # A file may be given by its path.
        urls = [
            path_url(target) if target.startswith((".", "/", "~")) else Address.of(target).text
            for target in targets
            if target not in by_name
        ]
        if urls:
            others = [source for source in by_name.values() if source.name not in targets]
            wanted += await concerned(self._engine, others, urls)
        if not wanted:
            raise NotFoundError(
                f"{', '.join(map(repr, targets))} belongs to no source.", hint=Hint(action("sources"), " lists them.")
            )
        if all(concern.source.state == "paused" for concern in wanted):
            names = ", ".join(concern.source.name for concern in wanted)
            raise RefusedError(f"Paused: {names}.", hint=Hint(action("resume", "NAME"), " takes a source in again."))
        async with self._database.transaction() as c:
            return await self._poke_all(c, wanted)

    @operation(scope=Scope.ADMIN)
    async def access(self, name: SourceName) -> list[PushAccess]:
        """Return the address that senders of a source call, and their signing secret."""
        source, key = await self._client.sources.get(name, counted=False), push_key(self._engine.settings)
        call = PushAccess("call", self._url(f"call/{segment(source.name)}"), self._call_secret(key, source))
        if source.kind not in ("git", "github"):
            return [call]
        return [PushAccess("github", self._url("github"), self._github_secret(key)), call]

    @operation(scope=Scope.READ)
    async def list_subscriptions(self) -> list[Subscription]:
        """List all subscriptions to hubs."""
        async with self._database.connection() as c:
            return await push.subscriptions(c)

    @operation(scope=Scope.WRITE)
    async def subscribe(
        self,
        name: SourceName,
        *,
        topic: Annotated[
            str | None, Meta(description="A page or feed that names the hub; that of the source if omitted.")
        ] = None,
    ) -> Subscription:
        """Subscribe to changes of a source at a hub; `topic` is a page or feed that names the hub."""
        source = await self._client.sources.get(name, counted=False)
        push_key(self._engine.settings)
        hub = await discover(self._engine, source, topic or source.url)
        return await subscribe(self._engine, source, hub, now=self._now())

    @operation(scope=Scope.WRITE)
    async def unsubscribe(self, name: SourceName) -> None:
        """Cancel the subscription of a source."""
        source = await self._client.sources.get(name, counted=False)
        async with self._database.connection() as c:
            subscription = await push.subscription(c, source.id)
        if subscription is None:
            raise NotFoundError(f"Source {name!r} is subscribed to no hub.")
        await unsubscribe(self._engine, source, subscription)

    @operation(scope=None)
    async def receive_github(self, headers: Mapping[str, str], body: bytes) -> PushVerdict:
        """Verify a webhook of GitHub, and sync the sources that it concerns."""
        sent = _lowered(headers)
        if len(body) > MOST_BYTES:
            return _TOO_LARGE
        # Without a push key no push is accepted; callers learn no details.
        if self._settings.push_key is None:
            return _UNKNOWN
        signature = sent.get("x-hub-signature-256", "")
        secret = self._github_secret(push_key(self._engine.settings))
        if not is_hub_signed(signature if signature.startswith("sha256=") else None, body, secret):
            return _REFUSED
        event, delivery = sent.get("x-github-event", ""), sent.get("x-github-delivery", "")
        if event == "ping":
            return PushVerdict(200, "pong")
        # By default GitHub sends the JSON in a form.
        if sent.get("content-type", "").startswith("application/x-www-form-urlencoded"):
            try:
                body = parse_qs(body.decode(), max_num_fields=10).get("payload", [""])[0].encode()
            except ValueError:
                body = b""
        payload = _json_of(body)
        if not isinstance(payload, dict) or not delivery:
            return _UNREADABLE
        sources = list(sources_of(event, payload, await self._client.sources.list(counted=False)))
        if not sources:
            return PushVerdict(202, "nothing of ours")
        repository = payload.get("repository")
        name = repository.get("full_name") if isinstance(repository, dict) else None
        sender = letters(str(name))[:_LONGEST_ID]
        return await self._take(f"github:{sender}", delivery, [Concern(source) for source in sources])

    @operation(scope=None)
    async def receive_call(self, name: SourceName, headers: Mapping[str, str], body: bytes) -> PushVerdict:
        """Verify a signed call (Standard Webhooks) that URLs of a source changed: `{"urls": […]}`.

        Only a caller with a valid signature learns whether the source exists.
        """
        sent = _lowered(headers)
        if len(body) > MOST_BYTES:
            return _TOO_LARGE
        if self._settings.push_key is None:
            return _UNKNOWN
        key = push_key(self._engine.settings)
        try:
            source = await self._client.sources.get(name, counted=False)
        except NotFoundError:
            source = None
        secret = self._call_secret(key, source) if source else webhook_secret(derived(key, "nobody"))
        delivery, timestamp = sent.get("webhook-id", ""), sent.get("webhook-timestamp", "")
        signed = is_webhook_signed(
            sent.get("webhook-signature"), secret, delivery=delivery, timestamp=timestamp, body=body
        )
        is_time = timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= len("9999999999")
        is_recent = is_time and abs(self._now().timestamp() - int(timestamp)) <= TOLERANCE_S
        if not (signed and source and delivery and is_recent):
            return _REFUSED
        urls = _urls_of(_json_of(body))
        if urls is None:
            return _UNREADABLE
        wanted = await concerned(self._engine, [source], urls) if urls else [Concern(source)]
        return await self._take(f"call:{source.id}", delivery, wanted)

    @operation(scope=None)
    async def verify_websub(self, token: str, query: Mapping[str, str]) -> PushVerdict:
        """Answer a hub's verification of a subscription, or its denial."""
        async with self._database.transaction() as c:
            called = await push.by_callback(c, callback_hash(token))
            if called is None or query.get("hub.topic") != called[1].topic:
                return _UNKNOWN
            source_id, subscription = called
            match query.get("hub.mode"), subscription.state:
                case "denied", _:
                    why = letters(query.get("hub.reason") or "")
                    await push.note_error(c, source_id, f"The hub denied it. {why}".strip(), state="denied")
                    return PushVerdict(200)
                case "subscribe", "pending" | "active":
                    expires_at, renew_at = lease_of(query.get("hub.lease_seconds"), self._now())
                    await push.settle(c, source_id, "active", expires_at=expires_at, renew_at=renew_at)
                case "unsubscribe", "ending":
                    await push.remove_subscription(c, source_id)
                case _:
                    return _UNKNOWN
        return PushVerdict(200, query.get("hub.challenge", ""))

    @operation(scope=None)
    async def receive_websub(self, token: str, headers: Mapping[str, str], body: bytes) -> PushVerdict:
        """Check the pages that a hub's signed message names, or the whole source.

        An unsigned message is acknowledged and ignored, as the standard demands: a forger learns nothing.
        """
        if len(body) > MOST_BYTES:
            return _TOO_LARGE
        async with self._database.transaction() as c:
            called = await push.by_callback(c, callback_hash(token))
        if called is None or called[1].state in ("ending", "denied"):
            return _OVER
        source = await self._client.sources.get(called[1].source, counted=False)
        secret = secret_of(push_key(self._engine.settings), source, called[1].topic)
        if not is_hub_signed(_lowered(headers).get("x-hub-signature"), body, secret):
            log.warning("ignored what came for %s without a signature that fits", source.name)
            return PushVerdict(202)
        urls = await self._engine.workers.call(entry_links, body)
        wanted = await concerned(self._engine, [source], urls[:MOST_URLS])
        # A hub's messages have no ids; only their rate can be limited.
        return await self._take(f"websub:{source.id}", secrets.token_hex(16), wanted or [Concern(source)])

    async def _take(self, sender: str, delivery: str, wanted: Sequence[Concern]) -> PushVerdict:
        """Accept a delivery once, and limit the deliveries of one sender; jobs are created in the same transaction."""
        if len(delivery) > _LONGEST_ID:
            return _UNREADABLE
        per_minute = self._engine.settings.push_per_minute
        async with self._database.transaction() as c:
            is_new = await push.take_delivery(c, sender, letters(delivery), per_minute=per_minute)
            if is_new is None:
                return _TOO_OFTEN
            if not is_new:
                return PushVerdict(202, "taken before")
            return PushVerdict(202, "taken", tuple(await self._poke_all(c, wanted)))

    async def _poke_all(self, c: Connection, wanted: Sequence[Concern]) -> list[Poked]:
        return [await poke(c, self._engine, concern) for concern in wanted if concern.source.state == "active"]

    def _url(self, path: str) -> str | None:
        base = self._engine.settings.public_url
        return f"{base.rstrip('/')}/push/{path}" if base else None

    @staticmethod
    def _call_secret(key: bytes, source: Source) -> str:
        return webhook_secret(derived(key, "call", source.kind, source.url))

    @staticmethod
    def _github_secret(key: bytes) -> str:
        return derived(key, "github").hex()


def _lowered(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _json_of(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _urls_of(value: Any) -> list[str] | None:
    """Return the URLs of a call, None if the call is invalid; an empty list means the whole source."""
    inner = value.get("data", value) if isinstance(value, dict) else None
    urls = inner.get("urls") if isinstance(inner, dict) else None
    if not isinstance(urls, list) or len(urls) > MOST_URLS or not all(isinstance(url, str) for url in urls):
        return None
    return urls


_BRANCH, _TAG = "refs/heads/", "refs/tags/"


# The option of a source that includes the subject of an event.
_PARTS: Mapping[str, str] = {
    "issues": "issues",
    "release": "releases",
    "gollum": "wiki",
    "discussion": "discussions",
}


def sources_of(event: str, payload: Any, sources: Iterable[Source]) -> Iterator[Source]:
    """Yield the sources that an event of a repository changed."""
    repository = payload.get("repository") if isinstance(payload, dict) else None
    if not isinstance(repository, dict):
        return
    places = {
        place for name in ("html_url", "clone_url", "ssh_url", "git_url") if (place := _place(repository.get(name)))
    }
    for source in sources:
        if source.kind == "git":
            refs = [str(source.options.get("ref") or "")]
            concerns = event == "push" and _place(source.url) in places
        elif source.kind == "github" and (address := RepositoryAddress.parse(source.url)) is not None:
            # The tail may begin with a ref that contains slashes, so each possible ref is compared.
            refs = [ref for ref, _ in address.places()] if address.tail else [""]
            concerns = _place(address.repository) in places
        else:
            continue
        if concerns and event != "push":
            concerns = bool(source.options.get(_PARTS.get(event, "")))
        elif concerns:
            concerns = any(_is_of(ref, payload, repository) for ref in refs)
        if concerns:
            yield source


def _is_of(ref: str, payload: dict[str, Any], repository: dict[str, Any]) -> bool:
    """Return whether a push changed this branch or tag; without `ref`, whether it changed the default branch."""
    pushed = str(payload.get("ref") or "")
    if ref in ("", "HEAD"):
        return pushed == f"{_BRANCH}{repository.get('default_branch')}"
    return pushed in (ref, _BRANCH + ref, _TAG + ref)


def _place(url: Any) -> str:
    """Return host and path of a repository, equal for all notations of its URL; empty for any other text."""
    if not isinstance(url, str):
        return ""
    plain = url.removeprefix("git+")
    if "://" not in plain and ":" in plain:
        plain = "ssh://" + plain.replace(":", "/", 1)
    try:
        parts = urlsplit(plain)
        return f"{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path.removesuffix('.git')}".casefold()
    except ValueError:
        return ""
