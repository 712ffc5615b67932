"""An address as somebody typed it, parsed once: its scheme decides whether it is a URL or a path.

Whatever asks this question uses the value below. Two tests of the prefix that differ in upper and lower case, or in
white space, would let one part of the program allow a URL and another open a path of the same spelling.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from rowen.model.url import trimmed

__all__ = ["Address"]

# RFC 3986, section 3.1. Without IGNORECASE, by which `k` and `s` match letters outside ASCII as well.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
# `localhost:8000/x` has no scheme, but a host with its port.
_PORT = re.compile(r"[0-9]{1,5}(?:[/?#]|$)")
_WEB = frozenset({"http", "https"})
_NETWORK = frozenset({*_WEB, "git+http", "git+https", "pkg"})


@dataclass(frozen=True, slots=True)
class Address:
    """An address: `scheme` is in lower case, and empty for a path or a host; `text` begins with the same scheme.

    A text with a scheme is never a path, also where a file of that name exists: such a file is named as `./x:y`.
    """

    text: str
    scheme: str = ""

    @classmethod
    def of(cls, typed: str) -> Address:
        """Parse what was typed. A URL is trimmed as the URL standard does it; a path is kept as it is."""
        url = trimmed(typed)
        found = _SCHEME.match(url)
        # No scheme that is in use has a dot, and the name of a host mostly has one.
        if found is None or "." in found[1] or _PORT.match(url, found.end()):
            return cls(typed)
        scheme = found[1].lower()
        return cls(f"{scheme}{url[found.end(1) :]}", scheme)

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
        """Whether it is asked for over the network without the keys of whoever runs this, as ssh would use them."""
        return self.scheme in _NETWORK

    @property
    def path(self) -> str:
        """The path that it names; raises `ValueError` for any other URL, and for a file of another machine."""
        if not self.is_file:
            raise ValueError("it is no path")
        path = os.fsdecode(unquote_to_bytes(self.text.removeprefix("file:"))) if self.scheme else self.text
        if self.scheme and path.startswith("//"):
            host, _, rest = path[2:].partition("/")
            if host not in ("", "localhost"):
                raise ValueError("it is a file of another machine")
            return f"/{rest}"
        return os.path.expanduser(path)  # noqa: PTH111 (never raises)
