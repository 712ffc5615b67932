"""Package addresses (`pypi:name`, `npm:@scope/name@version`, stored as `pkg:…`) and options of packages."""

import re
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias
from urllib.parse import quote, unquote

from pydantic import Field, field_validator

from rowen.connectors.web.options import WebOptions
from rowen.errors import UsageError

Ecosystem: TypeAlias = Literal["pypi", "npm"]

_NAMES: dict[str, re.Pattern[str]] = {
    "pypi": re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,198}[a-z0-9])?", re.IGNORECASE | re.ASCII),
    "npm": re.compile(r"(?:@[\w.~-]{1,100}/)?(?![._])[\w.~!'()*-]{1,214}", re.ASCII),
}
_EXTRAS = re.compile(r"\[[^\[\]]*\]$")
_SEPARATORS = re.compile(r"[-_.]+")
_WEB_ADDRESS = re.compile(r"https?://[^/?#@\s]+(?:[/?#]\S*)?", re.IGNORECASE)


class PackageAddress(NamedTuple):
    """A package; `wanted` is the version, range or tag that the user named, or empty for the latest release."""

    ecosystem: Ecosystem
    name: str
    wanted: str = ""

    @classmethod
    def parse(cls, ecosystem: Ecosystem, text: str) -> "PackageAddress | None":
        """Parse `name`, `name@version` or `@scope/name@version`; return None if the name is invalid."""
        at = text.rfind("@")
        name, wanted = (text[:at], text[at + 1 :].strip()) if at > 0 else (text, "")
        if ecosystem == "pypi":
            name = _SEPARATORS.sub("-", _EXTRAS.sub("", name)).lower()
        if not _NAMES[ecosystem].fullmatch(name):
            return None
        return cls(ecosystem, name, "" if wanted.lower() == "latest" else wanted)

    @classmethod
    def of(cls, ecosystem: Ecosystem, url: str) -> "PackageAddress":
        """Return the address in the URL of a source."""
        address = cls.parse(ecosystem, unquote(url.removeprefix(f"pkg:{ecosystem}/")))
        if address is None:
            raise UsageError(f"{url!r} is no address of a package.")
        return address

    @property
    def url(self) -> str:
        """Return the URL of the source and of the package's page; it does not change with new releases."""
        wanted = f"@{quote(self.wanted, safe='.+!*~')}" if self.wanted else ""
        return f"pkg:{self.ecosystem}/{quote(self.name, safe='/')}{wanted}"

    @property
    def changelog_url(self) -> str:
        """Return the URL of the changelog item that is read from the release archive."""
        return f"{self.url}?part=changelog"


def recognise(ecosystem: Ecosystem, typed: str) -> str | None:
    """Return the source URL for an address that a user typed; None if it names no package of this ecosystem."""
    for start in (f"{ecosystem}:", f"pkg:{ecosystem}/"):
        if typed.startswith(start):
            rest = typed.removeprefix(start)
            address = PackageAddress.parse(ecosystem, unquote(rest) if start.startswith("pkg:") else rest)
            if address is None:
                raise UsageError(f"{rest!r} is no name of a package.", hint=f"For example {ecosystem}:name@version.")
            return address.url
    return None


class PackageOptions(WebOptions):
    """Options of a package; the options inherited from `WebOptions` apply to its documentation."""

    secret_neutral: ClassVar[frozenset[str]] = WebOptions.secret_neutral | {"prereleases"}

    registry: str | None = Field(default=None, description="URL of the registry, instead of pip's or npm's own")
    registry_headers: dict[str, str] = Field(
        default_factory=dict, description="headers for the registry alone; env:NAME and file:PATH are references"
    )
    docs: str = Field(default="auto", description="documentation: the one that the package names (auto), off, or a URL")
    changelog: str = Field(default="auto", description="release notes: those of the package (auto), off, or a URL")
    prereleases: bool = Field(default=False, description="follow pre-releases as well")

    @field_validator("registry", "docs", "changelog")
    @classmethod
    def _check_address(cls, value: str | None) -> str | None:
        if value in (None, "auto", "off") or _WEB_ADDRESS.fullmatch(value):
            return value
        if "@" in value:
            raise ValueError("an address holds no login: set a reference to it in registry_headers or headers")
        raise ValueError("an address starts with http:// or https://")

    def listing(self) -> dict[str, Any]:
        """Return the options that the cursor of a package depends on."""
        return self.model_dump(mode="json", include={"registry", "docs", "changelog", "prereleases", "max_bytes"})

    @property
    def named_docs(self) -> str | None:
        """Return the documentation URL that the user named; None if the user named none."""
        return None if self.docs in ("auto", "off") else self.docs

    def for_docs(self) -> WebOptions:
        """Return the options of the documentation site; without headers unless the user named the site."""
        values = self.model_dump(include=set(WebOptions.model_fields))
        return WebOptions.model_validate(values if self.named_docs else {**values, "headers": {}})

    def for_changelog(self) -> WebOptions:
        """Return the options for a changelog page, without the options that select parts of a site."""
        shared = {"language", "max_bytes", "robots", "delay_s", "concurrency"}
        return WebOptions(**self.model_dump(include=shared), max_pages=1, sitemap=False, llms=False)
