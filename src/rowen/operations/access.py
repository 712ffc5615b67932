"""Access: tokens, sessions, people of an identity provider (OpenID Connect), and the audit log."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import logging
import re
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from rowen.connectors.base import Meter
from rowen.errors import BusyError, ConfigurationError, NotFoundError, RowenError, TooManyRequestsError, UsageError
from rowen.harvest.engine import Engine
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
from rowen.net.credentials import resolve
from rowen.operations.operation import ResourceGroup, operation
from rowen.operations.paging import Page, as_number, decoded, page_of
from rowen.store import access

if TYPE_CHECKING:
    from typing import Annotated

    from joserfc.jwk import KeySet
    from msgspec import Meta

    from rowen.operations.parameters import After, Limit, NewName, SecretReference

TOKEN_PREFIX = "rowen_"  # noqa: S105 (what tokens begin with, so that scanners for leaked secrets find them)
TOKEN_DAYS = 90
"""The default lifetime of a token: long enough for a quarter, too short to be forgotten."""
# 256 bits cannot be guessed, so a plain hash is sufficient.
_SECRET_BYTES = 32
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,99}")
# A client repeats a request within minutes; a queue that was stopped overnight repeats it within a day.
_ANSWERS_KEPT_H = 24
# Longer than any request takes: a request that began earlier has failed.
_LONGEST_REQUEST_S = 3600.0
# Clients use UUIDs; a longer text is not a key.
_LONGEST_KEY = 200
# One in nine seconds, all day long. A job that writes so often repeats its requests within minutes, not within a day.
# Answers have a kilobyte; ten times as many of the longest answers would fill the disk.
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
        # A hundred years; nobody needs a longer period.
        if days is not None and not 0 < days <= 36_500:
            raise UsageError(f"{days:g} days is no time for a token to hold.")
        expires_at = None if days is None else (now or datetime.now(UTC)) + timedelta(days=days)
        try:
            checked = Scope(scope)
        except ValueError:
            raise UsageError(f"There is no scope {scope!r}.", hint=f"The scopes are: {', '.join(Scope)}.") from None
        secret = TOKEN_PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
        async with self._database.connection() as c:
            token = await access.add_token(c, name, digest=_digest(secret), scope=checked, expires_at=expires_at)
        return NewToken(token, secret)

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
            known = await access.of_token(c, _digest(secret))
        return known[0] if known else None

    @operation(scope=None)
    async def open_session(
        self, secret: SecretReference, *, now: Annotated[datetime | None, Meta(extra={"local": True})] = None
    ) -> NewSession | None:
        """Open a session for the owner of a token, ending with the token; None for an unknown token."""
        ends = (now or datetime.now(UTC)) + timedelta(hours=self._session_hours)
        cookie = secrets.token_urlsafe(_SECRET_BYTES)
        async with self._database.connection() as c:
            if secret.startswith(TOKEN_PREFIX):
                known = await access.of_token(c, _digest(secret))
                if known is None:
                    return None
                principal, token_id = known
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
        """Open a session that ends at `ends` at the latest, when the provider's token expires."""
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
        valid: set[bytes] = set()
        if digests:
            async with self._database.connection() as c:
                valid = await access.valid_digests(c, digests)
        moment = now or datetime.now(UTC)
        return {
            credential
            for credential in credentials
            if credential.digest in valid or (credential.expires_at and credential.expires_at > moment)
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
            lines = await access.audit_lines(
                c, limit=limit + 1, before=place[0] if place else None, principal=principal
            )
        return page_of(lines, limit, listing, lambda line: [line.id])

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
            claimed = await access.claim_answer(
                *(c, principal, key),
                fingerprint=fingerprint,
                kept_h=_ANSWERS_KEPT_H,
                longest_s=_LONGEST_REQUEST_S,
            )
        if claimed is None:
            return None
        if claimed[0] != fingerprint:
            raise UsageError(
                "The idempotency key was used for another request. Nothing was done.",
                hint="Take a new key for each request, and the same one only to repeat it.",
            )
        if claimed[1] is None:
            raise BusyError("The same request is under way. Nothing was done.", hint="Ask again in a moment.")
        return claimed[1]

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


log = logging.getLogger(__name__)

# Only signatures with public keys: with a shared secret, every client of the provider could create tokens.
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
# Providers keep an old key for a day or more after a change; an unknown key is requested at once.
_KEYS_KEPT_S = 3600.0
# A caller who sends invalid tokens must not cause a request to the provider for each of them.
_ASK_AGAIN_S = 30.0
# Clocks differ by less than this.
_LEEWAY_S = 60
# A dozen keys with certificates have 20 kB.
_DOCUMENT_BYTES = 500_000
# 256 bits, as RFC 7636 recommends for a verifier.
_VERIFIER_BYTES = 32
# OpenID Connect allows `sub` 255 letters, SMTP an address 254.
_LONGEST_SUBJECT = 255
_LAST = datetime(9999, 1, 1, tzinfo=UTC)
# The usual maximum length of headers.
_LONGEST_TOKEN = 16_000


class IdentityProvider:
    """An OpenID Connect provider: its keys, and the mapping of its roles to scopes."""

    def __init__(self, engine: Engine, *, clock: Callable[[], float] = time.monotonic) -> None:
        settings = engine.settings
        if not settings.oidc_audience or not settings.oidc_roles:
            raise ConfigurationError(
                "An identity provider is named, but not for whom its tokens are meant, or what its roles may do.",
                hint="Set ROWEN_OIDC_AUDIENCE and ROWEN_OIDC_ROLES, such as 'staff=read,editors=write'.",
            )
        self._engine = engine
        self._issuer = (settings.oidc_issuer or "").rstrip("/")
        self._audience = settings.oidc_audience
        self._secret = settings.oidc_client_secret
        self._claim = settings.oidc_roles_claim
        self._roles = {role: Scope(may) for role, may in settings.oidc_roles.items()}
        self._clock = clock
        self._keys: KeySet | None = None
        self._asked_at = float("-inf")
        self._turn = asyncio.Lock()

    async def begin(self, back_to: str) -> tuple[str, str]:
        """Return the address of the login page, and the value that the browser stores until the person returns."""
        state, nonce, verifier = (secrets.token_urlsafe(_VERIFIER_BYTES) for _ in range(3))
        challenge = base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).decode().rstrip("=")
        query = {
            "response_type": "code",
            "client_id": self._audience,
            "redirect_uri": back_to,
            "scope": "openid email",
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        address = str((await self._configuration())["authorization_endpoint"])
        return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}", f"{state}.{nonce}.{verifier}"

    async def finish(self, *, code: str, state: str, kept: str, back_to: str) -> tuple[Principal, datetime] | None:
        """Return the principal of a finished login, and the expiry.

        Return None if another browser began the login, or the person has no access.
        """
        expected, _, rest = kept.partition(".")
        nonce, _, verifier = rest.partition(".")
        if not expected or not hmac.compare_digest(expected.encode(), state.encode()):
            return None
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": back_to, "code_verifier": verifier}
        form |= {"client_id": self._audience}
        if self._secret is not None:
            form["client_secret"] = resolve(self._secret.get_secret_value())
        endpoint = str((await self._configuration())["token_endpoint"])
        answer = await self._document(endpoint, body=urlencode(form).encode())
        return await self.identify(str(answer.get("id_token", "")), nonce=nonce)

    async def identify(self, token: str, *, nonce: str | None = None) -> tuple[Principal, datetime] | None:
        """Return the principal of a token and its expiry; None if it is unsigned, expired, or meant for others.

        With a nonce, the token must contain that nonce.
        """
        if len(token) > _LONGEST_TOKEN or token.count(".") != 2:
            return None
        for is_fresh in (False, True):
            keys = await self._current_keys(fresh=is_fresh)
            claims = _checked(token, keys) if keys is not None else None
            if claims is not None:
                return self._principal(claims) if nonce in (None, claims.get("nonce")) else None
        return None

    def _principal(self, claims: Mapping[str, Any]) -> tuple[Principal, datetime] | None:
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if str(claims.get("iss", "")).rstrip("/") != self._issuer or self._audience not in audiences:
            return None
        until, name = _moment(claims.get("exp")), _person_name(claims)
        scopes = [self._roles[role] for role in _roles(claims, self._claim) if role in self._roles]
        if until is None or name is None or not scopes:
            return None
        return Principal(name, max(scopes, key=list(Scope).index), Credential(expires_at=until)), until

    async def _current_keys(self, *, fresh: bool) -> KeySet | None:
        """Return the provider's keys; request them again if they are old, or if `fresh` asks for it."""
        async with self._turn:
            kept_s = _ASK_AGAIN_S if fresh or self._keys is None else _KEYS_KEPT_S
            if self._clock() - self._asked_at > kept_s:
                self._asked_at = self._clock()
                try:
                    self._keys = await self._ask()
                except RowenError as problem:
                    log.warning("the keys of the identity provider could not be read: %s", problem)
            return self._keys

    async def _ask(self) -> KeySet:
        from joserfc import errors, jwk

        configuration = await self._configuration()
        try:
            return jwk.KeySet.import_key_set(await self._document(str(configuration["jwks_uri"])))  # type: ignore[arg-type]
        except (errors.JoseError, KeyError, TypeError, ValueError) as problem:
            raise ConfigurationError(f"{self._issuer} gives no keys that can be read: {problem}") from None

    async def _configuration(self) -> dict[str, Any]:
        return await self._document(f"{self._issuer}/.well-known/openid-configuration")

    async def _document(self, url: str, *, body: bytes | None = None) -> dict[str, Any]:
        settings = self._engine.settings.for_source(url)
        form = {} if body is None else {"Content-Type": "application/x-www-form-urlencoded"}
        async with self._engine.client(Meter(), settings) as client:
            answer = await client.request(
                *("GET" if body is None else "POST", url),
                max_bytes=_DOCUMENT_BYTES,
                accept="application/json",
                follow=False,
                body=body,
                headers=form,
            )
        try:
            values = json.loads(answer.body) if answer.ok else None
        except ValueError:
            values = None
        if not isinstance(values, dict):
            raise ConfigurationError(f"{url} gives no JSON object, but status {answer.status}.")
        return values


def _checked(token: str, keys: KeySet) -> dict[str, Any] | None:
    """Return the claims of a token; None if its signature or its times are invalid."""
    from joserfc import errors, jwt

    try:
        claims = jwt.decode(token, keys, algorithms=list(_ALGORITHMS)).claims
        jwt.JWTClaimsRegistry(leeway=_LEEWAY_S, exp={"essential": True}).validate(claims)
    except (errors.JoseError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    return claims


def _person_name(claims: Mapping[str, Any]) -> str | None:
    """Return the name of a person: the e-mail address if the provider verified it, else the identifier `sub`."""
    is_verified = claims.get("email_verified") is True and isinstance(claims.get("email"), str)
    kind = "email" if is_verified else "sub"
    name = claims.get(kind)
    is_plain = isinstance(name, str) and 0 < len(name) <= _LONGEST_SUBJECT and name.isprintable()
    return f"{kind}:{name}" if is_plain else None


def _moment(expires: Any) -> datetime | None:
    """Return the expiry of a token; if the number is not a valid time, the latest possible time."""
    if isinstance(expires, bool) or not isinstance(expires, int | float) or expires != expires:
        return None
    return datetime.fromtimestamp(expires, UTC) if expires < _LAST.timestamp() else _LAST


def _roles(claims: Mapping[str, Any], claim: str) -> list[str]:
    """Return the roles in a token; dots in the claim's name select nested objects, unless that claim exists."""
    roles: Any = claims.get(claim)
    if roles is None:
        roles = claims
        for part in claim.split("."):
            roles = roles.get(part) if isinstance(roles, Mapping) else None
    if isinstance(roles, str):
        return roles.split()
    return [role for role in roles if isinstance(role, str)] if isinstance(roles, list) else []
