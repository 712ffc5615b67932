"""URLs: their canonical form, the key of an item, which is derived from its URL, and addresses as users type them."""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes, urljoin

import ada_url

from rowen.model.hashes import Hash

_TRACKING = re.compile(
    r"(?:utm_[a-z_]+|gclid|gbraid|wbraid|dclid|fbclid|msclkid|yclid|igshid|mc_[ce]id|_gl)", re.IGNORECASE
)
# Most URLs are in this form already; parsing each of them would take a tenth of the time of a refresh.
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_PLAIN = re.compile(
    rf"(https?)://(?:(?:[a-z0-9-]+\.)*[a-z][a-z0-9-]*|(?:{_BYTE}\.){{3}}{_BYTE})"
    r"(:(?!80/|443/)(?:[1-9][0-9]{1,3}|[1-5][0-9]{4}))?/[A-Za-z0-9_.~/-]*"
)
_BREAKS = re.compile(r"[\t\n\r]")
_IGNORED_AT_ENDS = "".join(map(chr, range(0x21)))
SEGMENT = "@:!$&'()*+,;=~"
"""Characters that need no escape in a segment of a path."""

# The session of a visitor, which Java and ASP.NET servers write into the path.
_SESSION = re.compile(r";jsessionid=[^/?#]*|/\(S\([^()/?#]*\)\)(?=/)", re.IGNORECASE)
_PLAIN_HOST = re.compile(r"https?://((?:[a-z0-9-]+\.)*[a-z][a-z0-9-]*|[0-9.]+:[0-9]{1,5})(?=[/?#]|$)")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


_RUN = ("data:", "javascript:", "vbscript:")
# Schemes in catalogs that a browser or mail program can open without running code. `file:` is missing, since it names a
# file on the reader's own machine.
_LINKED = frozenset(
    ("ftp", "ftps", "git", "gs", "http", "https", "mailto", "rsync", "s3", "sftp", "ssh", "svn", "tel", "ws", "wss")
)

# A parser drops control characters at the ends of a URL, and rejects lone surrogates, so such URLs would become equal
# or invalid.
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def address(url: str) -> str:
    """Return a URL that can be stored and parsed: controls and lone surrogates are percent-encoded, not removed."""
    if url.isascii() and url.isprintable():
        return url
    return _UNFIT.sub(lambda match: quoted(match[0]), url)


def trimmed(written: str) -> str:
    """Remove the characters that the URL standard ignores: spaces at the ends, and tabs and line breaks anywhere."""
    if written.isprintable() and not written.startswith(" ") and not written.endswith(" "):
        return written
    return _BREAKS.sub("", written).strip(_IGNORED_AT_ENDS)


def runs_script(written: str) -> bool:
    """Return whether a link would run a script, or show its content as part of the linking site."""
    return trimmed(written).lower().startswith(_RUN)


def is_link(written: str) -> bool:
    """Return whether an address may be published as a link: its scheme is in a list of harmless schemes."""
    scheme, colon, _ = written.partition(":")
    return bool(colon) and scheme.lower() in _LINKED


def quoted(text: str, *, safe: str = "") -> str:
    """Percent-encode an untrusted text as part of a URL; lone surrogates get unique encodings."""
    return quote(text, safe=safe, errors="surrogatepass")


def segment(text: str, *, safe: str = "") -> str:
    """Percent-encode an untrusted text as one segment of a path.

    Dots alone are encoded twice, since `..` names another folder even if it is encoded once.
    """
    return quoted(text, safe=safe) if text.strip(".") else text.replace(".", "%252E")


def joined(base: str, reference: str) -> str | None:
    """Return the absolute address of a reference; None if it is invalid, such as `http://[`."""
    try:
        return urljoin(base, reference)
    except ValueError:
        return None


def canonical(url: str) -> str:
    """Return the WHATWG form without default port, tracking parameters and fragment, with `https` for `http`.

    A fragment that is a route (`#/…`, `#!…`) names another page and is kept. Raise `ValueError` if `url` is invalid.
    """
    if url.startswith("file:///"):
        return url
    if (plain := _PLAIN.fullmatch(url)) and "/." not in url and "xn--" not in url:
        scheme, port = plain.groups()
        return url if scheme == "https" or port else f"https{url[4:]}"
    return _parsed(url)


def _parsed(url: str) -> str:
    parsed = ada_url.URL(address(url))
    if not parsed.hash.startswith(("#/", "#!")):
        parsed.hash = ""
    if parsed.protocol == "http:" and not parsed.port:
        parsed.protocol = "https:"
    if parsed.search:
        parameters = (part for part in parsed.search[1:].split("&") if part)
        parsed.search = "&".join(part for part in parameters if not _TRACKING.fullmatch(part.partition("=")[0]))
    return _ESCAPE.sub(_normal_escape, str(parsed.href))


def key(url: str) -> Hash:
    """Return the identity of an item: the hash of its canonical URL, or of the text itself if it is not a URL."""
    if not url.startswith("file:///"):
        with suppress(ValueError):
            url = canonical(url)
    url = address(url)
    return hashlib.sha256(url.encode("utf-8", "surrogatepass")).digest()


def file_url(path: bytes | str) -> str:
    """Return the URL of an absolute path; names that are not UTF-8 are represented exactly."""
    return "file://" + quote(path, safe="/!$&'()*+,;=:@~")


def path_url(path: str) -> str:
    """Return the URL of a file from a path as typed, without accessing the file system.

    `~` is expanded; `~name` is not.
    """
    home = os.path.expanduser("~") if path == "~" or path.startswith("~/") else "~"  # noqa: PTH111 (never raises)
    absolute = os.path.abspath(home + path[1:] if path.startswith("~") else path)  # noqa: PTH100 (never raises)
    try:
        return file_url(os.fsencode(absolute))
    except UnicodeEncodeError:
        # Half of a surrogate pair, which JSON can contain but a file name cannot.
        return file_url(absolute.encode("utf-8", "replace"))


def without_session(url: str) -> str:
    """Return a URL without its fragment and without a visitor's session."""
    return _SESSION.sub("", url.partition("#")[0])


def same_site(first: str, second: str) -> bool:
    """Return whether two URLs have the same host and port; a leading `www.` is ignored."""
    return _host(first) == _host(second)


def _host(url: str) -> str:
    if (plain := _PLAIN_HOST.match(url)) is not None:
        return plain[1].removeprefix("www.")
    try:
        return str(ada_url.URL(address(url)).host).removeprefix("www.")
    except ValueError:
        return ""


def _normal_escape(match: re.Match[str]) -> str:
    code = int(match[1], 16)
    return chr(code) if code in _UNRESERVED else match[0].upper()


# RFC 3986, section 3.1. IGNORECASE is not used, since `k` and `s` would then match letters outside ASCII.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
# `localhost:8000/x` has a host and a port instead of a scheme.
_PORT = re.compile(r"[0-9]{1,5}(?:[/?#]|$)")
_WEB = frozenset({"http", "https"})
_NETWORK = frozenset({*_WEB, "git+http", "git+https", "pkg"})


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed address: `scheme` is in lower case, and empty for a path or a host; `text` begins with the scheme.

    A text with a scheme is never a path, even if a file of that name exists; `./x:y` names such a file.
    """

    text: str
    scheme: str = ""

    @classmethod
    def of(cls, typed: str) -> Address:
        """Parse an address. A URL is trimmed as the URL standard requires; a path is not changed."""
        url = trimmed(typed)
        match = _SCHEME.match(url)
        # No known scheme has a dot, but most host names do.
        if match is None or "." in match[1] or _PORT.match(url, match.end()):
            return cls(typed)
        scheme = match[1].lower()
        return cls(f"{scheme}{url[match.end(1) :]}", scheme)

    @property
    def is_web(self) -> bool:
        """Whether it is fetched over HTTP."""
        return self.scheme in _WEB

    @property
    def is_file(self) -> bool:
        """Whether it names a file or folder of this machine: as a path, or as a `file:` URL."""
        return self.scheme in ("", "file")

    @property
    def is_network(self) -> bool:
        """Whether it is requested over the network without the user's keys; ssh, which uses keys, is excluded."""
        return self.scheme in _NETWORK

    @property
    def path(self) -> str:
        """The path; raise `ValueError` if the address is no path or `file:` URL, or is a file of another machine."""
        if not self.is_file:
            raise ValueError("it is not a path")
        path = os.fsdecode(unquote_to_bytes(self.text.removeprefix("file:"))) if self.scheme else self.text
        if self.scheme and path.startswith("//"):
            host, _, rest = path[2:].partition("/")
            if host not in ("", "localhost"):
                raise ValueError("it is a file of another machine")
            return f"/{rest}"
        return os.path.expanduser(path)  # noqa: PTH111 (never raises)
