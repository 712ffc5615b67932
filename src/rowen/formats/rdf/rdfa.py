"""Reads RDFa 1.1 in HTML: the RDF statements in the attributes of a page.

It implements the processing sequence of RDFa Core 1.1 (section 7.5) with the rules of HTML+RDFa 1.1, over the parsed
tree of a page. It does not recurse, and its output is counted in a budget, so that neither depth nor repetition can
make a page disproportionately expensive. Property copying (`rdfa:copy`) is not supported.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urljoin

from turbohtml import Document, Element, parse

from rowen.formats.rdf.graph import Blank, Iri, Literal, Node, Term
from rowen.model.text import Budget

_W3 = "http://www.w3.org/"
_XHV = f"{_W3}1999/xhtml/vocab#"

INITIAL_PREFIXES: Mapping[str, str] = {
    "as": "https://www.w3.org/ns/activitystreams#",
    "cat": f"{_W3}ns/dcat#",
    "cc": "http://creativecommons.org/ns#",
    "cnt": f"{_W3}2008/content#",
    "csvw": f"{_W3}ns/csvw#",
    "ctag": "http://commontag.org/ns#",
    "dc": "http://purl.org/dc/terms/",
    "dc11": "http://purl.org/dc/elements/1.1/",
    "dcat": f"{_W3}ns/dcat#",
    "dcterms": "http://purl.org/dc/terms/",
    "dqv": f"{_W3}ns/dqv#",
    "duv": f"{_W3}ns/duv#",
    "earl": f"{_W3}ns/earl#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "geo": f"{_W3}2003/01/geo/wgs84_pos#",
    "gldp": f"{_W3}ns/people#",
    "gr": "http://purl.org/goodrelations/v1#",
    "grddl": f"{_W3}2003/g/data-view#",
    "ht": f"{_W3}2006/http#",
    "ical": f"{_W3}2002/12/cal/icaltzd#",
    "jsonld": f"{_W3}ns/json-ld#",
    "ldp": f"{_W3}ns/ldp#",
    "ma": f"{_W3}ns/ma-ont#",
    "oa": f"{_W3}ns/oa#",
    "odrl": f"{_W3}ns/odrl/2/",
    "og": "http://ogp.me/ns#",
    "org": f"{_W3}ns/org#",
    "owl": f"{_W3}2002/07/owl#",
    "prov": f"{_W3}ns/prov#",
    "ptr": f"{_W3}2009/pointers#",
    "qb": "http://purl.org/linked-data/cube#",
    "rdf": f"{_W3}1999/02/22-rdf-syntax-ns#",
    "rdfa": f"{_W3}ns/rdfa#",
    "rdfs": f"{_W3}2000/01/rdf-schema#",
    "rev": "http://purl.org/stuff/rev#",
    "rif": f"{_W3}2007/rif#",
    "rr": f"{_W3}ns/r2rml#",
    "schema": "http://schema.org/",
    "sd": f"{_W3}ns/sparql-service-description#",
    "sioc": "http://rdfs.org/sioc/ns#",
    "skos": f"{_W3}2004/02/skos/core#",
    "skosxl": f"{_W3}2008/05/skos-xl#",
    "sosa": f"{_W3}ns/sosa/",
    "ssn": f"{_W3}ns/ssn/",
    "time": f"{_W3}2006/time#",
    "v": "http://rdf.data-vocabulary.org/#",
    "vcard": f"{_W3}2006/vcard/ns#",
    "void": "http://rdfs.org/ns/void#",
    "wdr": f"{_W3}2007/05/powder#",
    "wdrs": f"{_W3}2007/05/powder-s#",
    "xhv": _XHV,
    "xml": f"{_W3}XML/1998/namespace",
    "xsd": f"{_W3}2001/XMLSchema#",
}
"""The prefixes that pages need not declare (the initial context of RDFa 1.1)."""

_INITIAL_TERMS = {
    "describedby": f"{_W3}2007/05/powder-s#describedby",
    "license": f"{_XHV}license",
    "role": f"{_XHV}role",
}
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def prefixes_in(declared: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs of prefix and IRI in a `prefix` attribute; invalid pairs are skipped."""
    words = declared.split()
    at = 0
    while at < len(words) - 1:
        if words[at].endswith(":"):
            if words[at] != "_:":
                yield words[at][:-1].lower(), words[at + 1]
            at += 1
        at += 1


def absolute(base: str, reference: str) -> Iri:
    """Return a reference as an IRI, resolved against `base`; an absolute reference stays unchanged."""
    reference = reference.strip()
    if _ABSOLUTE.match(reference):
        return Iri(reference)
    if not reference:
        return Iri(base)
    try:
        joined = urljoin(base, reference)
    except ValueError:
        return Iri(reference)
    # urljoin drops an empty fragment, which RFC 3986 keeps.
    return Iri(f"{joined}#" if reference.endswith("#") and not joined.endswith("#") else joined)


def resource_of(written: str, base: str, prefixes: Mapping[str, str]) -> Node | None:
    """Return the node in `about` or `resource`: a safe CURIE, a CURIE or an IRI; None for an invalid safe CURIE."""
    written = written.strip()
    if written.startswith("[") and written.endswith("]"):
        return _curie(written[1:-1].strip(), prefixes)
    return _curie(written, prefixes) or absolute(base, written)


def name_of(word: str, prefixes: Mapping[str, str], vocabulary: str | None) -> Node | None:
    """Return the node for a word in `property`, `rel`, `rev`, `typeof` or `datatype`; None for an invalid word.

    A valid word is a term, a CURIE or an absolute IRI.
    """
    if ":" in word:
        name = _curie(word, prefixes)
        return name if name is not None or not _ABSOLUTE.match(word) else Iri(word)
    if "/" in word:
        return None
    if vocabulary is not None:
        return Iri(vocabulary + word)
    known = _INITIAL_TERMS.get(word.lower())
    return Iri(known) if known else None


def _curie(written: str, prefixes: Mapping[str, str]) -> Node | None:
    prefix, colon, reference = written.partition(":")
    if not colon:
        return None
    if prefix == "_":
        return Blank(f"_:n.{reference}")
    if not prefix:
        return Iri(_XHV + reference)
    start = prefixes.get(prefix.lower())
    return Iri(start + reference) if start is not None else None


RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XSD = "http://www.w3.org/2001/XMLSchema#"
_USES = "http://www.w3.org/ns/rdfa#usesVocabulary"
_TYPE, _FIRST, _REST, _NIL = (f"{RDF}{name}" for name in ("type", "first", "rest", "nil"))
_XML, _HTML = f"{RDF}XMLLiteral", f"{RDF}HTML"
_DIGITS = r"-?\d{4,9}"  # digits of a year; longer numbers are no dates, and would be scanned repeatedly
_ZONE = r"(?:Z|[+-]\d\d:\d\d)?"
# HTML+RDFa 1.1, section 3.1: the type follows from the value of `datetime`.
_TIMES = [
    (re.compile(rf"{_DIGITS}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?{_ZONE}"), Iri(f"{XSD}dateTime")),
    (re.compile(rf"{_DIGITS}-\d\d-\d\d{_ZONE}"), Iri(f"{XSD}date")),
    (re.compile(rf"\d\d:\d\d:\d\d(?:\.\d+)?{_ZONE}"), Iri(f"{XSD}time")),
    (re.compile(rf"{_DIGITS}-\d\d"), Iri(f"{XSD}gYearMonth")),
    (re.compile(_DIGITS), Iri(f"{XSD}gYear")),
    (
        re.compile(r"-?P(?=\d|T)(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?=\d)(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d+)?S)?)?"),
        Iri(f"{XSD}duration"),
    ),
]
_MEANINGFUL = frozenset(
    [
        *("about", "content", "datatype", "datetime", "href", "inlist", "lang", "prefix", "property", "rel"),
        *("resource", "rev", "src", "typeof", "vocab", "xml:lang"),
    ]
)
_OUTER = frozenset({"head", "body"})
# Memory of a statement besides its characters: a tuple, three strings and a list entry.
_STATEMENT_CHARS = 100

RdfaTriple: TypeAlias = tuple[Node, Node, Term]


class _Incomplete(NamedTuple):
    """A statement that waits for the next node below: its predicate and direction, or the list for the node."""

    predicate: Node
    is_reverse: bool = False
    listed: list[Term] | None = None


@dataclass(frozen=True, slots=True)
class _Scope:
    """The evaluation context for the children of an element."""

    subject: Node
    object: Node
    incomplete: tuple[_Incomplete, ...] = ()
    lists: dict[Node, list[Term]] = field(default_factory=dict)
    language: str | None = None
    prefixes: Mapping[str, str] = field(default_factory=dict)
    vocabulary: str | None = None


@dataclass(slots=True)
class _Result:
    """The result for one element: its subject, the object for its children, and its typed resource."""

    subject: Node | None = None
    object: Node | None = None
    typed: Node | None = None
    skips: bool = False


def read_rdfa(html: str, url: str) -> list[RdfaTriple]:
    """Return all RDF statements in a page, in order; raise `OverspentError` if they are disproportionately large."""
    return statements_of(parse(html), url, given=len(html))


def statements_of(page: Document, url: str, *, given: int) -> list[RdfaTriple]:
    """Return the RDF statements of a parsed page; `given` is the length of its HTML."""
    base = page.base_url(url).partition("#")[0]
    return _Processor(base, Budget(given)).process(page.root)


class _Processor:
    """Processes one page in one pass."""

    def __init__(self, base: str, budget: Budget) -> None:
        self.base = base
        self.spend = budget.spend
        self._triples: list[RdfaTriple] = []
        self._blanks = 0

    def process(self, root: Element | None) -> list[RdfaTriple]:
        """Visit each element before its children; the statements of a list follow after all its elements."""
        base = Iri(self.base)
        outermost = _Scope(base, base, prefixes=INITIAL_PREFIXES)
        waiting: list[tuple[Element, _Scope] | tuple[Node, dict[Node, list[Term]]]] = []
        if root is not None:
            waiting = [(base, outermost.lists), (root, outermost)]
        while waiting:
            element, scope = waiting.pop()
            if not isinstance(element, Element):
                # Section 7.5.14: add the lists of a subject.
                for predicate, values in scope.items():  # type: ignore[union-attr]
                    cells: list[Node] = [self.blank() for _ in values]
                    self._add(element, predicate, cells[0] if cells else Iri(_NIL))
                    for cell, value, following in zip(cells, values, [*cells[1:], Iri(_NIL)], strict=False):
                        self._add(cell, Iri(_FIRST), value)
                        self._add(cell, Iri(_REST), following)
                continue
            assert isinstance(scope, _Scope)  # noqa: S101 (lists stand beside nodes only)
            attributes = element.attrs
            inner = scope
            if attributes and (
                not _MEANINGFUL.isdisjoint(attributes)
                or any(name.startswith("xmlns:") for name in attributes)
                or element is root
            ):
                inner, subject = self._element(element, _as_text(attributes), scope, is_root=element is root)
                if inner.lists is not scope.lists and subject is not None:
                    waiting.append((subject, inner.lists))
            children = [(child, inner) for child in element.children if isinstance(child, Element)]
            children.reverse()
            waiting += children
        return self._triples

    def _element(
        self, element: Element, attributes: dict[str, str], scope: _Scope, *, is_root: bool
    ) -> tuple[_Scope, Node | None]:
        """Process an element (sections 7.5.2 to 7.5.13); return the context for its children, and its new subject."""
        vocabulary, prefixes, language = scope.vocabulary, scope.prefixes, scope.language
        if "vocab" in attributes:
            vocabulary = absolute(self.base, attributes["vocab"]) if attributes["vocab"].strip() else None
            if vocabulary:
                self._add(Iri(self.base), Iri(_USES), Iri(vocabulary))
        pairs = [(name[6:].lower(), value) for name, value in attributes.items() if name.startswith("xmlns:")]
        pairs += prefixes_in(attributes.get("prefix", ""))
        if pairs:
            self.spend(len(prefixes) + len(pairs))
            prefixes = {**prefixes, **dict(pairs)}
        for name in ("xml:lang", "lang"):
            if name in attributes:
                language = attributes[name].strip() or None
        forward = self._relations(attributes, "rel", prefixes, vocabulary)
        backward = self._relations(attributes, "rev", prefixes, vocabulary)
        result = _Result()
        nodes = _Nodes(self, attributes, prefixes)
        if forward is None and backward is None:
            self._establish(result, nodes, scope, is_root=is_root, is_outer=element.tag in _OUTER)
        else:
            # Section 7.5.6: subject and object of an element with `rel` or `rev`.
            result.subject = nodes.about or (Iri(self.base) if is_root else scope.object)
            result.object = nodes.resource
            if "typeof" in attributes:
                if result.object is None and nodes.about is None:
                    result.object = self.blank()
                result.typed = nodes.about or result.object
        if result.typed is not None:
            for node in self._names(attributes["typeof"], prefixes, vocabulary):
                self._add(result.typed, Iri(_TYPE), node)
        is_new = result.subject is not None and result.subject != scope.object
        lists: dict[Node, list[Term]] = {} if is_new else scope.lists
        own_lists = lists if "inlist" in attributes else None
        incomplete = self._relate(result, own_lists, forward, backward)
        for node in self._names(attributes.get("property", ""), prefixes, vocabulary):
            value = self._value(
                element, attributes, result, nodes, language, vocabulary, is_related=bool(forward or backward)
            )
            self._state(result.subject or scope.object, node, value, own_lists)
        if result.skips:
            inherited = scope.subject, scope.object, scope.incomplete, scope.lists
            return _Scope(*inherited, language, prefixes, vocabulary), None
        if result.subject is not None:
            for waiting in scope.incomplete:
                if waiting.listed is not None:
                    self.spend(_STATEMENT_CHARS)
                    waiting.listed.append(result.subject)
                elif waiting.is_reverse:
                    self._add(result.subject, waiting.predicate, scope.subject)
                else:
                    self._add(scope.subject, waiting.predicate, result.subject)
        subject = result.subject or scope.subject
        below = result.object or subject
        return _Scope(subject, below, incomplete, lists, language, prefixes, vocabulary), result.subject

    def _relations(
        self, attributes: dict[str, str], attribute: str, prefixes: Mapping[str, str], vocabulary: str | None
    ) -> list[Node] | None:
        """Return the names in `rel` or `rev`; beside `property`, words without a colon are ignored.

        Such words are meant for browsers.
        """
        if attribute not in attributes:
            return None
        words = attributes[attribute]
        if "property" in attributes:
            words = " ".join(word for word in words.split() if ":" in word)
            if not words:
                return None
        return self._names(words, prefixes, vocabulary)

    def _names(self, words: str, prefixes: Mapping[str, str], vocabulary: str | None) -> list[Node]:
        """Return the names in a list of words; each expanded name is counted in the budget."""
        names = []
        for word in words.split():
            if (name := name_of(word, prefixes, vocabulary)) is not None:
                self.spend(len(name))
                names.append(name)
        return names

    def _establish(self, result: _Result, nodes: "_Nodes", scope: _Scope, *, is_root: bool, is_outer: bool) -> None:
        """Set the subject of an element without `rel` and `rev` in `result` (section 7.5.5)."""
        attributes = nodes.attributes
        is_typed = "typeof" in attributes
        about = nodes.about or (Iri(self.base) if is_root else None)
        if "property" in attributes and "content" not in attributes and "datatype" not in attributes:
            result.subject = about or scope.object
            if is_typed:
                result.typed = about
                if about is None:
                    result.typed = result.object = nodes.resource or self.blank()
            return
        result.subject = nodes.about or nodes.resource or (Iri(self.base) if is_root else None)
        if result.subject is None and is_typed and not is_outer:
            result.subject = self.blank()
        if result.subject is None:
            result.subject = scope.object
            result.skips = "property" not in attributes and not is_typed
        if is_typed:
            result.typed = result.subject

    def _relate(
        self,
        result: _Result,
        lists: dict[Node, list[Term]] | None,
        forward: list[Node] | None,
        backward: list[Node] | None,
    ) -> tuple[_Incomplete, ...]:
        """Add the statements of `rel` and `rev`; return the statements that wait for nodes below (7.5.9, 7.5.10)."""
        if forward is None and backward is None:
            return ()
        if result.object is not None:
            for name in forward or ():
                self._state(result.subject, name, result.object, lists)
            for name in backward or ():
                self._add(result.object, name, result.subject)
            return ()
        result.object = self.blank()
        waiting = [
            _Incomplete(name, listed=None if lists is None else lists.setdefault(name, [])) for name in forward or ()
        ]
        return (*waiting, *(_Incomplete(name, is_reverse=True) for name in backward or ()))

    def _value(
        self,
        element: Element,
        attributes: dict[str, str],
        result: _Result,
        nodes: "_Nodes",
        language: str | None,
        vocabulary: str | None,
        *,
        is_related: bool,
    ) -> Term:
        """Return the value of `property` (section 7.5.11)."""
        written = attributes.get("content", attributes.get("datetime"))
        if "datatype" in attributes:
            datatype = name_of(attributes["datatype"].strip(), nodes.prefixes, vocabulary)
            if isinstance(datatype, Iri) and datatype in (_XML, _HTML) and written is None:
                return self._literal(element.inner_xml if datatype == _XML else element.inner_html, None, datatype)
            words = element.text if written is None else written
            return self._literal(words, language, datatype if isinstance(datatype, Iri) else None)
        if "content" in attributes:
            return self._literal(attributes["content"], language)
        if "datetime" in attributes or element.tag == "time":
            words = attributes.get("datetime", element.text)
            plain = words.strip()
            datatype = next((datatype for form, datatype in _TIMES if form.fullmatch(plain)), None)
            return self._literal(plain if datatype else words, language, datatype)
        if not is_related and nodes.resource is not None:
            return nodes.resource
        if result.typed is not None and nodes.about is None:
            return result.typed
        return self._literal(element.text, language)

    def _literal(self, text: str, language: str | None, datatype: Iri | None = None) -> Literal:
        self.spend(len(text))
        return Literal(text, None if datatype else language, datatype)

    def _state(self, subject: Node | None, predicate: Node, value: Term, lists: dict[Node, list[Term]] | None) -> None:
        if lists is None:
            self._add(subject, predicate, value)
        else:
            self.spend(_STATEMENT_CHARS)
            lists.setdefault(predicate, []).append(value)

    def _add(self, subject: Node | None, predicate: Node, value: Term | None) -> None:
        if subject is not None and value is not None:
            length = 0 if isinstance(value, Literal) else len(value)
            self.spend(_STATEMENT_CHARS + len(subject) + len(predicate) + length)
            self._triples.append((subject, predicate, value))

    def blank(self) -> Blank:
        """Return a new blank node."""
        self._blanks += 1
        return Blank(f"_:b{self._blanks}")


class _Nodes:
    """The nodes that an element's attributes name: `about`, and `resource` or else `href` or `src`."""

    __slots__ = ("about", "attributes", "prefixes", "resource")

    def __init__(self, processor: _Processor, attributes: dict[str, str], prefixes: Mapping[str, str]) -> None:
        base = processor.base
        self.attributes = attributes
        self.prefixes = prefixes
        # The base is written once and expanded in each address.
        processor.spend(len(base))
        self.about = resource_of(attributes["about"], base, prefixes) if "about" in attributes else None
        self.resource = resource_of(attributes["resource"], base, prefixes) if "resource" in attributes else None
        for name in ("href", "src"):
            if self.resource is None and name in attributes:
                self.resource = absolute(base, attributes[name])


def _as_text(attributes: Any) -> dict[str, str]:
    """Return the attributes as strings; lists of words are joined."""
    return {
        name: " ".join(value) if isinstance(value, list) else value or "" for name, value in dict(attributes).items()
    }
