"""People, as an OpenID Connect provider names them: signed tokens, checked against the provider's own keys."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rowen.connectors.base import Meter
from rowen.errors import ConfigurationError, RowenError
from rowen.harvest.engine import Engine
from rowen.model.access import Principal, Scope

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
# As long as headers may be.
_LONGEST_TOKEN = 16_000


class IdentityProvider:
    """One provider: its keys, and what its roles may do."""

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
        self._claim = settings.oidc_roles_claim
        self._roles = {role: Scope(may) for role, may in settings.oidc_roles.items()}
        self._clock = clock
        self._keys: KeySet | None = None
        self._asked_at = float("-inf")
        self._turn = asyncio.Lock()

    async def identify(self, token: str) -> tuple[Principal, datetime] | None:
        """Who a token names, and until when; None for one that is not signed, over, or meant for others."""
        if len(token) > _LONGEST_TOKEN or token.count(".") != 2:
            return None
        for is_fresh in (False, True):
            keys = await self._current_keys(fresh=is_fresh)
            claims = _checked(token, keys) if keys is not None else None
            if claims is not None:
                return self._principal(claims)
        return None

    def _principal(self, claims: Mapping[str, Any]) -> tuple[Principal, datetime] | None:
        audience = claims.get("aud")
        meant = audience if isinstance(audience, list) else [audience]
        if str(claims.get("iss", "")).rstrip("/") != self._issuer or self._audience not in meant:
            return None
        until, subject = claims.get("exp"), claims.get("email") or claims.get("sub")
        scopes = [self._roles[role] for role in _roles(claims, self._claim) if role in self._roles]
        if not isinstance(until, int | float) or not isinstance(subject, str) or not scopes:
            return None
        best = max(scopes, key=list(Scope).index)
        return Principal(subject, best), datetime.fromtimestamp(until, UTC)

    async def _current_keys(self, *, fresh: bool) -> KeySet | None:
        """The provider's keys, asked for when they are old, or when a signature fits none of them."""
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

        told = await self._document(f"{self._issuer}/.well-known/openid-configuration")
        try:
            return KeySet.import_key_set(await self._document(str(told["jwks_uri"])))  # type: ignore[arg-type]
        except (JoseError, KeyError, TypeError, ValueError) as problem:
            raise ConfigurationError(f"{self._issuer} gives no keys that can be read: {problem}") from None

    async def _document(self, url: str) -> dict[str, Any]:
        settings = self._engine.settings.for_source(url)
        async with self._engine.client(Meter(), settings) as client:
            answer = await client.get(url, max_bytes=_DOCUMENT_BYTES, accept="application/json")
        try:
            found = json.loads(answer.body) if answer.ok else None
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ConfigurationError(f"{url} gives no JSON object, but status {answer.status}.")
        return found


def _checked(token: str, keys: KeySet) -> dict[str, Any] | None:
    """The claims of a token whose signature and times are right."""
    from joserfc import jwt
    from joserfc.errors import JoseError

    try:
        claims = jwt.decode(token, keys, algorithms=list(_ALGORITHMS)).claims
        jwt.JWTClaimsRegistry(leeway=_LEEWAY_S, exp={"essential": True}).validate(claims)
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    return claims


def _roles(claims: Mapping[str, Any], claim: str) -> list[str]:
    """The roles that a token lists; dots of the claim's name lead into objects, unless it is there as it stands."""
    found: Any = claims.get(claim)
    if found is None:
        found = claims
        for part in claim.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    if isinstance(found, str):
        return found.split()
    return [role for role in found if isinstance(role, str)] if isinstance(found, list) else []
