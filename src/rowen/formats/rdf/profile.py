"""An application profile: SHACL shapes that the RDF statements of a page are checked against.

Only a limited part of SHACL Core is supported, so that checks take time in proportion to the page, whatever the shapes
are. Other constraints are refused when a profile is declared, since ignoring a constraint would keep statements that
it forbids.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal as OneOf
from typing import TypeAlias

from pyoxigraph import BlankNode, Literal, NamedNode, RdfFormat, parse

from rowen.model.text import linear_search, pattern_states

_SH = "http://www.w3.org/ns/shacl#"
_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_FIRST = "http://www.w3.org/1999/02/22-rdf-syntax-ns#first"
_REST = "http://www.w3.org/1999/02/22-rdf-syntax-ns#rest"
_CLASS = "http://www.w3.org/2000/01/rdf-schema#Class"

# The profile of a public body has some hundred kilobytes. It is stored with its source, and read by each process.
MOST_CHARS = 1_000_000
# Ninety classes with thirty properties each need 2,700 rules; far more rules are an error of a generator.
MOST_RULES = 20_000
# That profile has 10,000 RDF statements. Each takes 6 microseconds to read.
MOST_STATEMENTS = 50_000
# The limit for all patterns together. Compiling a state takes up to 3 microseconds.
MOST_STATES = 20_000

# Properties that document a shape, or that are handled elsewhere.
_WORDS = frozenset({"name", "description", "message", "order", "group", "defaultValue", "severity", "deactivated"})
_OF_NODES = _WORDS | {"targetClass", "property", "closed", "ignoredProperties"}
_OF_PROPERTIES = _WORDS | {
    *("path", "datatype", "class", "nodeKind", "minCount", "maxCount", "pattern", "flags", "in"),
}
TermKind: TypeAlias = OneOf["iri", "blank", "literal"]
"""The kind of a value. A skolem IRI stands for a blank node."""

_KINDS: Mapping[str, frozenset[TermKind]] = {
    "IRI": frozenset({"iri"}),
    "Literal": frozenset({"literal"}),
    "BlankNode": frozenset({"blank"}),
    "IRIOrLiteral": frozenset({"iri", "literal"}),
    "BlankNodeOrIRI": frozenset({"blank", "iri"}),
    "BlankNodeOrLiteral": frozenset({"blank", "literal"}),
}

Term: TypeAlias = NamedNode | BlankNode | Literal
Matches: TypeAlias = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class PropertyRule:
    """A shape's constraints on one property; if it is not `strict`, violations are only reported."""

    path: str
    datatype: str | None = None
    of_class: str | None = None
    kind: frozenset[TermKind] | None = None
    at_least: int = 0
    at_most: int | None = None
    pattern: Matches | None = None
    values: frozenset[str] | None = None
    strict: bool = True


@dataclass(frozen=True, slots=True)
class ProfileShape:
    """The constraints on resources of some classes; if `allowed` is set, other properties are forbidden."""

    targets: frozenset[str]
    rules: tuple[PropertyRule, ...] = ()
    allowed: frozenset[str] | None = None
    strict: bool = True


@lru_cache(maxsize=4)  # one for each source that a process reads at the same time
def profile_in(turtle: str) -> tuple[ProfileShape, ...]:
    """Parse the shapes in Turtle; raise `ValueError` if they are invalid or use unsupported constraints."""
    if len(turtle) > MOST_CHARS:
        raise ValueError(f"the shapes have {len(turtle):,} characters, and may have at most {MOST_CHARS:,}")
    try:
        shapes = tuple(_Shapes(turtle).every())
    except SyntaxError as problem:
        raise ValueError(f"the shapes are not valid Turtle: {problem.msg}") from None
    if not any(shape.targets for shape in shapes):
        raise ValueError("no shape has a class as its target (sh:targetClass)")
    if sum(len(shape.rules) for shape in shapes) > MOST_RULES:
        raise ValueError(f"the shapes have more than {MOST_RULES:,} rules")
    return shapes


class _Shapes:
    """Reads the shapes in an RDF graph."""

    def __init__(self, turtle: str) -> None:
        self._statements: dict[Term, dict[str, list[Term]]] = {}
        self._compiled: dict[str, Matches] = {}
        self._states = 0
        for number, quad in enumerate(parse(turtle, RdfFormat.TURTLE, base_iri="urn:shapes:")):
            if number == MOST_STATEMENTS:
                raise ValueError(f"the shapes have more than {MOST_STATEMENTS:,} RDF statements")
            properties = self._statements.setdefault(_node(quad.subject), {})
            properties.setdefault(quad.predicate.value, []).append(_node(quad.object))

    def every(self) -> Iterator[ProfileShape]:
        properties = {node for statements in self._statements.values() for node in statements.get(f"{_SH}property", ())}
        for node, statements in self._statements.items():
            is_declared = NamedNode(f"{_SH}NodeShape") in statements.get(_TYPE, ())
            if node not in properties and (is_declared or any(name.startswith(_SH) for name in statements)):
                yield self._shape(node, statements)

    def _shape(self, node: Term, statements: Mapping[str, list[Term]]) -> ProfileShape:
        self._refuse_unknown(node, statements, _OF_NODES)
        targets = {_iri(value, node, "targetClass") for value in statements.get(f"{_SH}targetClass", ())}
        if NamedNode(_CLASS) in statements.get(_TYPE, ()) and isinstance(node, NamedNode):
            targets.add(node.value)
        rules = tuple(rule for value in statements.get(f"{_SH}property", ()) for rule in self._rule(value))
        allowed = None
        if self._is_true(node, "closed"):
            ignored = [_iri(value, node, "ignoredProperties") for value in self._listed(node, "ignoredProperties")]
            allowed = frozenset({*ignored, *(rule.path for rule in rules)})
        if self._is_true(node, "deactivated"):
            return ProfileShape(frozenset())
        strict = self._is_strict(node)
        rules = rules if strict else tuple(replace(rule, strict=False) for rule in rules)
        return ProfileShape(frozenset(targets), rules, allowed, strict)

    def _rule(self, node: Term) -> Iterator[PropertyRule]:
        statements = self._statements.get(node, {})
        self._refuse_unknown(node, statements, _OF_PROPERTIES)
        path = self._value(node, "path")
        if path is None:
            raise ValueError(f"the property shape {_named(node)} has no sh:path")
        if not isinstance(path, NamedNode):
            raise ValueError(
                f"the path of {_named(node)} is not a property: sequences and other paths are not supported"
            )
        if self._is_true(node, "deactivated"):
            return
        datatype, of_class, kind = (self._iri(node, name) for name in ("datatype", "class", "nodeKind"))
        if kind is not None and kind.removeprefix(_SH) not in _KINDS:
            raise ValueError(f"sh:nodeKind of {_named(node)} is not one of {', '.join(_KINDS)}")
        yield PropertyRule(
            path.value,
            datatype,
            of_class,
            _KINDS[kind.removeprefix(_SH)] if kind is not None else None,
            self._count(node, "minCount") or 0,
            self._count(node, "maxCount"),
            self._pattern(node),
            frozenset(map(str, self._listed(node, "in"))) if f"{_SH}in" in statements else None,
            self._is_strict(node),
        )

    def _refuse_unknown(self, node: Term, statements: Mapping[str, list[Term]], known: frozenset[str]) -> None:
        for name in statements:
            if name.startswith(_SH) and name.removeprefix(_SH) not in known:
                raise ValueError(
                    f"sh:{name.removeprefix(_SH)} of {_named(node)} is not supported; supported are: "
                    f"{', '.join(sorted(known - _WORDS))}"
                )

    def _value(self, node: Term, name: str) -> Term | None:
        values = self._statements.get(node, {}).get(_SH + name, [])
        if len(values) > 1:
            raise ValueError(f"{_named(node)} has more than one sh:{name}")
        return values[0] if values else None

    def _iri(self, node: Term, name: str) -> str | None:
        value = self._value(node, name)
        return None if value is None else _iri(value, node, name)

    def _count(self, node: Term, name: str) -> int | None:
        value = self._value(node, name)
        if value is None:
            return None
        if not isinstance(value, Literal) or not value.value.isdecimal() or len(value.value) > 9:
            raise ValueError(f"sh:{name} of {_named(node)} is not a number")
        return int(value.value)

    def _pattern(self, node: Term) -> Matches | None:
        """Return a function that searches a text for a rule's pattern; equal patterns are compiled once."""
        value, flags = self._value(node, "pattern"), self._value(node, "flags")
        if value is None:
            return None
        letters = flags.value if isinstance(flags, Literal) else ""
        if not isinstance(value, Literal) or set(letters) - set("imsx"):
            raise ValueError(f"sh:pattern or sh:flags of {_named(node)} is invalid")
        pattern = f"(?{letters}){value.value}" if letters else value.value
        if pattern not in self._compiled:
            self._states += pattern_states(pattern)
            try:
                self._compiled[pattern] = linear_search(pattern, most_states=MOST_STATES)
            except ValueError as problem:
                raise ValueError(f"sh:pattern of {_named(node)}: {problem}") from None
            if self._states > MOST_STATES:
                raise ValueError("the patterns of the shapes repeat too much")
        return self._compiled[pattern]

    def _listed(self, node: Term, name: str) -> Iterator[Term]:
        head, seen = self._value(node, name), set[Term]()
        while head is not None and head not in seen:
            seen.add(head)
            statements = self._statements.get(head, {})
            yield from statements.get(_FIRST, ())
            head = next(iter(statements.get(_REST, ())), None)

    def _is_true(self, node: Term, name: str) -> bool:
        value = self._value(node, name)
        return isinstance(value, Literal) and value.value in ("true", "1")

    def _is_strict(self, node: Term) -> bool:
        """Return whether violations are dropped; with severity warning or info they are only reported."""
        return self._iri(node, "severity") in (None, f"{_SH}Violation")


def _node(term: object) -> Term:
    if isinstance(term, NamedNode | BlankNode | Literal):
        return term
    raise ValueError("statements about statements are not supported in shapes")


def _iri(term: Term, node: Term, name: str) -> str:
    if not isinstance(term, NamedNode):
        raise ValueError(f"sh:{name} of {_named(node)} is not an IRI")
    return str(term.value)


def _named(node: Term) -> str:
    return str(node) if isinstance(node, NamedNode) else "a shape without a name"
