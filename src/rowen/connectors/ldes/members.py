"""The members of a page: their objects, times and versions, and the tree and the text that are stored for them."""

import json
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, NamedTuple

from rowen.connectors.ldes.rdf import RDF, Path, Quads, follow, interval_of, moment_within
from rowen.connectors.ldes.shapes import EventStream, MemberParts, extract
from rowen.formats.rdf.graph import short
from rowen.formats.rdf.syntax import Said, lexical, node_of

Tree = dict[str, Any]

_GREATEST = 2**63  # a sequence number is compared as eight bytes; a larger number counts as this one
_LANG_STRING = f"{RDF}langString"
_MOST_DEPTH = 30  # each level is a nested call; a deeper member is cut there
_MOST_NODES = 20_000  # nodes of one member; further nodes are left out
_TITLES = ("dct:title", "rdfs:label", "skos:prefLabel", "foaf:name", "schema:name", "schema:headline", "dc:title")
_TEXTS = frozenset(
    {"dct:description", "dct:abstract", "rdfs:comment", "schema:description", "schema:text", "prov:value"}
)
_TAGS = ("dcat:keyword", "schema:keywords", "dc:subject")
_UNSAID = frozenset({"@id", "@graph", "rdf:type"})


class _Word(NamedTuple):
    """A property: its short name, the label before its values, and the function that adds them to the text."""

    name: str
    head: str
    write: Callable[[str], None] | None


class Describer:
    """Describes the members of a page as trees and texts; each blank node occurs once in a tree.

    A member consists of its triples in the default graph and in the graph of its name, and of the triples of the blank
    nodes that it links to (LDES, section 4.2). For a member with a shape, `MemberParts` holds the RDF statements that
    belong to it.
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

    def describe(self, member: str, extracted: MemberParts | None, *, left_out: str | None) -> tuple[Tree, str]:
        """Return a member as a tree and as a text of paragraphs and a list; the property `left_out` is omitted."""
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
        return tree, "\n\n".join(paragraphs)

    def _node(self, key: str, graph: str, depth: int) -> Tree:
        self._written.add(key)
        tree: Tree = {} if key.startswith("_:") else {"@id": key}
        if key in self._said:
            self._add(tree, self._said[key], graph, depth)
        if key in self._backwards:
            before = len(self._lines), len(self._paragraphs)
            reverse: dict[str, list[Any]] = {}
            for predicate, subject in self._backwards[key]:
                reverse.setdefault(short(predicate), []).append(self._node_value({"@id": subject}, subject, depth))
            tree["@reverse"] = {name: sorted(values, key=_order) for name, values in reverse.items()}
            self._rewrite_words([tree["@reverse"]], before)
        if key in self._named:
            inner = self._named[key]
            before = len(self._lines), len(self._paragraphs)
            trees = [
                self._in_graph(node, said, key, depth)
                for node, said in sorted(inner.items())
                if node == key or not node.startswith("_:")
            ]
            loose = [node for node in inner if node.startswith("_:") and node not in self._written]
            trees += [self._in_graph(node, inner[node], key, depth) for node in loose]
            tree["@graph"] = sorted(trees, key=_order)
            self._rewrite_words(tree["@graph"], before)
        return tree

    def _in_graph(self, node: str, said: Said, graph: str, depth: int) -> Tree:
        tree: Tree = {} if node.startswith("_:") else {"@id": node}
        self._written.add(f"{graph} {node}")
        self._add(tree, said, graph, depth + 1)
        return tree

    def _add(self, tree: Tree, said: Said, graph: str, depth: int) -> None:
        words, spelled = self._words, self._spelled
        for predicate, values in said.items():
            try:
                name, head, write = word = words[predicate]
            except KeyError:
                name, head, write = word = words[predicate] = self._word(short(predicate))
            if len(values) != 1 or name in tree:
                self._add_several(tree, word, values, graph, depth)
                continue
            value = values[0]
            if "@value" in value:
                text = value["@value"]
                tree[name] = text if len(value) == 1 else value if "@type" not in value else _literal(value)
            else:
                text = value["@id"]
                if text.startswith("_:") or (spelled and text in spelled):
                    before = len(self._lines), len(self._paragraphs)
                    if write is not None and not text.startswith("_:"):
                        write(head + text)
                    tree[name] = self._node_value(value, graph, depth)
                    if write is None:
                        self._drop_words(before)
                    continue
                tree[name] = value
            if write is not None and text:
                write(head + text)

    def _add_several(
        self, tree: Tree, word: _Word, values: Sequence[Mapping[str, Any]], graph: str, depth: int
    ) -> None:
        """Add several values, sorted; existing values are kept, since two properties may share a short name."""
        before = len(self._lines), len(self._paragraphs)
        distinct = {tuple(value.items()): value for value in values}.values()  # remove repeated RDF statements
        trees = [self._node_value(value, graph, depth) if "@id" in value else _literal(value) for value in distinct]
        several = sorted([*_each(tree.get(word.name)), *trees], key=_order)
        tree[word.name] = several if len(several) > 1 else several[0]
        self._drop_words(before)
        if word.write is not None:
            self._write_values(word, sorted(trees, key=_order), depth)

    def _drop_words(self, before: tuple[int, int]) -> None:
        del self._lines[before[0] :]
        del self._paragraphs[before[1] :]

    def _rewrite_words(self, trees: Sequence[Tree], before: tuple[int, int]) -> None:
        """Replace the text that was added after `before` by the text of `trees`, in their final order."""
        self._drop_words(before)
        for tree in trees:
            self._write_tree(tree, 0)

    def _write_tree(self, tree: Tree, depth: int) -> None:
        for name, value in tree.items():
            if name not in _UNSAID:
                self._write_values(self._word(name), _each(value), depth)
        for inner in tree.get("@graph", ()):
            self._write_tree(inner, depth + 1)

    def _write_values(self, word: _Word, values: Sequence[Any], depth: int) -> None:
        for value in values:
            text = value if type(value) is str else value.get("@value") or value.get("@id")
            if text and word.write is not None:
                word.write(word.head + text)
            if type(value) is dict and "@value" not in value and depth < _MOST_DEPTH:
                self._write_tree(value, depth + 1)

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
            self._add(tree, inside, graph, depth + 1)
            return tree
        return self._node(key, key, depth + 1)


def _literal(value: Mapping[str, Any]) -> Any:
    if "@type" not in value:
        return value if len(value) > 1 else value["@value"]
    datatype = value["@type"]
    return value["@value"] if datatype == _LANG_STRING else {"@value": value["@value"], "@type": short(datatype)}


def _order(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


def _title_of(tree: Tree, language: str | None) -> str:
    """Return the first usual title, preferably in `language`; without a title, the last part of the IRI."""
    inside = tree.get("@graph", ())
    for name in _TITLES:
        if name not in tree and not inside:
            continue
        first = tree.get(name)
        if not inside and type(first) is dict and (only := first.get("@value")):
            return str(only)
        values = [*_each(first), *(value for inner in inside for value in _each(inner.get(name)))]
        titles = [
            (words, value.get("@language", "") if isinstance(value, dict) else "")
            for value in values
            if (words := _words(value))
        ]
        if titles:
            return next((words for words, own in titles if language and own.startswith(language)), titles[0][0])
    name = str(tree.get("@id", ""))
    return name.rstrip("/#").rpartition("#")[2].rpartition("/")[2] or name


def _tags_of(tree: Tree) -> list[str]:
    """Return the class names and keywords of a tree."""
    tags: list[str] = []
    for part in (tree, *tree["@graph"]) if "@graph" in tree else (tree,):
        kinds = _each(part.get("rdf:type"))
        tags += [_label(short(kind["@id"])) for kind in kinds if type(kind) is dict and "@id" in kind]
        for name in _TAGS:
            if name in part:
                tags += [words for value in _each(part[name]) if (words := _words(value))]
    return tags


def _each(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _words(value: Any) -> str:
    words = value.get("@value", "") if isinstance(value, dict) else value
    return words if isinstance(words, str) else ""


def _label(name: str) -> str:
    return name.rpartition("#")[2].rpartition("/")[2].rpartition(":")[2] or name


class StreamMember(NamedTuple):
    """A member: its name, its object, its times and sequence numbers, and its stored content."""

    name: str
    version_of: str | None
    time: int | None
    sequence: int
    version_time: int | None
    version_sequence: int
    deletes: bool
    transaction: str | None
    is_final: bool
    title: str
    text: str
    tags: tuple[str, ...]
    tree: dict[str, Any]


class MemberReader:
    """Reads the members of one page; `by_object` if they are versions of objects.

    `wanted` collects the URLs of documents with missing parts of members.
    """

    def __init__(self, quads: Quads, stream: EventStream, language: str | None, *, by_object: bool) -> None:
        self.wanted: list[str] = []
        self._quads = quads
        self._stream = stream
        self._language = language
        self._by_object = by_object
        self._deletes = frozenset(stream.kinds.deletes)
        self._describer = Describer(quads)
        self._has_graphs = bool(quads.named)

    def read(self, name: str) -> StreamMember:
        """Read the member with this name."""
        stream, language = self._stream, self._language
        version_of = self._node(name, stream.version_of)
        is_version = self._by_object and version_of is not None
        left_out = stream.version_of if is_version and type(stream.version_of) is str else None
        time = None if stream.time is None else self._time(name, stream.time)
        version_time = None if stream.version_time is None else self._time(name, stream.version_time)
        transaction = None if stream.transaction is None else self._text(name, stream.transaction)
        deletes = not self._deletes.isdisjoint(map(node_of, self._values(name, stream.kinds.path)))
        sequence = 0 if stream.sequence is None else self._number(name, stream.sequence)
        version_sequence = 0 if stream.version_sequence is None else self._number(name, stream.version_sequence)
        is_final = transaction is not None and self._text(name, stream.finalised) == stream.finalised_value
        extracted = None if stream.shape is None else extract(self._quads, name, stream.shape)
        if name not in self._quads.said and name not in self._quads.named and name.startswith("http"):
            self.wanted.append(name)
        if extracted is not None:
            self.wanted += extracted.wanted
        tree, text = self._describer.describe(name, extracted, left_out=left_out)
        if is_version:
            tree["@id"] = version_of
        title, tags = _title_of(tree, language), tuple(_tags_of(tree))
        # Positional arguments, since so many keyword arguments would double the cost.
        return StreamMember(
            name, version_of, time, sequence, version_time, version_sequence, deletes, transaction, is_final,
            title, text, tags, tree,
        )  # fmt: skip

    def _values(self, name: str, path: Path) -> Any:
        if type(path) is str and not self._has_graphs:
            said = self._quads.said.get(name)
            return () if said is None else said.get(path, ())
        return follow(self._quads, name, name, path)

    def _node(self, name: str, path: Path) -> str | None:
        values = self._values(name, path) if path is not None else ()
        key = node_of(values[0]) if values else None
        return key if key and not key.startswith("_:") else None

    def _text(self, name: str, path: Path) -> str | None:
        values = self._values(name, path) if path is not None else ()
        return lexical(values[0]) if values else None

    def _time(self, name: str, path: Path) -> int | None:
        """Return the time of a member as one instant, so that members can be sorted; of an inexact time, the middle."""
        values = self._values(name, path)
        return moment_within(lexical(values[0])) if values else None

    def _number(self, name: str, path: Path) -> int:
        text = self._text(name, path)
        try:
            return min(max(int(text or 0), 0), _GREATEST)
        except ValueError:
            interval = interval_of(text or "")
            return max(interval.low, 0) if interval else 0
