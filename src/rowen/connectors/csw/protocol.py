"""The CSW protocol: addresses, requests, capabilities and answers of each version.

Records are first compared by their bytes: identifiers and dates are read with regular expressions, and most records
are not parsed because they are unchanged.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit
from xml.sax.saxutils import escape, quoteattr

from rowen.connectors.catalog.options import CatalogOptions, web_url
from rowen.connectors.plain_options import option
from rowen.errors import SourceError, SourceGoneError
from rowen.formats import UnreadableError
from rowen.formats.xml import CutRecord, Reader, XmlElement, cut_up, local, read_in_steps, read_xml, said
from rowen.net.response import Response

# The names of GeoDCAT-AP, DCAT-AP and DCAT, the richest first.
DCAT_SCHEMAS = ("http://data.europa.eu/930/", "http://data.europa.eu/r5r/", "http://www.w3.org/ns/dcat#")
_TELLING = re.compile(r"[?&]service=csw\b|/csw(?:-[\w-]+)?/?(?:\?|$)", re.IGNORECASE)
_SCHEME = re.compile(r"https?://", re.IGNORECASE)
# Parameters of a request; other parameters, such as the map file of a server, belong to the service's address.
_ARGUMENTS = re.compile(
    r"service|version|request|acceptversions|sections|typenames?|elementsetname|elementname|resulttype|outputschema"
    r"|outputformat|startposition|maxrecords|constraint\w*|sortby|namespaces?|id|requestid|hopcount",
    re.IGNORECASE,
)


def is_typical(address: str) -> bool:
    """Return whether the address alone identifies a catalogue service."""
    return bool(_SCHEME.match(address) and _TELLING.search(address.partition("#")[0]))


def accept(address: str) -> str | None:
    """Return the service URL of any web address, without the parameters of a request; None for other text."""
    url = web_url(address, "csw")
    if url is None:
        return None
    parts = urlsplit(url)
    parameters = [(name, value) for name, value in parse_qsl(parts.query) if not _ARGUMENTS.fullmatch(name)]
    return urlunsplit(parts._replace(query=urlencode(parameters), fragment=""))


def ask(base: str, arguments: Mapping[str, str]) -> str:
    """Return the URL of a request with these arguments."""
    base = base.rstrip("?&")
    query = urlencode(arguments, quote_via=quote, safe=":", errors="surrogatepass")
    return f"{base}{'&' if '?' in base else '?'}{query}"


def capabilities_url(base: str, version: str | None = "2.0.2") -> str:
    """Return the URL of the GetCapabilities request."""
    return ask(base, {"service": "CSW", "request": "GetCapabilities"} | ({"version": version} if version else {}))


def item_url(base: str, identifier: str) -> str:
    """Return the URL of a record's item: the request for it, in the version that nearly all services support."""
    return ask(base, {"service": "CSW", "version": "2.0.2", "request": "GetRecordById", "id": identifier})


def identifier_in(url: str) -> str:
    """Return the record identifier in the URL of an item; empty if there is none."""
    parameters = parse_qsl(urlsplit(url).query, keep_blank_values=True, errors="surrogatepass")
    return next((value for name, value in reversed(parameters) if name == "id"), "")


Profile = Literal["iso19139", "iso19115-3", "dcat", "dublin-core"]


class CswOptions(CatalogOptions):
    """Options of kind `csw`."""

    secret_neutral: ClassVar[frozenset[str]] = CatalogOptions.secret_neutral | {"profile"}

    profile: Profile | None = option(default=None, description="the schema to ask for, instead of the richest")

    def reading(self) -> dict[str, Any]:
        """Return the options that affect the mapping of a record; another schema yields another record."""
        return {**super().reading(), "profile": self.profile}


_CSW = {"2.0.2": "http://www.opengis.net/cat/csw/2.0.2", "3.0.0": "http://www.opengis.net/cat/csw/3.0"}
_FILTER = {"2.0.2": "http://www.opengis.net/ogc", "3.0.0": "http://www.opengis.net/fes/2.0"}
_PROPERTY = {"2.0.2": "PropertyName", "3.0.0": "ValueReference"}
_NAMESPACES = {
    "apiso": "http://www.opengis.net/cat/csw/apiso/1.0",
    "dc": "http://purl.org/dc/elements/1.1/",
    "dct": "http://purl.org/dc/terms/",
    "gmd": "http://www.isotc211.org/2005/gmd",
    "ows": "http://www.opengis.net/ows",
}


@dataclass(frozen=True, slots=True)
class CswDialect:
    """The dialect of a service, which is detected once and stored.

    `schema` is the schema of the records. `sort` is the property that contains their identifier. `modified` is the
    property that contains their date; None if the service cannot filter by date.
    """

    version: str
    url: str
    post: bool
    schema: str
    types: str = "csw:Record"
    sort: str | None = "dc:identifier"
    modified: str | None = None

    def __post_init__(self) -> None:
        if self.version not in _CSW:
            raise ValueError(f"version {self.version!r} of CSW is not known")

    @property
    def plain_schema(self) -> str:
        """Return the schema that every service of this version supports: Dublin Core."""
        return _CSW[self.version]


@dataclass(frozen=True, slots=True)
class CswQuestion:
    """A request for `size` records from the position `at` on; the first position is 1.

    With `size` 0 it requests only the number of records. `last_first` reverses the order.
    """

    at: int = 1
    size: int = 0
    since: datetime | None = None
    by_date: bool = False
    brief: bool = False
    last_first: bool = False

    def body(self, dialect: CswDialect) -> bytes:
        """Return the request in XML."""
        names = {"csw": _CSW[dialect.version], "f": _FILTER[dialect.version], **_NAMESPACES}
        spaces = " ".join(f'xmlns:{prefix}="{uri}"' for prefix, uri in names.items())
        attributes = " ".join(f"{name}={quoteattr(value)}" for name, value in self._attributes(dialect).items())
        name, constraint, order = _PROPERTY[dialect.version], "", ""
        if self.since is not None and dialect.modified:
            constraint = (
                '<csw:Constraint version="1.1.0"><f:Filter><f:PropertyIsGreaterThanOrEqualTo>'
                f"<f:{name}>{escape(dialect.modified)}</f:{name}><f:Literal>{literal(self.since)}</f:Literal>"
                "</f:PropertyIsGreaterThanOrEqualTo></f:Filter></csw:Constraint>"
            )
        if prop := self._sorted_by(dialect):
            way = "DESC" if self.last_first else "ASC"
            order = (
                f"<f:SortBy><f:SortProperty><f:{name}>{escape(prop)}</f:{name}><f:SortOrder>{way}</f:SortOrder>"
                "</f:SortProperty></f:SortBy>"
            )
        return (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<csw:GetRecords {spaces} {attributes}>'
            f"<csw:Query typeNames={quoteattr(dialect.types)}>"
            f"<csw:ElementSetName>{'brief' if self.brief else 'full'}</csw:ElementSetName>"
            f"{constraint}{order}</csw:Query></csw:GetRecords>"
        ).encode()

    def arguments(self, dialect: CswDialect) -> dict[str, str]:
        """Return the request as the parameters of a URL."""
        arguments = {
            "request": "GetRecords",
            **self._attributes(dialect),
            "typeNames": dialect.types,
            "elementSetName": "brief" if self.brief else "full",
        }
        if self.since is not None and dialect.modified:
            arguments |= {
                "constraintLanguage": "CQL_TEXT",
                "constraint_language_version": "1.1.0",
                "constraint": f"{dialect.modified} >= '{literal(self.since)}'",
            }
        way = "D" if self.last_first else "A"
        return arguments | ({"sortBy": f"{prop}:{way}"} if (prop := self._sorted_by(dialect)) else {})

    def _attributes(self, dialect: CswDialect) -> dict[str, str]:
        attributes = {
            "service": "CSW",
            "version": dialect.version,
            "outputFormat": "application/xml",
            "outputSchema": dialect.plain_schema if self.brief else dialect.schema,
        }
        if dialect.version == "3.0.0":
            return attributes | {"startPosition": str(self.at), "maxRecords": str(self.size)}
        kind = "results" if self.size else "hits"
        return attributes | {"resultType": kind, "startPosition": str(self.at), "maxRecords": str(self.size or 1)}

    def _sorted_by(self, dialect: CswDialect) -> str | None:
        return dialect.modified if self.by_date else dialect.sort


def by_identifier(identifier: str, dialect: CswDialect) -> dict[str, str]:
    """Return the arguments of the GET request for one record, which every service supports."""
    return {
        "service": "CSW",
        "version": dialect.version,
        "request": "GetRecordById",
        "outputFormat": "application/xml",
        "outputSchema": dialect.schema,
        "elementSetName": "full",
        "id": identifier,
    }


def literal(at: datetime) -> str:
    """Return a date as a filter value. Many services compare texts, in which a day comes before its times."""
    at = at.astimezone(UTC)
    return at.strftime("%Y-%m-%d") if at.hour == at.minute == at.second == 0 else at.strftime("%Y-%m-%dT%H:%M:%S")


# The form of ISO 19139 that nearly all services use. Records in other forms are parsed.
_IDENTIFIER = re.compile(
    r"<(?:[\w.-]++:)?M[DI]_Metadata(?:\s[^<>]*+)?>\s*+<(?P<p>(?:[\w.-]++:)?)fileIdentifier(?:\s[^<>]*+)?>"
    r"\s*+<(?P<q>(?:[\w.-]++:)?CharacterString)(?:\s[^<>]*+)?>(?P<said>[^<>&]*+)</(?P=q)\s*+>"
    r"\s*+</(?P=p)fileIdentifier\s*+>"
)
_STAMP = re.compile(
    r"<(?P<p>(?:[\w.-]++:)?)dateStamp(?:\s[^<>]*+)?>"
    r"\s*+<(?P<q>(?:[\w.-]++:)?Date(?:Time)?)(?:\s[^<>]*+)?>(?P<said>[^<>&]*+)</(?P=q)\s*+>\s*+</(?P=p)dateStamp\s*+>"
)
_NUMBER = re.compile(r"""\sgml:id\s*+=\s*+(?:"[^"<>]*+"|'[^'<>]*+')""")
_DECLARED = re.compile(r"""xmlns:gml\s*+=\s*+["']([^"']*+)["']""")
_GML = frozenset({"http://www.opengis.net/gml", "http://www.opengis.net/gml/3.2"})
_OPEN_AND_CLOSE = 2


class RawName(NamedTuple):
    """The identifier of a record, and the date of its metadata in the original form."""

    identifier: str
    stamp: str


def name_in(text: str) -> RawName | None:
    """Return identifier and date from the text of an ISO 19139 record; None if the record must be parsed.

    Both must be direct children of the record: in a comment or deeper in the tree, these names have other meanings.
    """
    name = _IDENTIFIER.match(text)
    if name is None or "<!" in text or text.count("dateStamp") != _OPEN_AND_CLOSE:
        return None
    stamp = _STAMP.search(text, name.end())
    if stamp is None:
        return None
    at = stamp.start()
    depth = text.count("<", 0, at) - 2 * text.count("</", 0, at) - text.count("/>", 0, at)
    if depth != 1 or not (identifier := _line(name["said"])):
        return None
    return RawName(identifier, _line(stamp["said"]))


def letters_of(record: CutRecord) -> bytes:
    """Return the text of a record without generated identifiers, which differ in each answer."""
    text = record.text
    if "gml:id" not in text or "<!" in text:
        return record.letters()
    if not _GML.issuperset(_DECLARED.findall(record.scope + text)):
        return record.letters()

    def without(number: re.Match[str]) -> str:
        """Remove a generated identifier inside a tag; keep the same characters in text between tags."""
        at = number.start()
        return "" if text.rfind("<", 0, at) > text.rfind(">", 0, at) else number[0]

    return record._replace(text=_NUMBER.sub(without, text)).letters()


def _line(words: str) -> str:
    return "\n".join(line.strip() for line in words.strip().splitlines())


_RESULTS = frozenset({"SearchResults"})
_ONE = frozenset({"GetRecordByIdResponse"})
# Version 3.0 returns the record itself as the root element.
_RECORDS = frozenset({"MD_Metadata", "MI_Metadata", "Record"})
_WRONG = frozenset({"Exception", "ServiceException"})
_REPORTS = frozenset({"ExceptionReport", "ServiceExceptionReport"})
_BEYOND_US = frozenset(
    {"InvalidParameterValue", "MissingParameterValue", "OptionNotSupported", "OperationNotSupported"}
)


class CswRefusalError(UnreadableError):
    """The service reported an error; `is_question` is set if it rejected the request itself."""

    is_question = False


@dataclass(slots=True)
class CswAnswer:
    """Records, with the number of matching records and the declared number of records in this answer."""

    records: list[CutRecord | XmlElement] = field(default_factory=list)
    matched: int | None = None
    returned: int | None = None


async def read(response: Response, where: str) -> CswAnswer:
    """Parse the response to a request for records; raise the error that the service reports."""
    cut = await cut_up(response.body, _RESULTS, charset=response.charset)
    charset = "utf-8" if cut else response.charset
    reader = Reader(_WRONG, within=_RESULTS, heads=_RESULTS, charset=charset)
    root, found = await _read(response, where, reader, cut.rest if cut else response.body)
    if root != "GetRecordsResponse":
        raise SourceError(f"{where} answers with XML that is no list of records.")
    answer = CswAnswer()
    for element in found:
        if local(element.tree.tag) == "SearchResults":
            answer.matched = _number(element.tree.get("numberOfRecordsMatched"))
            answer.returned = _number(element.tree.get("numberOfRecordsReturned"))
        else:
            answer.records.append(element)
    answer.records += cut.records if cut else []
    return answer


async def read_one(response: Response, where: str) -> list[CutRecord | XmlElement]:
    """Return the record in the response to a request for one record; empty if the service does not know it."""
    cut = await cut_up(response.body, _ONE, charset=response.charset)
    reader = Reader(_WRONG | _RECORDS, within=_ONE, charset="utf-8" if cut else response.charset)
    root, found = await _read(response, where, reader, cut.rest if cut else response.body)
    if root not in _ONE | _RECORDS:
        raise SourceError(f"{where} answers with XML that is no record.")
    return [*found, *(cut.records if cut else [])]


async def _read(response: Response, where: str, reader: Reader, body: bytes) -> tuple[str, list[XmlElement]]:
    """Return the name of the root element, and the elements that `reader` finds in `body`."""
    try:
        found = await read_in_steps(body, reader)
    except SourceError as problem:
        if not response.ok:
            raise _bad_status(response, where) from None
        raise type(problem)(f"{where}: {problem}", hint=problem.hint) from None
    root = local(reader.root or "")
    if root in _REPORTS:
        reports = [element.tree for element in found]
        codes = (report.get("exceptionCode") or report.get("code") for report in reports)
        code = next(filter(None, codes), "")
        words = " ".join(map(said, reports))[:300]
        refusal = CswRefusalError(f"{where} reports {code or 'an exception'}: {words}")
        refusal.is_question = code in _BEYOND_US
        raise refusal
    if not response.ok:
        raise _bad_status(response, where)
    return root, found


def _bad_status(response: Response, where: str) -> SourceError:
    kind = SourceGoneError if response.status in (404, 405, 410) else UnreadableError
    return kind(f"{where} answered with status {response.status}.")


def _number(words: str | None) -> int | None:
    """Return a count; None for negative numbers and other invalid values."""
    return int(words) if words and words.isdecimal() and len(words) < 12 else None


_HREF = "{http://www.w3.org/1999/xlink}href"
_GMD = ("http://www.isotc211.org/2005/gmd",)
_MDB = ("http://standards.iso.org/iso/19115/-3/mdb/2.0", "http://standards.iso.org/iso/19115/-3/mdb/1.0")
_SCHEMAS: dict[Profile, tuple[str, ...]] = {
    "iso19139": _GMD,
    "iso19115-3": _MDB,
    "dcat": DCAT_SCHEMAS,
    "dublin-core": (),
}
_OPERATION = frozenset({"Operation", "ServiceTypeVersion"})
_MODIFIED = ("apiso:Modified", "dct:modified")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of a service; any value may be missing or wrong."""

    versions: tuple[str, ...] = ()
    get: str | None = None
    post: str | None = None
    schemas: tuple[str, ...] = ()
    queryables: tuple[str, ...] = ()

    @classmethod
    def read(cls, response: Response) -> "Capabilities | None":
        """Return the capabilities in a response; None if it contains none."""
        reader = Reader(_OPERATION, heads=frozenset({"Capabilities"}), charset=response.charset)
        trees = [element.tree for element in read_xml(response.body, reader)]
        if local(reader.root or "") != "Capabilities":
            return None
        found = [said(tree) for tree in trees if local(tree.tag) == "ServiceTypeVersion"]
        found += [tree.get("version", "") for tree in trees if local(tree.tag) == "Capabilities"]
        versions = tuple(filter(None, found))
        operation = next((tree for tree in trees if tree.get("name") == "GetRecords"), None)
        if operation is None:
            return cls(versions)
        # A second binding may be for SOAP, which its text states.
        posts = (post for post in operation.findall("{*}DCP/{*}HTTP/{*}Post") if "SOAP" not in said(post).upper())
        schemas = [node for node in operation.findall("{*}Parameter") if node.get("name", "").lower() == "outputschema"]
        queryables = [
            node for node in operation.findall("{*}Constraint") if "queryables" in node.get("name", "").lower()
        ]
        return cls(
            versions,
            next(filter(None, (get.get(_HREF) for get in operation.findall("{*}DCP/{*}HTTP/{*}Get"))), None),
            next(filter(None, (post.get(_HREF) for post in posts)), None),
            tuple(said(value) for node in schemas for value in node.iter() if local(value.tag) == "Value"),
            tuple(said(value) for node in queryables for value in node.iter() if local(value.tag) == "Value"),
        )

    @property
    def dates(self) -> tuple[str, ...]:
        """Return the properties that may contain the date of a record, the most likely first."""
        properties = [name for name in self.queryables if name.rpartition(":")[2].lower() == "modified"]
        return tuple(dict.fromkeys([*properties, *_MODIFIED]))

    def dialects(self, base: str, profile: Profile | None = None) -> Iterator[CswDialect]:
        """Yield the possible dialects of the service, the best first."""
        version = "2.0.2" if "2.0.2" in self.versions or "3.0.0" not in self.versions else "3.0.0"
        # The advertised endpoint, if it is on the same host, then the source's own address.
        ways = [(self.post, True), (self.get, False)] if self.post or not self.get else [(self.get, False)]
        host = urlsplit(base).hostname
        places = [(url, post) for url, post in ways if url and urlsplit(url).hostname == host]
        # An empty schema stands for the Dublin Core of the version.
        if profile is not None:
            named = _SCHEMAS[profile]
            schemas = [name for name in named if name in self.schemas] or list(named[:1]) or [""]
        else:
            known = (*_GMD, *_MDB, *DCAT_SCHEMAS)
            offered = self.schemas or _GMD
            schemas = [*(name for name in known if name in offered), ""]
        for url, post in dict.fromkeys([*places, *((base, post) for _, post in ways)]):
            for schema in schemas:
                plain = CswDialect(version, url, post, schema)
                plain = plain if schema else CswDialect(version, url, post, plain.plain_schema)
                yield plain
                yield CswDialect(version, url, post, plain.schema, sort="apiso:identifier")
                if schema in _GMD:
                    yield CswDialect(version, url, post, schema, types="gmd:MD_Metadata", sort="apiso:identifier")
                yield CswDialect(version, url, post, plain.schema, sort=None)


def is_capabilities(body: bytes) -> bool:
    """Return whether a body, or its beginning, looks like the capabilities of a catalogue service."""
    head = body[:4000]
    return b"Capabilities" in head and b"http://www.opengis.net/cat/csw/" in head and b"<html" not in head.lower()
