"""All regular expressions in the code, how each one is used, and the texts that are worst for it."""

import ast
import importlib
import pkgutil
import re
import re._constants as op  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import rowen

__all__ = ["Use", "held", "made_at_run_time", "patterns", "worst_texts"]

_ROOT = Path(rowen.__file__).parent
_FUNCTIONS = ("compile", "search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn")
_ANCHORED = {"match", "fullmatch"}
_FAILURES = ("", "\x01")
_ANY = (" ", "\n", "a", "0", "<", '"', "/", ".", "\\", "&")


@dataclass(slots=True)
class Use:
    """A pattern, where it stands, and the methods that are called with it."""

    place: str
    pattern: re.Pattern[Any]
    methods: set[str] = field(default_factory=set)

    @property
    def method(self) -> str:
        """The most expensive way in which it is used; not knowing how, a search."""
        if not self.methods or self.methods - _ANCHORED:
            return "search"
        return "fullmatch" if self.methods == {"fullmatch"} else "match"


@cache
def patterns() -> tuple[Use, ...]:
    """Each pattern that stands in the code."""
    return tuple(use for name in _modules() for use in _Module(name).uses())


@cache
def held() -> frozenset[re.Pattern[Any]]:
    """Each pattern that a module holds in a name, a list or a dictionary."""
    return frozenset(pattern for name in _modules() for pattern in _Module(name).held())


@cache
def made_at_run_time() -> frozenset[str]:
    """The functions that make a pattern of what they are given."""
    return frozenset(place for name in _modules() for place in _Module(name).dynamic())


def _modules() -> list[str]:
    found = pkgutil.walk_packages(rowen.__path__, "rowen.")
    return ["rowen", *(module.name for module in found if not module.name.endswith("__main__"))]


class _Module:
    """One module: its syntax tree, and its names as they are when it is imported."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._imported = importlib.import_module(name)
        assert self._imported.__file__
        self._tree = ast.parse(Path(self._imported.__file__).read_text())

    def uses(self) -> Iterator[Use]:
        for _, call in self._calls():
            if pattern := self._pattern(call):
                yield Use(f"{self._name}:{call.lineno}", pattern, self._methods(call))

    def held(self) -> Iterator[re.Pattern[Any]]:
        """The patterns that its names hold, however they came there."""
        for value in vars(self._imported).values():
            yield from _patterns_in(value)

    def dynamic(self) -> Iterator[str]:
        for function, call in self._calls():
            if self._pattern(call) is None:
                yield f"{self._name}.{function}"

    def _calls(self) -> Iterator[tuple[str, ast.Call]]:
        """The calls of `re`, each with the function that it stands in."""
        yield from _calls(self._tree, "")

    def _pattern(self, call: ast.Call) -> re.Pattern[Any] | None:
        """The pattern of a call, unless it depends on a variable of a function."""
        flags = next((word.value for word in call.keywords if word.arg == "flags"), None)
        position = {"compile": 1, "sub": 4, "subn": 4, "split": 3}.get(_method(call), 2)
        flags = flags or (call.args[position] if len(call.args) > position else None)
        try:
            source = self._value(call.args[0])
            return re.compile(source, self._value(flags) if flags else 0)
        except NameError:
            return None

    def _value(self, expression: ast.expr) -> Any:
        return eval(compile(ast.Expression(expression), self._name, "eval"), dict(vars(self._imported)))

    def _methods(self, call: ast.Call) -> set[str]:
        if _method(call) != "compile":
            return {_method(call)}
        if bound := [
            node.attr for node in ast.walk(self._tree) if isinstance(node, ast.Attribute) and node.value is call
        ]:
            return set(bound)
        names = _names_given(self._tree, call)
        asked = [method for name, method in _attributes(self._tree) if name in names]
        named = sum(isinstance(node, ast.Name) and node.id in names for node in ast.walk(self._tree))
        is_handed_on = named > len(asked) + len(names) or any(_is_imported(self._name, name) for name in names)
        return set() if is_handed_on else {method for method in asked if method in _FUNCTIONS}


def _calls(node: ast.AST, function: str) -> Iterator[tuple[str, ast.Call]]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        function = f"{function}.{node.name}".removeprefix(".")
    if isinstance(node, ast.Call) and _method(node) in _FUNCTIONS and ast.unparse(node.func).startswith("re."):
        yield function, node
    for child in ast.iter_child_nodes(node):
        yield from _calls(child, function)


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _names_given(tree: ast.Module, call: ast.Call) -> set[str]:
    for node in tree.body:
        value = node.value if isinstance(node, ast.Assign) else None
        if value is call or (isinstance(value, ast.Attribute) and value.value is call):
            assert isinstance(node, ast.Assign)
            return {target.id for target in node.targets if isinstance(target, ast.Name)}
    return set()


@cache
def _attributes(tree: ast.Module) -> list[tuple[str, str]]:
    """What is asked of which name, `_LINK.search` for instance."""
    asked = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return [(node.value.id, node.attr) for node in asked if isinstance(node.value, ast.Name)]


@cache
def _imports() -> frozenset[tuple[str, str]]:
    """Which names of which modules are imported elsewhere."""
    trees = (ast.parse(path.read_text()) for path in _ROOT.rglob("*.py"))
    nodes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return frozenset((node.module or "", alias.name) for node in nodes for alias in node.names)


def _is_imported(module: str, name: str) -> bool:
    return (module, name) in _imports()


def _patterns_in(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(owner := getattr(value, "__self__", None), re.Pattern):
        yield owner
    elif isinstance(value, dict):
        for each in (*value.keys(), *value.values()):
            yield from _patterns_in(each)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from _patterns_in(each)


def worst_texts(pattern: re.Pattern[Any], size: int) -> Iterator[str | bytes]:
    """Texts of about this many characters, made of the pattern's own parts: repeated, and then of no use."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    seen = set()
    whole = _example(tree)
    spots = [*_spots(tree, ""), *((start, unit) for unit in _ANY for start in ("", whole))]
    for before, unit in dict.fromkeys(spots):
        for start, repeated in ((before, unit), ("", before + unit)):
            if not repeated or (start, repeated) in seen:
                continue
            seen.add((start, repeated))
            body = start + repeated * max(1, (size - len(start)) // len(repeated))
            for failure in _FAILURES:
                yield (
                    (body + failure).encode("latin-1", "ignore")
                    if isinstance(pattern.pattern, bytes)
                    else body + failure
                )


def _spots(tree: Any, before: str) -> Iterator[tuple[str, str]]:
    """Each part of a pattern, with a text that takes a match as far as there."""
    parts = list(_parts(tree))
    for at, (node, examples) in enumerate(parts):
        for example in examples:
            yield before, example
            yield before, example + " "
        yield before + examples[0], " "
        yield before + examples[0], "\n"
        if at + 1 < len(parts):
            yield before, examples[0] + parts[at + 1][1][0]
        for inner in _inside(node):
            yield from _spots(inner, before)
        before += examples[0]
    yield before, ""


def _parts(tree: Any) -> Iterator[tuple[Any, list[str]]]:
    """The parts of a sequence, each with texts that it matches; letters in a row are one part."""
    word = ""
    for node in tree:
        if node[0] is op.LITERAL:
            word += chr(node[1])
            continue
        if word:
            yield (op.LITERAL, word), [word]
            word = ""
        yield node, _examples(node)
    if word:
        yield (op.LITERAL, word), [word]


def _inside(node: tuple[Any, Any]) -> list[Any]:
    code, told = node
    if code is op.BRANCH:
        return list(told[1])
    if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        return [told[2]]
    if code is op.SUBPATTERN:
        return [told[3]]
    if code is op.ATOMIC_GROUP:
        return [told]
    if code in (op.ASSERT, op.ASSERT_NOT):
        return [told[1]] if told[0] > 0 else []
    return []


def _examples(node: tuple[Any, Any]) -> list[str]:
    """A few texts that one part matches; the first one is the most usual."""
    code, told = node
    if code is op.LITERAL:
        return [chr(told)]
    if code is op.NOT_LITERAL:
        return [char for char in _ANY if char != chr(told)][:3]
    if code is op.ANY:
        return ["a", " ", "<"]
    if code is op.IN:
        return _members(told)
    if code is op.BRANCH:
        return [_example(branch) for branch in told[1]][:6]
    if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        least, most, inner = told
        count = max(least, 1) if most else 0
        return [each * count for each in (_alternatives(inner))] or [""]
    if code is op.SUBPATTERN:
        return _alternatives(told[3])
    if code is op.ATOMIC_GROUP:
        return _alternatives(told)
    return [""]


def _alternatives(tree: Any) -> list[str]:
    nodes = list(tree)
    if len(nodes) == 1:
        return _examples(nodes[0])
    return [_example(tree)]


def _example(tree: Any) -> str:
    return "".join(_examples(node)[0] for node in tree)


def _members(told: list[tuple[Any, Any]]) -> list[str]:
    """Members of a class: one of each of its ranges and categories, or some that it does not leave out."""
    if told[0][0] is op.NEGATE:
        out = re.compile(_class(told[1:]))
        return [char for char in (*_ANY, "[", "(", "\\", "-", ":") if not out.match(char)][:3] or ["\x02"]
    found: list[str] = []
    for code, value in told:
        if code is op.LITERAL:
            found.append(chr(value))
        elif code is op.RANGE:
            found.append(chr(value[0]))
        elif code is op.CATEGORY:
            found.extend(_of_category(value))
    return list(dict.fromkeys(found))[:3]


def _of_category(category: Any) -> list[str]:
    return {
        op.CATEGORY_DIGIT: ["0"],
        op.CATEGORY_SPACE: [" ", "\n"],
        op.CATEGORY_WORD: ["a", "0"],
        op.CATEGORY_NOT_DIGIT: ["a", " "],
        op.CATEGORY_NOT_SPACE: ["a", "<"],
        op.CATEGORY_NOT_WORD: [" ", "<"],
    }[category]


def _class(told: list[tuple[Any, Any]]) -> str:
    names = {
        op.CATEGORY_DIGIT: r"\d", op.CATEGORY_SPACE: r"\s", op.CATEGORY_WORD: r"\w",
        op.CATEGORY_NOT_DIGIT: r"\D", op.CATEGORY_NOT_SPACE: r"\S", op.CATEGORY_NOT_WORD: r"\W",
    }  # fmt: skip
    parts = []
    for code, value in told:
        if code is op.LITERAL:
            parts.append(re.escape(chr(value)))
        elif code is op.RANGE:
            parts.append(f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}")
        elif code is op.CATEGORY:
            parts.append(names[value])
    return f"[{''.join(parts)}]"
