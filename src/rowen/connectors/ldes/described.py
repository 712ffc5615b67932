"""A member as a tree of JSON, and what it says in words."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pyoxigraph import BlankNode, Literal, NamedNode

from rowen.connectors.ldes.quads import Quads
from rowen.formats.rdf.graph import short

__all__ = ["Tree", "tags_of", "text_of", "title_of", "tree_of"]

Tree = dict[str, Any]

_STRING = "http://www.w3.org/2001/XMLSchema#string"
_LANG_STRING = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"
_PLAIN = frozenset({_STRING, _LANG_STRING})
_MOST_DEPTH = 30  # each level is a call within a call; a member that goes deeper is cut there
_MOST_NODES = 20_000  # of one member: what is more is left out
_TITLES = ("dct:title", "rdfs:label", "skos:prefLabel", "foaf:name", "schema:name", "schema:headline", "dc:title")
_TEXTS = ("dct:description", "dct:abstract", "rdfs:comment", "schema:description", "schema:text", "prov:value")
_TAGS = ("dcat:keyword", "schema:keywords", "dc:subject")
_UNSAID = frozenset({"@id", "@graph", "rdf:type"})


class _Growing:
    """One tree on its way; each blank node stands in it once."""

    def __init__(self, quads: Quads, shape: Mapping[str, Any] | None) -> None:
        self._quads = quads
        self._written: set[str] = set()
        self._nodes = 0
        self.wanted: list[str] = []

    def node(self, key: str, graph: str, shape: Mapping[str, Any] | None, depth: int) -> Tree:
        quads = self._quads
        self._written.add(key)
        self._nodes += 1
        tree: Tree = {} if key.startswith("_:") else {"@id": key}
        self._say(tree, quads.said.get(key, ()), graph, shape, depth)
        if (inner := quads.named.get(key)) is not None:
            told = [
                self._in_graph(node, pairs, key, depth)
                for node, pairs in sorted(inner.items())
                if node == key or not node.startswith("_:")
            ]
            loose = [node for node in inner if node.startswith("_:") and node not in self._written]
            told += [self._in_graph(node, inner[node], key, depth) for node in loose]
            tree["@graph"] = sorted(told, key=_order)
        return tree

    def _in_graph(self, node: str, pairs: list[tuple[str, Any]], graph: str, depth: int) -> Tree:
        tree: Tree = {} if node.startswith("_:") else {"@id": node}
        self._written.add(f"{graph} {node}")
        self._say(tree, pairs, graph, None, depth + 1)
        return tree

    def _say(self, tree: Tree, pairs: Any, graph: str, shape: Mapping[str, Any] | None, depth: int) -> None:
        several: dict[str, list[Any]] = {}
        links = shape["nodes"] if shape else {}
        for predicate, value in pairs:
            inner = links.get(predicate) if links else None
            several.setdefault(short(predicate), []).append(self._value(value, graph, inner, depth))
        for name, values in several.items():
            tree[name] = values[0] if len(values) == 1 else sorted(values, key=_order)

    def _value(self, value: Any, graph: str, shape: Mapping[str, Any] | None, depth: int) -> Any:
        kind = type(value)
        if kind is Literal:
            return _literal(value)
        if kind is NamedNode:
            iri = value.value
            if shape is None or iri in self._written or depth >= _MOST_DEPTH:
                return {"@id": iri}
            if iri not in self._quads.said and shape["required"]:
                self.wanted.append(iri)
            return self.node(iri, iri, shape, depth + 1)
        if kind is not BlankNode:
            return {"@value": str(value)}
        key = f"_:{value.value}"
        if key in self._written or depth >= _MOST_DEPTH or self._nodes >= _MOST_NODES:
            return {}
        inside = self._quads.named.get(graph, {}).get(key)
        if inside is not None:
            self._written.add(key)
            tree: Tree = {}
            self._say(tree, inside, graph, shape, depth + 1)
            return tree
        return self.node(key, key, shape, depth + 1)


def tree_of(quads: Quads, member: str, shape: Mapping[str, Any] | None) -> tuple[Tree, list[str]]:
    """A member with all that belongs to it, and what of that is to be had elsewhere.

    LDES, section 4.2: its triples in the default graph, the graph that has its name, and the same for the blank nodes
    that it leads to; with a shape, also the nodes that it says belong to a member.
    """
    growing = _Growing(quads, shape)
    tree = growing.node(member, member, shape, 0)
    said = {predicate for predicate, _ in quads.said.get(member, ())}
    is_missing = len(tree) == 1 or (
        shape is not None and not said.issuperset(shape["required"]) and "@graph" not in tree
    )
    return tree, [*([member] if is_missing and member.startswith("http") else []), *growing.wanted]


def _literal(value: Any) -> Any:
    language = value.language
    if language:
        return {"@value": value.value, "@language": language}
    datatype = value.datatype.value
    if datatype in _PLAIN:
        return value.value
    return {"@value": value.value, "@type": short(datatype)}


def _order(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


def title_of(tree: Tree, language: str | None) -> str:
    """The first of the usual titles, in the language that is preferred; else the end of its name."""
    for name in _TITLES:
        if name not in tree and "@graph" not in tree:
            continue
        values = [*_each(tree.get(name)), *(one for inner in tree.get("@graph", ()) for one in _each(inner.get(name)))]
        told = [
            (words, tongue) for value in values if (words := _words(value)) and (tongue := _tongue(value)) is not None
        ]
        if told:
            return next((words for words, tongue in told if language and tongue.startswith(language)), told[0][0])
    name = str(tree.get("@id", ""))
    return name.rstrip("/#").rpartition("#")[2].rpartition("/")[2] or name


def text_of(tree: Tree) -> str:
    """What it says: descriptions as paragraphs, all other words in a list."""
    paragraphs: list[str] = []
    lines: list[str] = []
    _say_all(tree, paragraphs, lines, 0)
    return "\n\n".join([*paragraphs, *(["\n".join(lines)] if lines else [])])


def _say_all(tree: Tree, paragraphs: list[str], lines: list[str], depth: int) -> None:
    for name, value in tree.items():
        if name in _UNSAID:
            continue
        for one in value if type(value) is list else (value,):
            words = one if type(one) is str else one.get("@value") or one.get("@id")
            if words and name in _TEXTS:
                paragraphs.append(words)
            elif words:
                lines.append(f"- {_label(name)}: {words}")
            if type(one) is dict and "@value" not in one and depth < _MOST_DEPTH:
                _say_all(one, paragraphs, lines, depth + 1)
    for inner in tree.get("@graph", ()):
        _say_all(inner, paragraphs, lines, depth + 1)


def tags_of(tree: Tree) -> list[str]:
    """Its classes, and its keywords."""
    inside = [tree, *tree.get("@graph", ())]
    classes = [
        one["@id"] for part in inside for one in _each(part.get("rdf:type")) if isinstance(one, dict) and "@id" in one
    ]
    words = [words for part in inside for name in _TAGS for one in _each(part.get(name)) if (words := _words(one))]
    return [*(_label(short(name)) for name in classes), *words]


def _each(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _words(value: Any) -> str:
    found = value.get("@value", "") if isinstance(value, dict) else value
    return found if isinstance(found, str) else ""


def _tongue(value: Any) -> str:
    return value.get("@language", "") if isinstance(value, dict) else ""


@lru_cache(maxsize=4096)
def _label(name: str) -> str:
    return name.rpartition("#")[2].rpartition("/")[2].rpartition(":")[2] or name
