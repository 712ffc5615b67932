"""Webhooks and notices: programs and people that receive changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from rowen.errors import UsageError
from rowen.harvest import agreements
from rowen.jobs.webhooks import deliver, subject_of
from rowen.model.access import Scope
from rowen.model.changes import ChangeKind
from rowen.model.search import check_words
from rowen.model.sources import one_or_more
from rowen.model.webhooks import WEBHOOK_PREFIX, Delivery, Webhook, WebhookFilter, WebhookForm, webhook_key
from rowen.model.wording import check_name
from rowen.net.credentials import exposed_in, references, resolve
from rowen.net.target import parse
from rowen.operations.operation import ResourceGroup, operation
from rowen.store import changes, schedules, webhooks
from rowen.store import sources as source_store

if TYPE_CHECKING:
    from typing import Annotated

    from msgspec import Meta

    from rowen.operations.parameters import (
        Limit,
        NewName,
        OnlyChangeKinds,
        OnlySources,
        SecretReference,
        SinceNumber,
    )

# A signature is useless if its key can be guessed; the specification requires 24 bytes.
_SHORTEST_SECRET = 24


class Webhooks(ResourceGroup):
    """Webhooks and notices."""

    @operation(scope=Scope.READ)
    async def list_notices(self) -> list[Webhook]:
        """List all notices by name."""
        async with self._database.connection() as c:
            return await webhooks.every(c, "notice")

    @operation(scope=Scope.ADMIN)
    async def add(
        self,
        name: NewName,
        url: Annotated[str, Meta(description="Address to call.", min_length=1, max_length=4000)],
        *,
        secret: SecretReference,
        sources: OnlySources = (),
        kinds: OnlyChangeKinds = (),
        query: Annotated[str | None, Meta(description="Only changes of items that contain these words.")] = None,
        since: SinceNumber | None = None,
    ) -> Webhook:
        """Add a webhook that receives changes from now on, or after a number.

        Messages are signed as Standard Webhooks specifies; `secret` is env:NAME or file:PATH.
        """
        parse(url)
        if exposed_secret := exposed_in(url):
            raise UsageError(
                f"The address of webhook {name!r} carries {exposed_secret}, which would be stored in clear.",
                hint="Messages are signed: let the receiver check the signature instead.",
            )
        _check_secret(secret)
        check_words(query)
        wants = WebhookFilter(one_or_more(sources), tuple(kinds), query)
        return await self._add(name, url, "webhook", secret, wants, since)

    @operation(scope=Scope.ADMIN)
    async def add_notice(
        self,
        name: NewName,
        target: Annotated[
            str, Meta(description="Where the server finds the address of the recipients: env:NAME or file:PATH.")
        ],
        *,
        sources: OnlySources = (),
        kinds: OnlyChangeKinds = (),
        query: Annotated[str | None, Meta(description="Only changes of items that contain these words.")] = None,
        since: SinceNumber | None = None,
    ) -> Webhook:
        """Add a notice: people receive changes through Apprise; `target` is env:NAME or file:PATH of the address."""
        _need_reference("The address of people", target)
        resolve(target)
        check_words(query)
        wants = WebhookFilter(one_or_more(sources), tuple(kinds), query)
        return await self._add(name, target, "notice", target, wants, since)

    async def _add(
        self, name: str, url: str, form: WebhookForm, secret: str, wants: WebhookFilter, since: int | None
    ) -> Webhook:
        check_name(name, "a receiver")
        if unknown := [kind for kind in wants.kinds if kind not in get_args(ChangeKind)]:
            known = ", ".join(get_args(ChangeKind))
            raise UsageError(f"There are no changes of the kind {unknown[0]!r}.", hint=f"There are: {known}.")
        async with self._database.transaction() as c:
            for source in wants.sources:
                await source_store.get(c, source)
            after = await changes.last_number(c) if since is None else since
            webhook = await webhooks.add(c, name, url, form=form, secrets=[secret], wants=wants, after=after)
            self._agree(webhook)
            await schedules.notify_workers(c)
        return webhook

    @operation(scope=Scope.ADMIN)
    async def remove(self, name: Annotated[str, Meta(description="Name of the webhook.")]) -> None:
        """Remove a webhook or notice, with its deliveries."""
        async with self._database.transaction() as c:
            await webhooks.remove(c, (await webhooks.get(c, name)).id)

    @operation(scope=Scope.WRITE)
    async def pause(self, name: Annotated[str, Meta(description="Name of the webhook.")]) -> Webhook:
        """Pause a webhook or notice; changes wait."""
        async with self._database.transaction() as c:
            await webhooks.set_state(c, (await webhooks.get(c, name)).id, "paused")
            return await webhooks.get(c, name)

    @operation(scope=Scope.WRITE)
    async def resume(
        self, name: Annotated[str, Meta(description="Name of the webhook.")], *, since: SinceNumber | None = None
    ) -> Webhook:
        """Resume a webhook or notice, also a disabled one; `since` sends the changes after that number again."""
        async with self._database.transaction() as c:
            webhook = await webhooks.get(c, name)
            if since is not None:
                await webhooks.set_after(c, webhook.id, since)
            await webhooks.set_state(c, webhook.id, "active")
            await schedules.notify_workers(c)
            return await webhooks.get(c, name)

    @operation(scope=Scope.ADMIN)
    async def rotate(
        self,
        name: Annotated[str, Meta(description="Name of the webhook.")],
        *,
        secret: SecretReference,
        keep: Annotated[bool, Meta(description="Sign with the previous secret as well, for a while.")] = True,
    ) -> Webhook:
        """Sign with another secret; for the period `keep`, also with the previous one."""
        _check_secret(secret)
        async with self._database.transaction() as c:
            webhook = await webhooks.get(c, name)
            await webhooks.set_secrets(c, webhook.id, [secret, *webhook.secrets[:1]] if keep else [secret])
            webhook = await webhooks.get(c, name)
            self._agree(webhook)
            return webhook

    @operation(scope=Scope.READ)
    async def deliveries(
        self, name: Annotated[str, Meta(description="Name of the webhook.")], *, limit: Limit = 20
    ) -> list[Delivery]:
        """List the last calls with their results, newest first."""
        async with self._database.connection() as c:
            await webhooks.get(c, name)
            return await webhooks.deliveries(c, name, limit=limit)

    @operation(scope=Scope.WRITE)
    async def deliver(self, name: Annotated[str, Meta(description="Name of the webhook.")]) -> int:
        """Call a webhook now, in this process; return the number of acknowledged changes."""
        async with self._database.connection() as c:
            webhook = await webhooks.get(c, name)
        return await deliver(self._engine, webhook.id)

    def _agree(self, webhook: Webhook) -> None:
        subject = subject_of(webhook)
        agreements.agree(self._engine.settings, subject.kind, subject.url, subject.options)

    @operation(scope=Scope.READ)
    async def list(self) -> list[Webhook]:
        """List all webhooks by name."""
        async with self._database.connection() as c:
            return await webhooks.every(c, "webhook")


def _check_secret(reference: str) -> None:
    """Raise `UsageError` for a secret that could be guessed, or that the receiver could not decode."""
    _need_reference("The secret of a webhook", reference)
    secret = resolve(reference)
    key = webhook_key(secret)
    if len(secret) < _SHORTEST_SECRET or (secret.startswith(WEBHOOK_PREFIX) and len(key or "") < _SHORTEST_SECRET):
        raise UsageError(
            f"The secret in {reference} is shorter than {_SHORTEST_SECRET} characters and could be guessed, or what"
            f" follows {WEBHOOK_PREFIX} is not base64 of as many bytes. Nothing was changed.",
            hint=f"Make one: {WEBHOOK_PREFIX}$(head -c {_SHORTEST_SECRET} /dev/urandom | base64)",
        )


def _need_reference(what: str, value: str) -> None:
    if not any(references({"secret": value})):
        raise UsageError(f"{what} is given by where it is found, never itself.", hint="Such as env:NAME or file:/path.")
