"""Addresses of OAI-PMH repositories: the base URL, and under which URL a record is known."""

import re
from typing import Any, ClassVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from rowen.connectors.catalog.options import CatalogOptions, web_url
from rowen.connectors.plain_options import option
from rowen.model.url import quoted

__all__ = ["OaiOptions", "accept", "ask", "item_url", "recognise"]

_PREFIX = "oai:"
_VERBS = "Identify|ListMetadataFormats|ListSets|ListIdentifiers|ListRecords|GetRecord"
_TELLING = re.compile(
    rf"[?&]verb=(?:{_VERBS})\b|/(?:oai2?d?|oai-?pmh2?|oai/request|oaihandler)/?(?:\?|$)", re.IGNORECASE
)
_ARGUMENTS = frozenset({"verb", "metadataprefix", "from", "until", "set", "identifier", "resumptiontoken"})
_SCHEME = re.compile(r"https?://", re.IGNORECASE)


def recognise(address: str) -> str | None:
    """The base URL of `oai:https://…`, or of an address that shows the protocol."""
    if address.startswith(_PREFIX) or (_SCHEME.match(address) and _TELLING.search(address.partition("#")[0])):
        return accept(address)
    return None


def accept(address: str) -> str | None:
    """The base URL of any web address that is said to be a repository's: without the arguments of a question."""
    url = web_url(address, "oai")
    if url is None:
        return None
    parts = urlsplit(url)
    kept = [(name, value) for name, value in parse_qsl(parts.query) if name.lower() not in _ARGUMENTS]
    return urlunsplit(parts._replace(query=urlencode(kept), fragment=""))


def ask(base: str, verb: str, **arguments: str | None) -> str:
    """The URL of a question; `from_` stands for `from`, which Python keeps for itself."""
    said = {name.rstrip("_"): value for name, value in arguments.items() if value is not None}
    query = urlencode({"verb": verb, **said}, quote_via=quote, safe="", errors="surrogatepass")
    return f"{base}{'&' if '?' in base else '?'}{query}"


def item_url(base: str, identifier: str) -> str:
    """Under which URL a record is known: the question for it in the format that every repository has.

    An identifier that is a web address stands in a route instead, without its scheme, which repositories change.
    """
    if _SCHEME.match(identifier):
        return f"{base}#/{quoted(_SCHEME.sub('', identifier, count=1))}"
    return ask(base, "GetRecord", metadataPrefix="oai_dc", identifier=identifier)


def _listed(value: Any) -> Any:
    return tuple(one.strip() for one in value.split(",") if one.strip()) if isinstance(value, str) else value


class OaiOptions(CatalogOptions):
    """Options of kind `oai`; how many records come at once is the repository's choice."""

    secret_neutral: ClassVar[frozenset[str]] = CatalogOptions.secret_neutral | {"prefix", "sets"}

    prefix: str | None = option(
        default=None, pattern=r"^[A-Za-z0-9\-_.!~*'()]+$", description="the metadata format to ask for"
    )
    sets: tuple[str, ...] = option(default=(), prepare=_listed, description="the sets to read, instead of all records")

    def reading(self) -> dict[str, Any]:
        """Another format is another record."""
        return {**super().reading(), "prefix": self.prefix}
