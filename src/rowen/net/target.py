"""What a URL means for a request: the exact form to send, its host and its origin."""

import base64
import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

import ada_url

from rowen.errors import BadUrlError
from rowen.model.url import trimmed

__all__ = ["Target", "join", "parse", "redact"]

_USERINFO = re.compile(r"(?<=//)[^/?#]*@")
_SECRET = re.compile(
    r"(?:^|[^a-z])(?:(?:api|access|subscription)?[_-]?(?:key|token)|secret|pass(?:word|wd)?|pwd|auth(?:orization)?|"
    r"sig(?:nature)?|credentials?|session(?:id)?|sid|jwt|code)(?:$|[^a-z])",
    re.IGNORECASE,
)
# What the URL parser leaves as it is. Most URLs hold nothing else, and parsing each would cost more than all our care.
_PLAIN = re.compile(r"/[\w!$%&()*+,./:;=?@~-]*", re.ASCII)
_ASCII = "".join(map(chr, range(0x21, 0x7F)))


class Target(NamedTuple):
    """A URL that can be requested: WHATWG form, no fragment, no user information.

    `host` carries the port where it is not the scheme's own; `login` is the user information as a value for
    the header Authorization.
    """

    url: str
    host: str
    origin: str
    login: str | None = None


def parse(url: str) -> Target:
    """The target of a URL; raises `BadUrlError` for what cannot be requested over HTTP."""
    end = url.find("/", 8)
    if _PLAIN.fullmatch(url, end) and "/." not in url and "%2" not in url and (host := _normal_host(url[:end])):
        return Target(url, host, url[:end])
    try:
        href = str(ada_url.normalize_url(url)).partition("#")[0]
    except ValueError:
        raise BadUrlError(f"{redact(url)!r} is no URL.") from None
    scheme, _, rest = href.partition("://")
    if scheme not in ("http", "https"):
        raise BadUrlError(f"{redact(url)!r} cannot be fetched: only http and https can.")
    authority, slash, path = rest.partition("/")
    user, at, host = authority.rpartition("@")
    origin = f"{scheme}://{host}"
    return Target(f"{origin}{slash}{path}", host, origin, _basic(user) if at else None)


# By origin, not by URL: more origins than a crawl meets.
@lru_cache(maxsize=4096)
def _normal_host(origin: str) -> str | None:
    """The host in what should be an origin; None if that is not in its normal form."""
    try:
        parsed = ada_url.URL(f"{origin}/")
    except ValueError:
        return None
    is_normal = parsed.href == f"{origin}/" and parsed.protocol in ("http:", "https:") and parsed.origin == origin
    return str(parsed.host) if is_normal else None


def join(base: Target, location: str) -> Target:
    """Where a Location header leads. Any login in it is the other server's idea, and dropped."""
    location = trimmed(location)
    if not location.isascii():
        location = quote(location.encode("utf-8", "surrogateescape"), safe=_ASCII)
    try:
        found = parse(str(ada_url.join_url(base.url, location)))
    except ValueError:
        raise BadUrlError(f"{redact(location)!r} is no URL.") from None
    return Target(found.url, found.host, found.origin)


def redact(url: str) -> str:
    """A URL for messages: without user information, fragment, and the values of parameters that look like keys."""
    head, question, query = _USERINFO.sub("", url.partition("#")[0]).partition("?")
    return head + question + "&".join(map(_redact_parameter, query.split("&")))


def _redact_parameter(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    return f"{name}=…" if equals and _SECRET.search(name) else parameter


def _basic(user: str) -> str:
    name, _, password = user.partition(":")
    login = unquote_to_bytes(name) + b":" + unquote_to_bytes(password)
    return "Basic " + base64.b64encode(login).decode()
