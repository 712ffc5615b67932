"""Secrets by reference: what is stored says where a secret is found, never what it is."""

import base64
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rowen.errors import ConfigurationError
from rowen.fetch.target import parse

__all__ = ["Credentials", "resolve"]

_REFERENCE = re.compile(r"(?P<scheme>(?:Apikey|Basic|Bearer|Token) )?(?P<kind>env|file):(?P<place>\S.*)")
_UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Credentials:
    """Headers for one origin and no other. A value may be `env:NAME`, `file:/path`, or `Bearer env:NAME`."""

    origin: str
    values: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, url: str, values: Mapping[str, str]) -> "Credentials":
        """Credentials for the origin of a URL."""
        return cls(parse(url).origin, dict(values))

    def headers(self, origin: str) -> dict[str, str]:
        """The headers to send to an origin, resolved now; none for any other than their own."""
        if origin != self.origin:
            return {}
        return {name: resolve(value) for name, value in self.values.items()}


def resolve(value: str, environment: Mapping[str, str] = os.environ) -> str:
    """The value behind a reference; what is no reference stands for itself."""
    match = _REFERENCE.fullmatch(value)
    if match is None:
        return _sendable(value, "A header given literally")
    scheme, kind, place = match["scheme"] or "", match["kind"], match["place"]
    secret = environment.get(place) if kind == "env" else _content(Path(place))
    if not secret:
        where = "environment variable" if kind == "env" else "file"
        raise ConfigurationError(
            f"The {where} {place}, which holds a credential, is missing or empty.",
            hint="Set it for the process that runs Rowen; the source only stores where it is found.",
        )
    if scheme == "Basic " and ":" in secret:
        secret = base64.b64encode(secret.encode()).decode()
    return scheme + _sendable(secret, f"The credential in {place}")


def _content(path: Path) -> str:
    try:
        return path.expanduser().read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _sendable(secret: str, what: str) -> str:
    if _UNSENDABLE.search(secret):
        raise ConfigurationError(f"{what} contains a line break or another control character.")
    return secret
