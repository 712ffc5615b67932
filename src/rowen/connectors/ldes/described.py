"""A member as a tree of JSON, and what it says in words."""

import json
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, NamedTuple

from rowen.connectors.ldes.extraction import MemberParts
from rowen.connectors.ldes.quads import Quads
from rowen.formats.rdf.graph import short
from rowen.formats.rdf.syntax import Said

__all__ = ["Described", "Describer", "Tree", "tags_of", "title_of"]

Tree = dict[str, Any]

_LANG_STRING = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"
_MOST_DEPTH = 30  # each level is a call within a call; a member that goes deeper is cut there
_MOST_NODES = 20_000  # of one member: what is more is left out
_TITLES = ("dct:title", "rdfs:label", "skos:prefLabel", "foaf:name", "schema:name", "schema:headline", "dc:title")
_TEXTS = frozenset(
    {"dct:description", "dct:abstract", "rdfs:comment", "schema:description", "schema:text", "prov:value"}
)
_TAGS = ("dcat:keyword", "schema:keywords", "dc:subject")
_UNSAID = frozenset({"@id", "@graph", "rdf:type"})


class _Word(NamedTuple):
    """A property: its short name, what stands before its values in the text, and where they go; None: nowhere."""

    name: str
    head: str
    tell: Callable[[str], None] | None


class Described(NamedTuple):
    """A member with all that belongs to it, and what it says in words."""

    tree: Tree
    text: str


class Describer:
    """Makes trees of the members of a page, and texts with them; each blank node stands in a tree once.

    LDES, section 4.2: a member has its triples in the default graph, the graph of its name, and the same for the blank
    nodes that it leads to. Of a member with a shape, `MemberParts` has been found out what belongs to it.
    """

    __slots__ = ("_backwards", "_lines", "_named", "_paragraphs", "_said", "_spelled", "_words", "_written")

    def __init__(self, quads: Quads) -> None:
        self._said = quads.said
        self._named = quads.named
        self._backwards: Mapping[str, Sequence[tuple[str, str]]] = {}
        self._spelled: Container[str] = ()
        self._words: dict[str, _Word] = {}
        self._written: set[str] = set()
        self._paragraphs: list[str] = []
        self._lines: list[str] = []

    def describe(self, member: str, extracted: MemberParts | None, *, left_out: str | None = None) -> Described:
        """Descriptions are paragraphs of the text, all other words a list; one property may be `left_out`."""
        whole = self._said
        if extracted is not None:
            self._said, self._backwards = extracted.said, extracted.backwards
            self._spelled = extracted.nodes | extracted.said.keys() | extracted.backwards.keys()
        self._written.clear()
        lines, paragraphs = self._lines, self._paragraphs
        lines.clear()
        paragraphs.clear()
        if left_out is not None and member in self._said:
            self._said[member].pop(left_out, None)
        tree = self._node(member, member, 0)
        self._said = whole
        if lines:
            paragraphs.append("\n".join(lines))
        return Described(tree, "\n\n".join(paragraphs))

    def _node(self, key: str, graph: str, depth: int) -> Tree:
        self._written.add(key)
        tree: Tree = {} if key.startswith("_:") else {"@id": key}
        if key in self._said:
            self._say(tree, self._said[key], graph, depth)
        if key in self._backwards:
            self._say_backwards(tree, key, depth)
        if key in self._named:
            inner = self._named[key]
            before = len(self._lines), len(self._paragraphs)
            told = [
                self._in_graph(node, said, key, depth)
                for node, said in sorted(inner.items())
                if node == key or not node.startswith("_:")
            ]
            loose = [node for node in inner if node.startswith("_:") and node not in self._written]
            told += [self._in_graph(node, inner[node], key, depth) for node in loose]
            tree["@graph"] = sorted(told, key=_order)
            self._tell_again(tree["@graph"], before)
        return tree

    def _in_graph(self, node: str, said: Said, graph: str, depth: int) -> Tree:
        tree: Tree = {} if node.startswith("_:") else {"@id": node}
        self._written.add(f"{graph} {node}")
        self._say(tree, said, graph, depth + 1)
        return tree

    def _say(self, tree: Tree, said: Said, graph: str, depth: int) -> None:
        words, spelled = self._words, self._spelled
        for predicate, values in said.items():
            try:
                name, head, tell = word = words[predicate]
            except KeyError:
                name, head, tell = word = words[predicate] = self._word(short(predicate))
            if len(values) != 1 or name in tree:
                self._say_several(tree, word, values, graph, depth)
                continue
            value = values[0]
            if "@value" in value:
                text = value["@value"]
                tree[name] = text if len(value) == 1 else value if "@type" not in value else _literal(value)
            else:
                text = value["@id"]
                if text.startswith("_:") or (spelled and text in spelled):
                    self._say_node(tree, word, value, graph, depth)
                    continue
                tree[name] = value
            if tell is not None and text:
                tell(head + text)

    def _say_node(self, tree: Tree, word: _Word, value: Mapping[str, Any], graph: str, depth: int) -> None:
        before = len(self._lines), len(self._paragraphs)
        key = value["@id"]
        if word.tell is not None and not key.startswith("_:"):
            word.tell(word.head + key)
        tree[word.name] = self._node_value(value, graph, depth)
        if word.tell is None:
            self._untell(before)

    def _say_several(
        self, tree: Tree, word: _Word, values: Sequence[Mapping[str, Any]], graph: str, depth: int
    ) -> None:
        """The same for several values, in an order of their own; two properties may have one short name."""
        before = len(self._lines), len(self._paragraphs)
        told = [self._node_value(value, graph, depth) if "@id" in value else _literal(value) for value in _once(values)]
        held = tree.get(word.name)
        several = sorted([*_each(held), *told], key=_order)
        tree[word.name] = several if len(several) > 1 else several[0]
        self._untell(before)
        if word.tell is not None:
            self._tell_values(word, sorted(told, key=_order), depth)

    def _say_backwards(self, tree: Tree, key: str, depth: int) -> None:
        """Who points to a node, by the property that does."""
        before = len(self._lines), len(self._paragraphs)
        reverse: dict[str, list[Any]] = {}
        for predicate, node in self._backwards[key]:
            reverse.setdefault(short(predicate), []).append(self._node_value({"@id": node}, node, depth))
        tree["@reverse"] = {name: sorted(several, key=_order) for name, several in reverse.items()}
        self._tell_again([tree["@reverse"]], before)

    def _untell(self, before: tuple[int, int]) -> None:
        del self._lines[before[0] :]
        del self._paragraphs[before[1] :]

    def _tell_again(self, trees: Sequence[Tree], before: tuple[int, int]) -> None:
        """Tell trees in the order that they were put in."""
        self._untell(before)
        for tree in trees:
            self._tell_tree(tree, 0)

    def _tell_tree(self, tree: Tree, depth: int) -> None:
        for name, value in tree.items():
            if name not in _UNSAID:
                self._tell_values(self._word(name), _each(value), depth)
        for inner in tree.get("@graph", ()):
            self._tell_tree(inner, depth + 1)

    def _tell_values(self, word: _Word, values: Sequence[Any], depth: int) -> None:
        for value in values:
            text = value if type(value) is str else value.get("@value") or value.get("@id")
            if text and word.tell is not None:
                word.tell(word.head + text)
            if type(value) is dict and "@value" not in value and depth < _MOST_DEPTH:
                self._tell_tree(value, depth + 1)

    def _word(self, name: str) -> _Word:
        if name in _UNSAID:
            return _Word(name, "", None)
        if name in _TEXTS:
            return _Word(name, "", self._paragraphs.append)
        return _Word(name, f"- {_label(name)}: ", self._lines.append)

    def _node_value(self, value: Mapping[str, Any], graph: str, depth: int) -> Any:
        key = value["@id"]
        is_blank = key.startswith("_:")
        if key in self._written or depth >= _MOST_DEPTH or len(self._written) >= _MOST_NODES:
            return {} if is_blank else value
        if not is_blank:
            return self._node(key, key, depth + 1) if key in self._spelled else value
        inside = self._named[graph].get(key) if graph in self._named else None
        if inside is not None:
            self._written.add(key)
            tree: Tree = {}
            self._say(tree, inside, graph, depth + 1)
            return tree
        return self._node(key, key, depth + 1)


def _once(values: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Values without repetitions: a statement that is made twice is one."""
    return list({tuple(value.items()): value for value in values}.values())


def _literal(value: Mapping[str, Any]) -> Any:
    if "@type" not in value:
        return value if len(value) > 1 else value["@value"]
    datatype = value["@type"]
    return value["@value"] if datatype == _LANG_STRING else {"@value": value["@value"], "@type": short(datatype)}


def _order(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


def title_of(tree: Tree, language: str | None) -> str:
    """The first of the usual titles, in the language that is preferred; else the end of its name."""
    inside = tree.get("@graph", ())
    for name in _TITLES:
        if name not in tree and not inside:
            continue
        first = tree.get(name)
        if not inside and type(first) is dict and (only := first.get("@value")):
            return str(only)
        values = [*_each(first), *(one for inner in inside for one in _each(inner.get(name)))]
        told = [(words, _tongue(value)) for value in values if (words := _words(value))]
        if told:
            return next((words for words, tongue in told if language and tongue.startswith(language)), told[0][0])
    name = str(tree.get("@id", ""))
    return name.rstrip("/#").rpartition("#")[2].rpartition("/")[2] or name


def tags_of(tree: Tree) -> list[str]:
    """Its classes, and its keywords."""
    tags: list[str] = []
    for part in (tree, *tree["@graph"]) if "@graph" in tree else (tree,):
        kinds = _each(part.get("rdf:type"))
        tags += [_label(short(one["@id"])) for one in kinds if type(one) is dict and "@id" in one]
        for name in _TAGS:
            if name in part:
                tags += [words for one in _each(part[name]) if (words := _words(one))]
    return tags


def _each(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _words(value: Any) -> str:
    found = value.get("@value", "") if isinstance(value, dict) else value
    return found if isinstance(found, str) else ""


def _tongue(value: Any) -> str:
    return value.get("@language", "") if isinstance(value, dict) else ""


def _label(name: str) -> str:
    return name.rpartition("#")[2].rpartition("/")[2].rpartition(":")[2] or name
