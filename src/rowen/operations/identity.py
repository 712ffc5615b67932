"""OpenID Connect: signed tokens of people, verified with the provider's keys."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from rowen.connectors.base import Meter
from rowen.errors import ConfigurationError, RowenError
from rowen.harvest.engine import Engine
from rowen.model.access import Credential, Principal, Scope
from rowen.net.credentials import resolve

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

__all__ = ["IdentityProvider"]

log = logging.getLogger(__name__)

# Signatures by public keys only: a provider's shared secret would let every client make tokens.
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
# Providers keep an old key for a day or more after a change; a key that is unknown is looked for at once.
_KEYS_KEPT_S = 3600.0
# Who sends nonsense must not have the provider asked for each of it.
_ASK_AGAIN_S = 30.0
# Clocks differ by less.
_LEEWAY_S = 60
# A dozen keys with their certificates have 20 kB.
_DOCUMENT_BYTES = 500_000
# 256 bits, as RFC 7636 recommends for a verifier.
_SECRET_BYTES = 32
# OpenID Connect allows `sub` 255 letters, SMTP an address 254.
_LONGEST_SUBJECT = 255
_LAST = datetime(9999, 1, 1, tzinfo=UTC)
# As long as headers may be.
_LONGEST_TOKEN = 16_000


class IdentityProvider:
    """One provider: its keys, and the scopes of its roles."""

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
        """Return where to send a browser for the login, and what it stores until it returns."""
        state, nonce, verifier = (secrets.token_urlsafe(_SECRET_BYTES) for _ in range(3))
        challenge = base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).decode().rstrip("=")
        asked = {
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
        return f"{address}{'&' if '?' in address else '?'}{urlencode(asked)}", f"{state}.{nonce}.{verifier}"

    async def finish(self, *, code: str, state: str, kept: str, back_to: str) -> tuple[Principal, datetime] | None:
        """Return the person of a finished login; None if this browser did not begin it, or the person has no access."""
        held, _, rest = kept.partition(".")
        nonce, _, verifier = rest.partition(".")
        if not held or not hmac.compare_digest(held.encode(), state.encode()):
            return None
        told = {"grant_type": "authorization_code", "code": code, "redirect_uri": back_to, "code_verifier": verifier}
        told |= {"client_id": self._audience}
        if self._secret is not None:
            told["client_secret"] = resolve(self._secret.get_secret_value())
        endpoint = str((await self._configuration())["token_endpoint"])
        answer = await self._document(endpoint, body=urlencode(told).encode())
        return await self.identify(str(answer.get("id_token", "")), nonce=nonce)

    async def identify(self, token: str, *, nonce: str | None = None) -> tuple[Principal, datetime] | None:
        """Return the person of a token and its expiry; None if it is unsigned, expired, or meant for others.

        With a nonce, the token must contain it.
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
        meant = audience if isinstance(audience, list) else [audience]
        if str(claims.get("iss", "")).rstrip("/") != self._issuer or self._audience not in meant:
            return None
        until, name = _moment(claims.get("exp")), _name(claims)
        scopes = [self._roles[role] for role in _roles(claims, self._claim) if role in self._roles]
        if until is None or name is None or not scopes:
            return None
        return Principal(name, max(scopes, key=list(Scope).index), Credential(expires_at=until)), until

    async def _current_keys(self, *, fresh: bool) -> KeySet | None:
        """Return the provider's keys, requested again when they are old or a signature fits none of them."""
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
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        told = await self._configuration()
        try:
            return KeySet.import_key_set(await self._document(str(told["jwks_uri"])))  # type: ignore[arg-type]
        except (JoseError, KeyError, TypeError, ValueError) as problem:
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
            found = json.loads(answer.body) if answer.ok else None
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ConfigurationError(f"{url} gives no JSON object, but status {answer.status}.")
        return found


def _checked(token: str, keys: KeySet) -> dict[str, Any] | None:
    """Return the claims of a token with a valid signature and times."""
    from joserfc import jwt
    from joserfc.errors import JoseError

    try:
        claims = jwt.decode(token, keys, algorithms=list(_ALGORITHMS)).claims
        jwt.JWTClaimsRegistry(leeway=_LEEWAY_S, exp={"essential": True}).validate(claims)
    except (JoseError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    return claims


def _name(claims: Mapping[str, Any]) -> str | None:
    """Return the name of a person: an e-mail address only if the provider has verified it."""
    is_verified = claims.get("email_verified") is True and isinstance(claims.get("email"), str)
    kind = "email" if is_verified else "sub"
    name = claims.get(kind)
    is_plain = isinstance(name, str) and 0 < len(name) <= _LONGEST_SUBJECT and name.isprintable()
    return f"{kind}:{name}" if is_plain else None


def _moment(expires: Any) -> datetime | None:
    """Return the expiry of a token; the latest possible time for a number that is no date."""
    if isinstance(expires, bool) or not isinstance(expires, int | float) or expires != expires:
        return None
    return datetime.fromtimestamp(expires, UTC) if expires < _LAST.timestamp() else _LAST


def _roles(claims: Mapping[str, Any], claim: str) -> list[str]:
    """Return the roles in a token; dots in the claim's name lead into objects, unless the name exists as it stands."""
    found: Any = claims.get(claim)
    if found is None:
        found = claims
        for part in claim.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    if isinstance(found, str):
        return found.split()
    return [role for role in found if isinstance(role, str)] if isinstance(found, list) else []
