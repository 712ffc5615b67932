"""Addresses of catalogue services: where questions go, and under which URL a record is known."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from rowen.connectors.catalog.options import CatalogOptions, web_url
from rowen.connectors.plain_options import option

__all__ = ["CswOptions", "Profile", "accept", "ask", "capabilities_url", "identifier_in", "item_url", "recognise"]

_PREFIX = "csw:"
_TELLING = re.compile(r"[?&]service=csw\b|/csw(?:-[\w-]+)?/?(?:\?|$)", re.IGNORECASE)
_SCHEME = re.compile(r"https?://", re.IGNORECASE)
# What belongs to a question; other parameters, such as the map file of a server, belong to the service.
_ARGUMENTS = re.compile(
    r"service|version|request|acceptversions|sections|typenames?|elementsetname|elementname|resulttype|outputschema"
    r"|outputformat|startposition|maxrecords|constraint\w*|sortby|namespaces?|id|requestid|hopcount",
    re.IGNORECASE,
)


def recognise(address: str) -> str | None:
    """The service of `csw:https://…`, or of an address that shows the protocol."""
    if address.startswith(_PREFIX) or (_SCHEME.match(address) and _TELLING.search(address.partition("#")[0])):
        return accept(address)
    return None


def accept(address: str) -> str | None:
    """The service of any web address that is said to be one: without the arguments of a question."""
    url = web_url(address, "csw")
    if url is None:
        return None
    parts = urlsplit(url)
    kept = [(name, value) for name, value in parse_qsl(parts.query) if not _ARGUMENTS.fullmatch(name)]
    return urlunsplit(parts._replace(query=urlencode(kept), fragment=""))


def ask(base: str, arguments: Mapping[str, str]) -> str:
    """The URL of a question."""
    base = base.rstrip("?&")
    query = urlencode(arguments, quote_via=quote, safe=":", errors="surrogatepass")
    return f"{base}{'&' if '?' in base else '?'}{query}"


def capabilities_url(base: str, version: str | None = "2.0.2") -> str:
    """The URL of the question what a service can do."""
    return ask(base, {"service": "CSW", "request": "GetCapabilities"} | ({"version": version} if version else {}))


def item_url(base: str, identifier: str) -> str:
    """Under which URL a record is known: the question for it, in the version that nearly all services speak."""
    return ask(base, {"service": "CSW", "version": "2.0.2", "request": "GetRecordById", "id": identifier})


def identifier_in(url: str) -> str:
    """The identifier in the URL of a record; empty if there is none."""
    asked = parse_qsl(urlsplit(url).query, keep_blank_values=True, errors="surrogatepass")
    return next((value for name, value in reversed(asked) if name == "id"), "")


Profile = Literal["iso19139", "iso19115-3", "dcat", "dublin-core"]


class CswOptions(CatalogOptions):
    """Options of kind `csw`."""

    secret_neutral: ClassVar[frozenset[str]] = CatalogOptions.secret_neutral | {"profile"}

    profile: Profile | None = option(default=None, description="the schema to ask for, instead of the richest")

    def reading(self) -> dict[str, Any]:
        """Another schema is another record."""
        return {**super().reading(), "profile": self.profile}
