"""Access: tokens, sessions, people of an identity provider, and the audit log."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING

from rowen.errors import BusyError, NotFoundError, TooManyRequestsError, UsageError
from rowen.model.access import (
    AccessToken,
    AuditLine,
    Credential,
    NewSession,
    NewToken,
    Principal,
    RepeatedAnswer,
    Scope,
)
from rowen.operations.identity import IdentityProvider
from rowen.operations.operation import ResourceGroup, operation
from rowen.operations.paging import Page, as_number, decoded, page_of
from rowen.store import access

if TYPE_CHECKING:
    from typing import Annotated

    from msgspec import Meta

    from rowen.operations.parameters import After, Limit, NewName, SecretReference

__all__ = ["TOKEN_PREFIX", "Access"]

TOKEN_PREFIX = "rowen_"  # noqa: S105 (what tokens begin with, so that scanners for leaked secrets find them)
TOKEN_DAYS = 90
"""How long a token holds unless somebody says otherwise: long enough for a quarter, too short to be forgotten."""
# 256 bits: nobody guesses one, so that a plain hash is enough.
_SECRET_BYTES = 32
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,99}")
# Who repeats a request does so within minutes, a queue that was stopped over night within a day.
_ANSWERS_KEPT_H = 24
# Longer than any request takes: what was begun before has died.
_LONGEST_REQUEST_S = 3600.0
# Those of clients are UUIDs; more than this is no key.
_LONGEST_KEY = 200
# One in nine seconds, all day long: a job that writes so often repeats itself within minutes, not within a day. Answers
# have a kilobyte; ten times as many with the longest answers would take the disk.
_MOST_ANSWERS = 10_000
_FULL_RETRY_S = 600.0


class Access(ResourceGroup):
    """Tokens, sessions and the audit log."""

    def _prepare(self) -> None:
        self._session_hours = self._settings.session_hours
        self._audit_days = self._settings.audit_kept_days
        self._people = IdentityProvider(self._engine) if self._settings.oidc_issuer else None

    @operation(scope=Scope.ADMIN)
    async def list_tokens(self) -> list[AccessToken]:
        """List all tokens by name."""
        async with self._database.connection() as c:
            return await access.tokens(c)

    @operation(scope=Scope.ADMIN)
    async def add_token(
        self,
        name: NewName,
        *,
        scope: Annotated[
            str, Meta(pattern="^(read|write|admin)$", description="Scope of the token: read, write or admin.")
        ] = Scope.READ,
        days: Annotated[float, Meta(gt=0, description="Days until the token expires; null for never.")]
        | None = TOKEN_DAYS,
        now: Annotated[datetime | None, Meta(extra={"local": True})] = None,
    ) -> NewToken:
        """Create a token. Its secret is returned once and stored nowhere; without `days` it does not expire."""
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{name!r} is no name for a token.", hint="Letters, digits and . _ @ -, a hundred at most."
            )
        expires_at = None if days is None else (now or datetime.now(UTC)) + _days(days)
        secret = TOKEN_PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
        async with self._database.connection() as c:
            made = await access.add_token(c, name, digest=_digest(secret), scope=_scope(scope), expires_at=expires_at)
        return NewToken(made, secret)

    @operation(scope=Scope.ADMIN)
    async def revoke_token(self, name: Annotated[str, Meta(description="Name of the token.")]) -> None:
        """Revoke a token and all sessions that were opened with it."""
        async with self._database.connection() as c:
            await access.remove_token(c, name)

    @operation(scope=None)
    async def identify(self, secret: SecretReference) -> Principal | None:
        """Return the principal of a token or of a signed token of the identity provider; None if unknown."""
        if not secret.startswith(TOKEN_PREFIX):
            named = await self._people.identify(secret) if self._people is not None else None
            return named[0] if named else None
        async with self._database.connection() as c:
            found = await access.of_token(c, _digest(secret))
        return found[0] if found else None

    @operation(scope=None)
    async def open_session(
        self, secret: SecretReference, *, now: Annotated[datetime | None, Meta(extra={"local": True})] = None
    ) -> NewSession | None:
        """Open a session for the owner of a token, ending with the token; None for an unknown token."""
        ends = (now or datetime.now(UTC)) + timedelta(hours=self._session_hours)
        cookie = secrets.token_urlsafe(_SECRET_BYTES)
        async with self._database.connection() as c:
            if secret.startswith(TOKEN_PREFIX):
                held = await access.of_token(c, _digest(secret))
                if held is None:
                    return None
                principal, token_id = held
                ends = await access.add_session(
                    c, principal, digest=_digest(cookie), token_id=token_id, expires_at=ends
                )
                return NewSession(cookie, ends)
        named = await self._people.identify(secret) if self._people is not None else None
        return await self._person_session(named, ends)

    @operation(scope=None)
    async def begin_login(self, back_to: str) -> tuple[str, str]:
        """Return the login address of the identity provider, and what the browser stores until it returns."""
        return await self._provider().begin(back_to)

    @operation(scope=None)
    async def finish_login(self, *, code: str, state: str, kept: str, back_to: str) -> NewSession | None:
        """Return a session for the person who returned from the login; None if the person has no access."""
        named = await self._provider().finish(code=code, state=state, kept=kept, back_to=back_to)
        return await self._person_session(named, datetime.now(UTC) + timedelta(hours=self._session_hours))

    def _provider(self) -> IdentityProvider:
        if self._people is None:
            raise NotFoundError("No identity provider is set.", hint="ROWEN_OIDC_ISSUER names one.")
        return self._people

    async def _person_session(self, named: tuple[Principal, datetime] | None, ends: datetime) -> NewSession | None:
        """Open a session that ends with the provider's token at the latest."""
        if named is None:
            return None
        cookie = secrets.token_urlsafe(_SECRET_BYTES)
        async with self._database.connection() as c:
            until = await access.add_session(
                c, named[0], digest=_digest(cookie), token_id=None, expires_at=min(ends, named[1])
            )
        return NewSession(cookie, until)

    @operation(scope=None)
    async def identify_session(self, cookie: str) -> Principal | None:
        """Return the principal of a session; None if it has ended."""
        async with self._database.connection() as c:
            return await access.of_session(c, _digest(cookie))

    @operation(scope=None)
    async def valid_credentials(
        self,
        credentials: Collection[Credential],
        *,
        now: Annotated[datetime | None, Meta(extra={"local": True})] = None,
    ) -> set[Credential]:
        """Return the credentials that still hold: not revoked, not expired."""
        digests = [credential.digest for credential in credentials if credential.digest is not None]
        held: set[bytes] = set()
        if digests:
            async with self._database.connection() as c:
                held = await access.valid_digests(c, digests)
        moment = now or datetime.now(UTC)
        return {
            credential
            for credential in credentials
            if credential.digest in held or (credential.expires_at and credential.expires_at > moment)
        }

    @operation(scope=None)
    async def close_session(self, cookie: str) -> None:
        """End a session."""
        async with self._database.connection() as c:
            await access.drop_session(c, _digest(cookie))

    @operation(scope=None)
    async def record_write(
        self, principal: Principal, *, address: str | None, method: str, path: str, status: int, request: str
    ) -> None:
        """Record a write and its answer in the audit log."""
        async with self._database.connection() as c:
            await access.audit(c, [principal.name, address, method, path, status, request])

    @operation(scope=Scope.ADMIN)
    async def audit_log(
        self,
        *,
        principal: Annotated[str | None, Meta(description="Only writes of this principal.")] = None,
        limit: Limit = 100,
        after: After | None = None,
    ) -> Page[AuditLine]:
        """List the writes through the server, newest first."""
        listing = ["audit", principal]
        place = decoded(after, listing, as_number)
        async with self._database.connection() as c:
            found = await access.audit_lines(
                c, limit=limit + 1, before=place[0] if place else None, principal=principal
            )
        return page_of(found, limit, listing, lambda line: [line.id])

    @operation(scope=None)
    async def claim_answer(self, principal: str, key: str, fingerprint: bytes) -> RepeatedAnswer | None:
        """Return the stored answer to a repeated request; None for a new request key, which is claimed.

        Raises if the key was used for another request, or if the first request is still running.
        """
        if not key.strip() or len(key) > _LONGEST_KEY or not key.isprintable():
            raise UsageError("The idempotency key is no key.", hint="A UUID, or up to 200 printable letters.")
        async with self._database.connection() as c:
            if await access.is_full(c, principal, key, most=_MOST_ANSWERS):
                raise TooManyRequestsError(
                    f"{_MOST_ANSWERS:,} idempotency keys of this caller are kept. Nothing was done.",
                    retry_in_s=_FULL_RETRY_S,
                    hint="They are kept for a day. A request without a key is taken.",
                )
            held = await access.claim_answer(
                *(c, principal, key),
                fingerprint=fingerprint,
                kept_h=_ANSWERS_KEPT_H,
                longest_s=_LONGEST_REQUEST_S,
            )
        if held is None:
            return None
        if held[0] != fingerprint:
            raise UsageError(
                "The idempotency key was used for another request. Nothing was done.",
                hint="Take a new key for each request, and the same one only to repeat it.",
            )
        if held[1] is None:
            raise BusyError("The same request is under way. Nothing was done.", hint="Ask again in a moment.")
        return held[1]

    @operation(scope=None)
    async def store_answer(self, principal: str, key: str, answer: RepeatedAnswer | None) -> None:
        """Store the answer to a claimed request; None releases the key after a failure."""
        async with self._database.connection() as c:
            if answer is None:
                await access.drop_answer(c, principal, key)
            else:
                await access.keep_answer(c, principal, key, answer)

    @operation(scope=None)
    async def delete_expired(self) -> None:
        """Delete expired sessions, answers and lines of the audit log."""
        async with self._database.connection() as c:
            await access.forget_over(c, kept_h=_ANSWERS_KEPT_H, audit_days=self._audit_days)


def _digest(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "replace")).digest()


def _scope(name: str) -> Scope:
    try:
        return Scope(name)
    except ValueError:
        raise UsageError(f"There is no scope {name!r}.", hint=f"The scopes are: {', '.join(Scope)}.") from None


def _days(days: float) -> timedelta:
    # A hundred years: more is no date that anybody means.
    if not 0 < days <= 36_500:
        raise UsageError(f"{days:g} days is no time for a token to hold.")
    return timedelta(days=days)
