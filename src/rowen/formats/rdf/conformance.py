"""Which statements of a page conform to an application profile.

Statements are judged one by one, then resources by how many values are left of each property. What a page says of
others is all that is known of them: a resource whose type it does not state may be of any class.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rowen.formats.rdf.profile import ProfileShape, PropertyRule, TermKind
from rowen.formats.rdf.skolem import GENID

__all__ = ["Conformance", "judge"]

_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_STRING = "http://www.w3.org/2001/XMLSchema#string"
_LANG_STRING = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"
_ESCAPED = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


@dataclass(slots=True)
class Conformance:
    """The statements that are kept, how many were dropped, and how often a rule was broken that is only told."""

    lines: set[str]
    dropped: Counter[str] = field(default_factory=Counter)
    reported: Counter[str] = field(default_factory=Counter)


def judge(
    lines: Collection[str], shapes: Sequence[ProfileShape], *, always: Collection[str] = (), drop: bool = True
) -> Conformance:
    """Judge statements, as lines of N-Triples without their dot; properties in `always` no shape forbids.

    Unless what does not conform is to be dropped, it is only told.
    """
    return _Judging(lines, shapes, always, drop=drop).judged()


class _Judging:
    """One page under judgement."""

    def __init__(
        self, lines: Collection[str], shapes: Sequence[ProfileShape], always: Collection[str], *, drop: bool
    ) -> None:
        self._drop = drop
        self._made = Conformance(set(lines))
        self._always = {_TYPE, *(f"<{name}>" for name in always)}
        self._about: dict[str, dict[str, list[str]]] = {}
        for line in sorted(lines):
            subject, predicate, _ = line.split(" ", 2)
            self._about.setdefault(subject, {}).setdefault(predicate, []).append(line)
        self._types = {subject: self._classes(said) for subject, said in self._about.items()}
        self._of_class: dict[str, list[ProfileShape]] = defaultdict(list)
        for shape in shapes:
            for target in shape.targets:
                self._of_class[f"<{target}>"].append(shape)

    @staticmethod
    def _classes(said: Mapping[str, list[str]]) -> frozenset[str]:
        return frozenset(line.split(" ", 2)[2] for line in said.get(_TYPE, ()))

    def judged(self) -> Conformance:
        """Judge every resource by the shapes of its classes."""
        for subject, said in self._about.items():
            shapes = {id(shape): shape for one in self._types[subject] for shape in self._of_class.get(one, ())}
            for shape in shapes.values():
                self._judge(said, shape)
        return self._made

    def _judge(self, said: Mapping[str, list[str]], shape: ProfileShape) -> None:
        if shape.allowed is not None:
            allowed = {f"<{name}>" for name in shape.allowed} | self._always
            for predicate in said.keys() - allowed:
                self._leave_out(said[predicate], "closed", strict=shape.strict)
        for rule in shape.rules:
            self._judge_values(said.get(f"<{rule.path}>", ()), rule)
        for rule in shape.rules:
            self._judge_counts(said, rule)

    def _judge_values(self, lines: Iterable[str], rule: PropertyRule) -> None:
        for line in lines:
            if reason := self._broken(line.split(" ", 2)[2], rule):
                self._leave_out([line], reason, strict=rule.strict)

    def _judge_counts(self, said: Mapping[str, list[str]], rule: PropertyRule) -> None:
        """Of too many values nobody can tell which one is meant; a resource that lacks one does not conform at all."""
        left = [line for line in said.get(f"<{rule.path}>", ()) if line in self._made.lines]
        if rule.at_most is not None and len(left) > rule.at_most:
            self._leave_out(left, "maxCount", strict=rule.strict)
        elif len(left) < rule.at_least:
            every = [line for lines in said.values() for line in lines]
            self._leave_out(every, "minCount", strict=rule.strict)

    def _leave_out(self, lines: Iterable[str], reason: str, *, strict: bool) -> None:
        if not (strict and self._drop):
            self._made.reported[reason] += 1
            return
        gone = self._made.lines.intersection(lines)
        self._made.lines -= gone
        self._made.dropped[reason] += len(gone)

    def _broken(self, term: str, rule: PropertyRule) -> str | None:
        """By which constraint a value does not conform; None if it does."""
        is_name = term.startswith("<")
        if rule.kind is not None and _kind(term) not in rule.kind:
            return "nodeKind"
        if rule.datatype is not None and (is_name or _datatype(term) != rule.datatype):
            return "datatype"
        if rule.of_class is not None and not self._may_be(term, rule.of_class):
            return "class"
        if rule.values is not None and term not in rule.values:
            return "in"
        if rule.pattern is not None and not rule.pattern(term[1:-1] if is_name else _text(term)):
            return "pattern"
        return None

    def _may_be(self, term: str, of_class: str) -> bool:
        if not term.startswith("<"):
            return False
        known = self._types.get(term)
        return not known or f"<{of_class}>" in known


def _kind(term: str) -> TermKind:
    if not term.startswith("<"):
        return "literal"
    return "blank" if GENID in term else "iri"


def _datatype(term: str) -> str:
    """The datatype of a literal; neither a language nor an IRI has a quotation mark."""
    behind = term[term.rindex('"') + 1 :]
    if behind.startswith("@"):
        return _LANG_STRING
    return behind[3:-1] if behind else _STRING


def _text(term: str) -> str:
    """The text of a literal, as it was before it was written."""
    return _ESCAPED.sub(_letter, term[1 : term.rindex('"')])


def _letter(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    return chr(int(code, 16)) if code else _LETTERS.get(found[3], found[3])
