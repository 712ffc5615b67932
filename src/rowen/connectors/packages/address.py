"""Addresses of packages: `pypi:name`, `npm:@scope/name@version`, and the form in which they are kept, `pkg:…`."""

import re
from typing import Literal, NamedTuple, TypeAlias
from urllib.parse import quote, unquote

from rowen.errors import UsageError

__all__ = ["Ecosystem", "PackageAddress", "recognise"]

Ecosystem: TypeAlias = Literal["pypi", "npm"]

_NAMES: dict[str, re.Pattern[str]] = {
    "pypi": re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,198}[a-z0-9])?", re.IGNORECASE | re.ASCII),
    "npm": re.compile(r"(?:@[\w.~-]{1,100}/)?(?![._])[\w.~!'()*-]{1,214}", re.ASCII),
}
_EXTRAS = re.compile(r"\[[^\[\]]*\]$")
_SEPARATORS = re.compile(r"[-_.]+")


class PackageAddress(NamedTuple):
    """A package; `wanted` is the version that a user named, a range or a tag, and empty for the latest release."""

    ecosystem: Ecosystem
    name: str
    wanted: str = ""

    @classmethod
    def parse(cls, ecosystem: Ecosystem, text: str) -> "PackageAddress | None":
        """The address in `name`, `name@version` or `@scope/name@version`."""
        at = text.rfind("@")
        name, wanted = (text[:at], text[at + 1 :].strip()) if at > 0 else (text, "")
        if ecosystem == "pypi":
            name = _SEPARATORS.sub("-", _EXTRAS.sub("", name)).lower()
        if not _NAMES[ecosystem].fullmatch(name):
            return None
        return cls(ecosystem, name, "" if wanted.lower() == "latest" else wanted)

    @classmethod
    def of(cls, ecosystem: Ecosystem, url: str) -> "PackageAddress":
        """The address in the URL of a source."""
        found = cls.parse(ecosystem, unquote(url.removeprefix(f"pkg:{ecosystem}/")))
        if found is None:
            raise UsageError(f"{url!r} is no address of a package.")
        return found

    @property
    def url(self) -> str:
        """The URL of the source, and of the package's page: it stays the same from release to release."""
        wanted = f"@{quote(self.wanted, safe='.+!*~')}" if self.wanted else ""
        return f"pkg:{self.ecosystem}/{quote(self.name, safe='/')}{wanted}"

    @property
    def changelog_url(self) -> str:
        """The URL of the changelog that came with the release."""
        return f"{self.url}?part=changelog"


def recognise(ecosystem: Ecosystem, typed: str) -> str | None:
    """The source URL of what a user typed."""
    for start in (f"{ecosystem}:", f"pkg:{ecosystem}/"):
        if typed.startswith(start):
            rest = typed.removeprefix(start)
            found = PackageAddress.parse(ecosystem, unquote(rest) if start.startswith("pkg:") else rest)
            if found is None:
                raise UsageError(f"{rest!r} is no name of a package.", hint=f"Such as {ecosystem}:name@version.")
            return found.url
    return None
