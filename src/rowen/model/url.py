"""The canonical form of a URL, and the key that identifies an item by it."""

import hashlib
import re
from contextlib import suppress
from urllib.parse import quote

import ada_url

from rowen.model.hashes import Hash

__all__ = ["canonical", "file_url", "key"]

_TRACKING = re.compile(
    r"(?:utm_[a-z_]+|gclid|gbraid|wbraid|dclid|fbclid|msclkid|yclid|igshid|mc_[ce]id|_gl)", re.IGNORECASE
)
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def canonical(url: str) -> str:
    """WHATWG form without default port, tracking parameters and fragment; `https` for `http`.

    Paths stay case-sensitive and the query keeps its order. A fragment that is a route (`#/…`, `#!…`) names another
    page and stays. Raises `ValueError` for what is no URL.
    """
    if url.startswith("file:///"):
        return url
    parsed = ada_url.URL(url)
    if not parsed.hash.startswith(("#/", "#!")):
        parsed.hash = ""
    if parsed.protocol == "http:" and not parsed.port:
        parsed.protocol = "https:"
    if parsed.search:
        parsed.search = _without_tracking(parsed.search[1:])
    return _ESCAPE.sub(_normal_escape, str(parsed.href))


def key(url: str) -> Hash:
    """The identity of an item: the hash of its canonical URL; what is no URL stands for itself."""
    if not url.startswith("file:///"):
        with suppress(ValueError):
            url = canonical(url)
    return hashlib.sha256(url.encode("utf-8", "surrogatepass")).digest()


def file_url(path: bytes | str) -> str:
    """The URL of an absolute path, exact for names that are not UTF-8 as well."""
    return "file://" + quote(path, safe="/!$&'()*+,;=:@~")


def _without_tracking(query: str) -> str:
    kept = [part for part in query.split("&") if part and not _TRACKING.fullmatch(part.partition("=")[0])]
    return "&".join(kept)


def _normal_escape(match: re.Match[str]) -> str:
    code = int(match[1], 16)
    return chr(code) if code in _UNRESERVED else match[0].upper()
