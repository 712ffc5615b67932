"""The canonical form of a URL, and the key that identifies an item by it."""

import hashlib
import os
import re
from contextlib import suppress
from urllib.parse import quote, urljoin

import ada_url

from rowen.model.hashes import Hash

__all__ = [
    "SEGMENT",
    "address",
    "canonical",
    "file_url",
    "is_link",
    "joined",
    "key",
    "quoted",
    "runs_script",
    "same_site",
    "segment",
    "trimmed",
    "without_session",
]

_TRACKING = re.compile(
    r"(?:utm_[a-z_]+|gclid|gbraid|wbraid|dclid|fbclid|msclkid|yclid|igshid|mc_[ce]id|_gl)", re.IGNORECASE
)
# Most URLs are in this form already, and parsing each would be a tenth of what a refresh costs.
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_PLAIN = re.compile(
    rf"(https?)://(?:(?:[a-z0-9-]+\.)*[a-z][a-z0-9-]*|(?:{_BYTE}\.){{3}}{_BYTE})"
    r"(:(?!80/|443/)(?:[1-9][0-9]{1,3}|[1-5][0-9]{4}))?/[A-Za-z0-9_.~/-]*"
)
_BREAKS = re.compile(r"[\t\n\r]")
_IGNORED_AT_ENDS = "".join(map(chr, range(0x21)))
SEGMENT = "@:!$&'()*+,;=~"
"""Letters that stand for themselves in one part of a path."""

# The session of a visitor, as Java and ASP.NET servers write it into the path.
_SESSION = re.compile(r";jsessionid=[^/?#]*|/\(S\([^()/?#]*\)\)(?=/)", re.IGNORECASE)
_PLAIN_HOST = re.compile(r"https?://((?:[a-z0-9-]+\.)*[a-z][a-z0-9-]*|[0-9.]+:[0-9]{1,5})(?=[/?#]|$)")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


_RUN = ("data:", "javascript:", "vbscript:")
# Where catalogs say that files are, and what a browser or a mail program opens without running it. A `file:` address
# names a file of whoever follows it.
_LINKED = frozenset(
    ("ftp", "ftps", "git", "gs", "http", "https", "mailto", "rsync", "s3", "sftp", "ssh", "svn", "tel", "ws", "wss")
)

# A parser drops controls at the ends of a URL, and cannot take what is no text: two URLs would become one, or none.
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def address(url: str) -> str:
    """A URL that can be stored and parsed: controls and lone surrogates are percent-encoded, so that none is lost."""
    if url.isascii() and url.isprintable():
        return url
    return _UNFIT.sub(lambda found: quoted(found[0]), url)


def trimmed(written: str) -> str:
    """Return an address as it stands in a document, without what a URL parser ignores at its ends and inside it.

    The URL standard strips controls and spaces at both ends, and removes tabs and line breaks anywhere.
    """
    if written.isprintable() and not written.startswith(" ") and not written.endswith(" "):
        return written
    return _BREAKS.sub("", written).strip(_IGNORED_AT_ENDS)


def runs_script(written: str) -> bool:
    """Whether who follows an address would run what it says, or show it as a page of the site that links to it."""
    return trimmed(written).lower().startswith(_RUN)


def is_link(written: str) -> bool:
    """Whether an address may be published as a link: it names a place on a network."""
    scheme, colon, _ = written.partition(":")
    return bool(colon) and scheme.lower() in _LINKED


def quoted(text: str, *, safe: str = "") -> str:
    """A text from outside as a part of a URL; also one with lone surrogates, which stays apart from all others."""
    return quote(text, safe=safe, errors="surrogatepass")


def segment(text: str, *, safe: str = "") -> str:
    """Return a text from outside as one segment of a path.

    Dots alone would lead to another folder, also where they are percent-encoded once.
    """
    return quoted(text, safe=safe) if text.strip(".") else text.replace(".", "%252E")


def joined(base: str, reference: str) -> str | None:
    """Return where a reference leads, or None where it is no address, such as `http://[`."""
    try:
        return urljoin(base, reference)
    except ValueError:
        return None


def canonical(url: str) -> str:
    """WHATWG form without default port, tracking parameters and fragment; `https` for `http`.

    Paths stay case-sensitive and the query keeps its order. A fragment that is a route (`#/…`, `#!…`) names another
    page and stays. Raises `ValueError` for what is no URL.
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
        parsed.search = _without_tracking(parsed.search[1:])
    return _ESCAPE.sub(_normal_escape, str(parsed.href))


def key(url: str) -> Hash:
    """The identity of an item: the hash of its canonical URL; what is no URL stands for itself."""
    if not url.startswith("file:///"):
        with suppress(ValueError):
            url = canonical(url)
    url = address(url)
    return hashlib.sha256(url.encode("utf-8", "surrogatepass")).digest()


def file_url(path: bytes | str) -> str:
    """The URL of an absolute path, exact for names that are not UTF-8 as well."""
    return "file://" + quote(path, safe="/!$&'()*+,;=:@~")


def path_url(path: str) -> str:
    """The URL of a file that somebody names by a path, whatever they typed; nothing is looked up.

    The home of another user is not, either: `~name` stays as it is.
    """
    home = os.path.expanduser("~") if path == "~" or path.startswith("~/") else "~"  # noqa: PTH111 (never raises)
    absolute = os.path.abspath(home + path[1:] if path.startswith("~") else path)  # noqa: PTH100 (never raises)
    try:
        return file_url(os.fsencode(absolute))
    except UnicodeEncodeError:
        # Half a character, which JSON can hold and no name of a file has.
        return file_url(absolute.encode("utf-8", "replace"))


def without_session(url: str) -> str:
    """A URL without its fragment and without the session that a server wrote into it: the same for every visitor."""
    return _SESSION.sub("", url.partition("#")[0])


def same_site(one: str, other: str) -> bool:
    """Whether two URLs are of one host, with its port; `www.` in front makes no difference."""
    return _host(one) == _host(other)


def _host(url: str) -> str:
    if (plain := _PLAIN_HOST.match(url)) is not None:
        return plain[1].removeprefix("www.")
    try:
        return str(ada_url.URL(address(url)).host).removeprefix("www.")
    except ValueError:
        return ""


def _without_tracking(query: str) -> str:
    kept = [part for part in query.split("&") if part and not _TRACKING.fullmatch(part.partition("=")[0])]
    return "&".join(kept)


def _normal_escape(match: re.Match[str]) -> str:
    code = int(match[1], 16)
    return chr(code) if code in _UNRESERVED else match[0].upper()
