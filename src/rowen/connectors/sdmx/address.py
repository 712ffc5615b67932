"""Addresses of SDMX services: where the dataflows are, and under which URL one of them is known."""

import re
from dataclasses import dataclass

from rowen.connectors.catalog.options import DocumentOptions, web_url
from rowen.connectors.plain_options import option
from rowen.model.url import quoted, segment

__all__ = ["SdmxAddress", "SdmxOptions", "accept", "is_sdmx", "recognise"]

_PREFIX = "sdmx:"
_TELLING = re.compile(r"/dataflow/(?:all|\*|%2A)(?:/[^/]*)*|/structure/dataflow(?:/[^/]*)*", re.IGNORECASE)
_FLOWS = re.compile(r"(?P<root>.*?)(?P<three>/structure)?/dataflow(?:/[^/]*)*", re.IGNORECASE)
_SOME_FILE = re.compile(r"/[^/]+\.(?:xml|json|sdmx)$", re.IGNORECASE)
_ASKED = "detail=full&references=none"
_XML = re.compile(
    rb"(?:\s++|<\?[^>]*+>|<!--(?>.*?-->))*+<(?:[\w.-]++:)?(?:Structure|RegistryInterface)\s"
    rb"[^>]*sdmx\.org/resources/sdmxml/schemas/v\d_\d/message",
    re.DOTALL | re.IGNORECASE,
)
_JSON = re.compile(rb'"dataflows"\s*:')


@dataclass(frozen=True, slots=True)
class SdmxAddress:
    """A service by its base, by its list of dataflows, or a document that lies anywhere."""

    url: str

    @property
    def documents(self) -> tuple[str, ...]:
        """Where the list may be: the address itself, or before that, what SDMX 2.1 and 3.0 have below a base."""
        if self._is_document:
            return (self.url,)
        bare = self.url.rstrip("/")
        return f"{bare}/dataflow/all/all/latest?{_ASKED}", f"{bare}/structure/dataflow/*/*/~?{_ASKED}", self.url

    @property
    def root(self) -> str | None:
        """The base of the service; None for a document."""
        path = self.url.partition("?")[0].rstrip("/")
        if found := _FLOWS.fullmatch(path):
            return found["root"]
        return None if self._is_document else path

    @property
    def _is_document(self) -> bool:
        path = self.url.partition("?")[0]
        return bool("?" in self.url or _FLOWS.fullmatch(path) or _SOME_FILE.search(path))

    def item(self, agency: str, identifier: str) -> str:
        """The URL of a dataflow, which answers with its latest version; in a document, a route of it."""
        if self.root is None:
            return f"{self.url.partition('#')[0]}#/{quoted(agency)}:{quoted(identifier)}"
        return f"{self.root}/dataflow/{_segment(agency) or 'all'}/{_segment(identifier)}"

    def data(self, agency: str, identifier: str, document: str) -> str | None:
        """Where the data of a dataflow is, by the version of the API that answered."""
        if self.root is None or "/dataflow" not in document:
            return None
        if "/structure/dataflow" in document:
            return f"{self.root}/data/dataflow/{_segment(agency)}/{_segment(identifier)}"
        return f"{self.root}/data/{_segment(agency)},{_segment(identifier)}"


def recognise(address: str) -> str | None:
    """The source URL of `sdmx:https://…`, or of an address that asks an SDMX service for all dataflows."""
    path = address.partition("?")[0]
    telling = address.startswith(_PREFIX) or re.search(f"(?:{_TELLING.pattern})$", path, re.IGNORECASE)
    return accept(address) if telling else None


def accept(address: str) -> str | None:
    """The source URL of an address that is said to be an SDMX service's."""
    return web_url(address, "sdmx")


def is_sdmx(body: bytes) -> bool:
    """Whether what may be only the beginning of a document is a list of dataflows."""
    body = body.lstrip(b"\xef\xbb\xbf \t\r\n")
    if body[:1] == b"<":
        return bool(_XML.match(body)) and (b"Dataflow" in body or b"KeyFamil" in body)
    return body[:1] == b"{" and bool(_JSON.search(body)) and b"sdmx" in body


def _segment(name: str) -> str:
    return segment(name, safe="@:!$&+~")


class SdmxOptions(DocumentOptions):
    """Options of kind `sdmx`; `language` is the one to prefer where a dataflow has names in several."""

    # It is read while it comes in and never held whole: this is a limit on patience, not on memory.
    max_bytes: int = option(default=1 << 30, gt=0, description="largest document that is read")
