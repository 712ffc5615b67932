"""What a catalogue service says that it can do, and the dialects in which to try it."""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from rowen.connectors.csw import dcat
from rowen.connectors.csw.address import Profile
from rowen.connectors.csw.question import CswDialect
from rowen.formats.xml import Element, Reader, local, read_xml, said
from rowen.net.response import Response

__all__ = ["Capabilities", "is_capabilities"]

_HREF = "{http://www.w3.org/1999/xlink}href"
_GMD = ("http://www.isotc211.org/2005/gmd",)
_MDB = ("http://standards.iso.org/iso/19115/-3/mdb/2.0", "http://standards.iso.org/iso/19115/-3/mdb/1.0")
_SCHEMAS: dict[Profile, tuple[str, ...]] = {
    "iso19139": _GMD,
    "iso19115-3": _MDB,
    "dcat": dcat.SCHEMAS,
    "dublin-core": (),
}
_OPERATION = frozenset({"Operation", "ServiceTypeVersion"})
_MODIFIED = ("apiso:Modified", "dct:modified")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """How a service says that it may be asked for records; everything may be missing, or wrong."""

    versions: tuple[str, ...] = ()
    get: str | None = None
    post: str | None = None
    schemas: tuple[str, ...] = ()
    queryables: tuple[str, ...] = ()

    @classmethod
    def read(cls, response: Response) -> "Capabilities | None":
        """The capabilities in a response; None if there are none in it."""
        reader = Reader(_OPERATION, heads=frozenset({"Capabilities"}), charset=response.charset)
        found = [one.tree for one in read_xml(response.body, reader)]
        if local(reader.root or "") != "Capabilities":
            return None
        versions = [said(one) for one in found if local(one.tag) == "ServiceTypeVersion"]
        versions += [one.get("version", "") for one in found if local(one.tag) == "Capabilities"]
        for one in found:
            if one.get("name") == "GetRecords":
                return cls(tuple(filter(None, versions)), *_bindings(one), _schemas(one), tuple(_queryables(one)))
        return cls(tuple(filter(None, versions)))

    @property
    def dates(self) -> tuple[str, ...]:
        """The properties by which the date of a record may be asked for, the likeliest first."""
        told = [name for name in self.queryables if name.rpartition(":")[2].lower() == "modified"]
        return tuple(dict.fromkeys([*told, *_MODIFIED]))

    def dialects(self, base: str, profile: Profile | None = None) -> Iterator[CswDialect]:
        """How to speak to the service, the best way first."""
        version = "2.0.2" if "2.0.2" in self.versions or "3.0.0" not in self.versions else "3.0.0"
        for url, post in self._places(base):
            for schema in self._wanted(profile):
                plain = CswDialect(version, url, post, schema)
                plain = plain if schema else CswDialect(version, url, post, plain.plain_schema)
                yield plain
                yield CswDialect(version, url, post, plain.schema, sort="apiso:identifier")
                if schema in _GMD:
                    yield CswDialect(version, url, post, schema, types="gmd:MD_Metadata", sort="apiso:identifier")
                yield CswDialect(version, url, post, plain.schema, sort=None)

    def _places(self, base: str) -> Iterator[tuple[str, bool]]:
        """Where to ask: at the address that is told, if it is on the same host; the given one may be as good."""
        ways = [(self.post, True), (self.get, False)] if self.post or not self.get else [(self.get, False)]
        host = urlsplit(base).hostname
        told = [(url, post) for url, post in ways if url and urlsplit(url).hostname == host]
        yield from dict.fromkeys([*told, *((base, post) for _, post in ways)])

    def _wanted(self, profile: Profile | None) -> list[str]:
        """The schemas to ask for; an empty one is Dublin Core in the words of the version."""
        if profile is not None:
            named = _SCHEMAS[profile]
            return [one for one in named if one in self.schemas] or list(named[:1]) or [""]
        known = (*_GMD, *_MDB, *dcat.SCHEMAS)
        return [*(one for one in known if one in self.schemas or (not self.schemas and one in _GMD)), ""]


def is_capabilities(body: bytes) -> bool:
    """Whether an answer begins like the capabilities of a catalogue service."""
    head = body[:4000]
    return b"Capabilities" in head and b"http://www.opengis.net/cat/csw/" in head and b"<html" not in head.lower()


def _bindings(operation: Element) -> tuple[str | None, str | None]:
    gets = [one.get(_HREF) for one in operation.findall("{*}DCP/{*}HTTP/{*}Get")]
    posts = operation.findall("{*}DCP/{*}HTTP/{*}Post")
    # A second binding is for SOAP, and says so.
    plain = [one for one in posts if "SOAP" not in said(one).upper()]
    return next(filter(None, gets), None), next(filter(None, (one.get(_HREF) for one in plain)), None)


def _schemas(operation: Element) -> tuple[str, ...]:
    return tuple(
        said(value)
        for parameter in operation.findall("{*}Parameter")
        if parameter.get("name", "").lower() == "outputschema"
        for value in parameter.iter()
        if local(value.tag) == "Value"
    )


def _queryables(operation: Element) -> Iterator[str]:
    for constraint in operation.findall("{*}Constraint"):
        if "queryables" in constraint.get("name", "").lower():
            yield from (said(value) for value in constraint.iter() if local(value.tag) == "Value")
