import ast
import json.decoder
import pathlib
import textwrap

import pytest

from rowen.content.code import fenced, lines, units


def starts(source: str, language: str = "") -> list[str]:
    """The first lines of the outermost units."""
    block = lines(source, 0, len(source), language)
    return [source[unit[0].start : unit[0].end].strip() for unit in units(block)]


def test_a_comment_or_decorator_stays_with_its_definition():
    source = "import os\n\n# about f\n@cache\ndef f():\n    pass\n\n\nclass C:\n    x = 1\n\n    y = 2\n"

    assert starts(source, "python") == ["import os", "# about f", "class C:"]


def test_braces_are_enough_to_see_definitions():
    source = "package a\n\nfunc f() {\n\treturn\n}\nfunc g()\n{\n\tx()\n\n\ty()\n}\n\n// h\nfunc h() {}\n"

    assert starts(source, "go") == ["package a", "func f() {", "func g()", "// h"]


def test_one_definition_is_cut_between_its_members():
    source = "class A {\n  int x;\n\n  void f() {\n    a();\n\n    b();\n  }\n\n  void g() {}\n}\n"

    assert starts(source) == ["class A {", "void f() {", "void g() {}"]


def test_a_branch_stays_with_its_condition():
    source = "if a:\n    b\n\nelse:\n    c\n\ntry:\n    d\nexcept E:\n    e\n"

    assert starts(source, "python") == ["if a:", "try:"]


def test_the_inside_of_a_long_string_is_not_code():
    source = 'TEXT = """\n\ndef not_code():\n\n"""\n\ndef code():\n    pass\n'

    assert starts(source, "python") == ['TEXT = """', "def code():"]


@pytest.mark.parametrize("module", [ast, json.decoder, pathlib, textwrap])
def test_python_is_cut_where_its_own_parser_sees_definitions(module):
    source = pathlib.Path(module.__file__).read_text(encoding="utf-8")
    definitions = {
        source.split("\n")[node.lineno - 1]
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.decorator_list
    }
    block = lines(source, 0, len(source), "python")
    found = [source[unit[0].start : unit[-1].end] for unit in units(block)]

    assert len(definitions) > 2
    for definition in definitions:
        assert sum(definition in unit.split("\n") for unit in found) == 1
    for unit in found:
        assert sum(definition in unit.split("\n") for definition in definitions) <= 1


def test_a_fence_cannot_be_closed_from_inside():
    assert fenced("```\nx\n```", "md") == "````md\n```\nx\n```\n````"
