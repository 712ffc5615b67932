"""A request before it is sent: target, limits, headers and credentials."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypedDict

from rowen.model.text import header
from rowen.net.credentials import Credentials
from rowen.net.target import Target, parse

__all__ = ["Defaults", "Request", "RequestOptions", "prepare"]

# What another origin may see of the headers that a caller set.
_HARMLESS = ("accept", "accept-language", "content-type")


class RequestOptions(TypedDict, total=False):
    """The options of a request.

    `etag` and `last_modified` are the validators that came with `url` itself; `max_bytes` bounds the unpacked
    body, `limit_s` the time of one try, `idle_s` how long the server may be silent in it, `tries` how often it is
    tried. Without `follow`, a redirect is the answer.
    """

    etag: str | None
    last_modified: str | None
    headers: Mapping[str, str] | None
    accept: str | None
    credentials: Credentials | None
    body: bytes | None
    max_bytes: int | None
    limit_s: float | None
    idle_s: float | None
    tries: int | None
    follow: bool


@dataclass(slots=True)
class Request:
    """A request to one target; a redirect makes another one of it."""

    method: str
    target: Target
    limit_bytes: int
    limit_s: float
    tries: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    credentials: tuple[Credentials, ...] = ()
    body: bytes | None = field(default=None, repr=False)
    conditional: bool = False
    follow: bool = True
    idle_s: float | None = None

    def wire_headers(self) -> Mapping[str, str]:
        """The headers to send, with the credentials that are meant for the target's origin."""
        if not self.credentials:
            return self.headers
        sent = dict(self.headers)
        for one in self.credentials:
            sent.update(one.headers(self.target.origin))
        return sent

    def redirected(self, status: int, target: Target, spent_s: float) -> "Request":
        """The request that follows a redirect. Validators are dropped: they belong to the URL that they came from."""
        dropped = {"if-none-match", "if-modified-since"}
        rewritten = status == 303 or (status in (301, 302) and self.method == "POST")
        if rewritten:
            dropped |= {"content-type"}
        same = target.origin == self.target.origin
        kept = {
            name: value
            for name, value in self.headers.items()
            if (lower := name.lower()) not in dropped and (same or lower in _HARMLESS)
        }
        method, body = ("GET" if self.method != "HEAD" else "HEAD", None) if rewritten else (self.method, self.body)
        left_s = max(self.limit_s - spent_s, 0.001)
        return replace(self, method=method, target=target, headers=kept, body=body, limit_s=left_s, conditional=False)


class Defaults(NamedTuple):
    """The limits of requests whose caller sets none."""

    limit_bytes: int
    limit_s: float
    tries: int


def prepare(method: str, url: str, options: RequestOptions, defaults: Defaults) -> Request:
    """Make a request of what a caller says."""
    target = parse(url)
    etag, modified = header(options.get("etag")), header(options.get("last_modified"))
    return Request(
        method.upper(),
        target,
        options.get("max_bytes") or defaults.limit_bytes,
        options.get("limit_s") or defaults.limit_s,
        options.get("tries") or defaults.tries,
        _headers(options, etag, modified),
        _credentials(target, options.get("credentials")),
        options.get("body"),
        bool(etag or modified),
        options.get("follow", True),
        options.get("idle_s"),
    )


def _headers(options: RequestOptions, etag: str | None, modified: str | None) -> dict[str, str]:
    headers = dict(options.get("headers") or ())
    if accept := options.get("accept"):
        headers["Accept"] = accept
    if etag:
        headers["If-None-Match"] = etag
    if modified:
        headers["If-Modified-Since"] = modified
    return headers


def _credentials(target: Target, given: Credentials | None) -> tuple[Credentials, ...]:
    own = Credentials(target.origin, {"Authorization": target.login}) if target.login else None
    return tuple(one for one in (own, given) if one is not None)
