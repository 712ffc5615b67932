"""Questions for the records of a catalogue service, in the words of its version."""

from dataclasses import dataclass
from datetime import UTC, datetime
from xml.sax.saxutils import escape, quoteattr

__all__ = ["CswDialect", "CswQuestion", "by_identifier", "literal"]

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
    """How a service is spoken to: found out once, and kept.

    `schema` is that of the records, `sort` the property of their identifier, `modified` that of their date, if it can
    be asked for.
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
        """The schema that every service of this version has: Dublin Core."""
        return _CSW[self.version]


@dataclass(frozen=True, slots=True)
class CswQuestion:
    """Records from a position on, the first being 1; none of them (`size` 0) asks how many there are.

    `last_first` turns the order round.
    """

    at: int = 1
    size: int = 0
    since: datetime | None = None
    by_date: bool = False
    brief: bool = False
    last_first: bool = False

    def body(self, dialect: CswDialect) -> bytes:
        """The question in XML."""
        names = {"csw": _CSW[dialect.version], "f": _FILTER[dialect.version], **_NAMESPACES}
        spaces = " ".join(f'xmlns:{prefix}="{uri}"' for prefix, uri in names.items())
        attributes = " ".join(f"{name}={quoteattr(value)}" for name, value in self._attributes(dialect).items())
        return (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<csw:GetRecords {spaces} {attributes}>'
            f"<csw:Query typeNames={quoteattr(dialect.types)}>"
            f"<csw:ElementSetName>{'brief' if self.brief else 'full'}</csw:ElementSetName>"
            f"{self._constraint(dialect)}{self._order(dialect)}</csw:Query></csw:GetRecords>"
        ).encode()

    def arguments(self, dialect: CswDialect) -> dict[str, str]:
        """The question in the parameters of a URL."""
        said = {
            "request": "GetRecords",
            **self._attributes(dialect),
            "typeNames": dialect.types,
            "elementSetName": "brief" if self.brief else "full",
        }
        if self.since is not None and dialect.modified:
            said |= {
                "constraintLanguage": "CQL_TEXT",
                "constraint_language_version": "1.1.0",
                "constraint": f"{dialect.modified} >= '{literal(self.since)}'",
            }
        way = "D" if self.last_first else "A"
        return said | ({"sortBy": f"{prop}:{way}"} if (prop := self._sorted_by(dialect)) else {})

    def _attributes(self, dialect: CswDialect) -> dict[str, str]:
        said = {
            "service": "CSW",
            "version": dialect.version,
            "outputFormat": "application/xml",
            "outputSchema": dialect.plain_schema if self.brief else dialect.schema,
        }
        if dialect.version == "3.0.0":
            return said | {"startPosition": str(self.at), "maxRecords": str(self.size)}
        kind = "results" if self.size else "hits"
        return said | {"resultType": kind, "startPosition": str(self.at), "maxRecords": str(self.size or 1)}

    def _constraint(self, dialect: CswDialect) -> str:
        if self.since is None or not dialect.modified:
            return ""
        name = _PROPERTY[dialect.version]
        return (
            '<csw:Constraint version="1.1.0"><f:Filter><f:PropertyIsGreaterThanOrEqualTo>'
            f"<f:{name}>{escape(dialect.modified)}</f:{name}><f:Literal>{literal(self.since)}</f:Literal>"
            "</f:PropertyIsGreaterThanOrEqualTo></f:Filter></csw:Constraint>"
        )

    def _order(self, dialect: CswDialect) -> str:
        prop = self._sorted_by(dialect)
        if not prop:
            return ""
        name = _PROPERTY[dialect.version]
        way = "DESC" if self.last_first else "ASC"
        return (
            f"<f:SortBy><f:SortProperty><f:{name}>{escape(prop)}</f:{name}><f:SortOrder>{way}</f:SortOrder>"
            "</f:SortProperty></f:SortBy>"
        )

    def _sorted_by(self, dialect: CswDialect) -> str | None:
        return dialect.modified if self.by_date else dialect.sort


def by_identifier(identifier: str, dialect: CswDialect) -> dict[str, str]:
    """The question for one record; every service answers it where it answers any, and as parameters of a URL."""
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
    """A moment to compare with. Many services compare texts: a day without time comes before all times of that day."""
    at = at.astimezone(UTC)
    return at.strftime("%Y-%m-%d") if at.hour == at.minute == at.second == 0 else at.strftime("%Y-%m-%dT%H:%M:%S")
