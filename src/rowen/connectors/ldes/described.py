"""A member as a tree of JSON, and what it says in words."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rowen.connectors.ldes.quads import Quads
from rowen.formats.rdf.graph import short
from rowen.formats.rdf.nodes import Said

__all__ = ["Described", "Tree", "Word", "describe", "tags_of", "title_of"]

Tree = dict[str, Any]
Shape = Mapping[str, Any]

_LANG_STRING = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"
_MOST_DEPTH = 30  # each level is a call within a call; a member that goes deeper is cut there
_MOST_NODES = 20_000  # of one member: what is more is left out
_TITLES = ("dct:title", "rdfs:label", "skos:prefLabel", "foaf:name", "schema:name", "schema:headline", "dc:title")
_TEXTS = frozenset(
    {"dct:description", "dct:abstract", "rdfs:comment", "schema:description", "schema:text", "prov:value"}
)
_TAGS = ("dcat:keyword", "schema:keywords", "dc:subject")
_UNSAID = frozenset({"@id", "@graph", "rdf:type"})
_NOTHING: Said = {}


class Word(NamedTuple):
    """A property: its short name, how its values are told (None: not at all), whether they are paragraphs."""

    name: str
    head: str | None
    is_text: bool


class Described(NamedTuple):
    """A member with all that belongs to it, what it says in words, and what of it is to be had elsewhere."""

    tree: Tree
    text: str
    wanted: list[str]


class _Growing:
    """One tree on its way, and its words with it; each blank node stands in it once."""

    __slots__ = ("_named", "_nodes", "_said", "_words", "_written", "lines", "paragraphs", "wanted")

    def __init__(self, quads: Quads, words: dict[str, Word]) -> None:
        self._words = words
        self._said = quads.said
        self._named = quads.named
        self._written: set[str] = set()
        self._nodes = 0
        self.paragraphs: list[str] = []
        self.lines: list[str] = []
        self.wanted: list[str] = []

    def node(self, key: str, graph: str, shape: Shape | None, depth: int) -> Tree:
        self._written.add(key)
        self._nodes += 1
        tree: Tree = {} if key.startswith("_:") else {"@id": key}
        if key in self._said:
            self._say(tree, self._said[key], graph, shape, depth)
        if self._named and (inner := self._named.get(key)) is not None:
            before = len(self.lines), len(self.paragraphs)
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
        self._say(tree, said, graph, None, depth + 1)
        return tree

    def _say(self, tree: Tree, said: Said, graph: str, shape: Shape | None, depth: int) -> None:
        links: Shape = shape["nodes"] if shape else _NOTHING
        words = self._words
        for predicate, values in said.items():
            word = words.get(predicate) or words.setdefault(predicate, _word(short(predicate)))
            name, head, is_text = word
            if len(values) > 1 or name in tree:
                self._say_several(tree, word, values, graph, links.get(predicate), depth)
                continue
            value = values[0]
            text = value.get("@value")
            if text is None:
                text = value["@id"]
                if links or text.startswith("_:"):
                    self._say_node(tree, word, value, graph, links.get(predicate), depth)
                    continue
                tree[name] = value
            else:
                tree[name] = text if len(value) == 1 else _literal(value)
            if head is not None and text:
                if is_text:
                    self.paragraphs.append(text)
                else:
                    self.lines.append(head + text)

    def _say_node(
        self, tree: Tree, word: Word, value: Mapping[str, Any], graph: str, shape: Shape | None, depth: int
    ) -> None:
        before = len(self.lines), len(self.paragraphs)
        key = value["@id"]
        if not key.startswith("_:"):
            self._tell(word, key)
        tree[word.name] = self._node_value(value, graph, shape, depth)
        if word.head is None:
            self._untell(before)

    def _say_several(
        self,
        tree: Tree,
        word: Word,
        values: Sequence[Mapping[str, Any]],
        graph: str,
        shape: Shape | None,
        depth: int,
    ) -> None:
        """The same for several values, in an order of their own; two properties may have one short name."""
        before = len(self.lines), len(self.paragraphs)
        told = [
            self._node_value(value, graph, shape, depth) if "@id" in value else _literal(value)
            for value in _once(values)
        ]
        held = tree.get(word.name)
        several = sorted([*_each(held), *told], key=_order)
        tree[word.name] = several if len(several) > 1 else several[0]
        self._untell(before)
        if word.head is not None:
            self._tell_values(word, sorted(told, key=_order), depth)

    def _tell(self, word: Word, text: str) -> None:
        if word.is_text:
            self.paragraphs.append(text)
        elif word.head is not None:
            self.lines.append(word.head + text)

    def _untell(self, before: tuple[int, int]) -> None:
        del self.lines[before[0] :]
        del self.paragraphs[before[1] :]

    def _tell_again(self, trees: Sequence[Tree], before: tuple[int, int]) -> None:
        """Tell trees in the order that they were put in."""
        self._untell(before)
        for tree in trees:
            self._tell_tree(tree, 0)

    def _tell_tree(self, tree: Tree, depth: int) -> None:
        for name, value in tree.items():
            if name not in _UNSAID:
                self._tell_values(_word(name), _each(value), depth)
        for inner in tree.get("@graph", ()):
            self._tell_tree(inner, depth + 1)

    def _tell_values(self, word: Word, values: Sequence[Any], depth: int) -> None:
        for value in values:
            text = value if type(value) is str else value.get("@value") or value.get("@id")
            if text:
                self._tell(word, text)
            if type(value) is dict and "@value" not in value and depth < _MOST_DEPTH:
                self._tell_tree(value, depth + 1)

    def _node_value(self, value: Mapping[str, Any], graph: str, shape: Shape | None, depth: int) -> Any:
        key = value["@id"]
        if not key.startswith("_:"):
            if shape is None or key in self._written or depth >= _MOST_DEPTH:
                return value
            if key not in self._said and shape["required"]:
                self.wanted.append(key)
            return self.node(key, key, shape, depth + 1)
        if key in self._written or depth >= _MOST_DEPTH or self._nodes >= _MOST_NODES:
            return {}
        inside = self._named[graph].get(key) if graph in self._named else None
        if inside is not None:
            self._written.add(key)
            tree: Tree = {}
            self._say(tree, inside, graph, shape, depth + 1)
            return tree
        return self.node(key, key, shape, depth + 1)


def describe(
    quads: Quads, member: str, shape: Shape | None, words: dict[str, Word], *, left_out: str | None = None
) -> Described:
    """A member with all that belongs to it: descriptions are paragraphs of its text, all other words a list.

    LDES, section 4.2: its triples in the default graph, the graph that has its name, and the same for the blank nodes
    that it leads to; with a shape, also the nodes that it says belong to a member. `words` are the properties that
    were met before, one property may be `left_out`.
    """
    said = quads.said.get(member, _NOTHING)
    is_missing = not said or (shape is not None and not said.keys() >= set(shape["required"]))
    growing = _Growing(quads, words)
    if is_missing and member not in quads.named and member.startswith("http"):
        growing.wanted.append(member)
    if left_out is not None:
        said.pop(left_out, None)
    tree = growing.node(member, member, shape, 0)
    if growing.lines:
        growing.paragraphs.append("\n".join(growing.lines))
    return Described(tree, "\n\n".join(growing.paragraphs), growing.wanted)


def _once(values: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Values without repetitions: a statement that is made twice is one."""
    return list({tuple(value.items()): value for value in values}.values())


def _literal(value: Mapping[str, Any]) -> Any:
    datatype = value.get("@type")
    if datatype is None:
        return value if len(value) > 1 else value["@value"]
    return value["@value"] if datatype == _LANG_STRING else {"@value": value["@value"], "@type": short(datatype)}


def _order(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


def title_of(tree: Tree, language: str | None) -> str:
    """The first of the usual titles, in the language that is preferred; else the end of its name."""
    inside = tree.get("@graph", ())
    for name in _TITLES:
        if name not in tree and not inside:
            continue
        values = [*_each(tree.get(name)), *(one for inner in inside for one in _each(inner.get(name)))]
        told = [(words, _tongue(value)) for value in values if (words := _words(value))]
        if told:
            return next((words for words, tongue in told if language and tongue.startswith(language)), told[0][0])
    name = str(tree.get("@id", ""))
    return name.rstrip("/#").rpartition("#")[2].rpartition("/")[2] or name


def tags_of(tree: Tree) -> list[str]:
    """Its classes, and its keywords."""
    tags: list[str] = []
    for part in (tree, *tree.get("@graph", ())):
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


def _word(name: str) -> Word:
    return Word(name, None if name in _UNSAID else f"- {_label(name)}: ", name in _TEXTS)


def _label(name: str) -> str:
    return name.rpartition("#")[2].rpartition("/")[2].rpartition(":")[2] or name
