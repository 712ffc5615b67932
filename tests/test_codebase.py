"""The codebase stays tidy: names, the public surface, layers."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from inspect import signature
from pathlib import Path
from typing import TypeAlias

import pytest

import rowen
import rowen.settings
from rowen.errors import RowenError

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "rowen"
MODULES = sorted(SOURCE.rglob("*.py"))
PYTHON = [*MODULES, *sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "bench").rglob("*.py"))]
ERROR_CODES = {
    "address_refused": 403,
    "answer_invalid": 422,
    "answer_mismatch": 422,
    "answer_refused": 422,
    "answer_truncated": 422,
    "bad_answer": 502,
    "bad_url": 400,
    "bad_vectors": 502,
    "body_too_large": 502,
    "budget_exceeded": 402,
    "busy": 409,
    "circuit_open": 503,
    "configuration": 500,
    "connect": 502,
    "context_overflow": 422,
    "embedder_down": 503,
    "embedding": 502,
    "export": 500,
    "extraction": 422,
    "fetch": 502,
    "fetch_timeout": 504,
    "item": 422,
    "job": 500,
    "job_limit": 500,
    "job_silent": 500,
    "newer_database": 503,
    "not_found": 404,
    "overloaded": 503,
    "portion_read": 500,
    "provider": 502,
    "provider_answer": 502,
    "provider_down": 503,
    "provider_key": 502,
    "provider_refused": 422,
    "redirect": 502,
    "refused": 403,
    "request_too_large": 413,
    "source": 502,
    "source_gone": 502,
    "store": 500,
    "store_full": 507,
    "store_rejected": 422,
    "store_unavailable": 503,
    "store_unfit": 500,
    "texts_refused": 502,
    "tls": 502,
    "too_many_requests": 429,
    "truncated": 502,
    "unauthenticated": 401,
    "ungrounded": 422,
    "usage": 400,
}
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "handler"}


def test_the_public_surface_is_a_decision() -> None:
    assert rowen.__all__ == [
        "AccessToken",
        "Action",
        "AnnouncedDocument",
        "Answer",
        "AppliedSource",
        "AuditLine",
        "BlockingRowen",
        "Body",
        "BudgetExceededError",
        "BusyError",
        "Case",
        "Change",
        "Checkpoint",
        "Complete",
        "ConfigurationError",
        "Connector",
        "CostLine",
        "Costs",
        "DatabaseStatus",
        "Delivery",
        "DiffLine",
        "DiffPiece",
        "Discovery",
        "Document",
        "EmbeddingError",
        "EmbeddingEstimate",
        "EmbeddingProgress",
        "EmbeddingReport",
        "Entry",
        "Evidence",
        "Export",
        "ExportError",
        "Extracted",
        "Extraction",
        "ExtractionError",
        "ExtractionReport",
        "Failed",
        "FellBack",
        "FetchError",
        "Fetched",
        "FetchedModel",
        "FieldChange",
        "FieldDiff",
        "Following",
        "FormatReader",
        "FoundVersion",
        "Gone",
        "Health",
        "Hint",
        "Hit",
        "Hunk",
        "Incomplete",
        "ItemDetail",
        "ItemDiff",
        "ItemError",
        "ItemLine",
        "Job",
        "Known",
        "LiveWorker",
        "Meter",
        "ModelScore",
        "ModelStatus",
        "NewSession",
        "NewToken",
        "NotFoundError",
        "Observation",
        "Options",
        "Outcome",
        "Overview",
        "Page",
        "PageScore",
        "Part",
        "Passage",
        "PendingDeletion",
        "Poked",
        "Preview",
        "Principal",
        "ProviderError",
        "Publication",
        "PushAccess",
        "PushVerdict",
        "QueueDepth",
        "Raw",
        "Reach",
        "Redirected",
        "RefusedError",
        "RepeatedAnswer",
        "Revision",
        "Rowen",
        "RowenError",
        "Run",
        "RunStats",
        "SavedNews",
        "SavedSearch",
        "Savings",
        "Schema",
        "SchemaChange",
        "SchemaComparison",
        "SchemaUse",
        "Scope",
        "ServerStatus",
        "Skipped",
        "Source",
        "SourceError",
        "SourceSchema",
        "StatementFile",
        "StatementReport",
        "StatementSummary",
        "StatementTarget",
        "Status",
        "StoreError",
        "StoreUnavailableError",
        "Subscription",
        "SwitchedOff",
        "Tidied",
        "Tools",
        "TroubleGroup",
        "Twin",
        "TwinGroup",
        "TwinItem",
        "Unchanged",
        "Unconfirmed",
        "UsageError",
        "Validators",
        "Webhook",
        "WebhookFilter",
        "__version__",
        "fact",
        "open",
        "open_blocking",
    ]
    assert all(hasattr(rowen, name) for name in rowen.__all__)


def test_everything_that_the_service_returns_can_be_imported() -> None:
    service = rowen.Rowen(rowen.settings.load(embedder="none"))
    methods = [getattr(service, name) for name in vars(service) if not name.startswith("_") and name != "settings"]
    returned = {
        word for method in methods for word in re.findall(r"[A-Z]\w+", str(signature(method).return_annotation))
    }

    assert returned - {"None", "Exception", "AsyncGenerator"} <= set(rowen.__all__)


def test_every_error_has_a_name_for_programs() -> None:
    codes = {kind.code: kind.http_status for kind in _all_errors(RowenError)}

    assert len(codes) == len(list(_all_errors(RowenError)))
    assert codes == ERROR_CODES


def _all_errors(kind: type[RowenError]) -> Iterator[type[RowenError]]:
    for one in kind.__subclasses__():
        if one.__module__ == "rowen.errors" and not one.__name__.startswith("_"):
            yield one
            yield from _all_errors(one)


def test_a_word_is_the_name_of_one_class() -> None:
    names = [
        node.name
        for path in MODULES
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]

    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_no_room_without_a_purpose() -> None:
    assert [p for p in MODULES if p.stem in FORBIDDEN_NAMES] == []


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_broad_excepts_stand_at_edges_only() -> None:
    broad = [
        f"{path.relative_to(SOURCE)}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or (isinstance(node.type, ast.Name) and node.type.id == "Exception"))
    ]

    assert set(broad) <= {
        "harvest/run.py",
        "interfaces/cli/app.py",
        "jobs/worker.py",
        "interfaces/mcp/server.py",
        "model/text.py",
    }


def test_only_the_settings_referenced_secrets_and_child_processes_read_the_environment() -> None:
    readers = {str(p.relative_to(SOURCE)) for p in MODULES if re.search(r"os\.environ|getenv", p.read_text())}

    assert readers <= {
        "settings/__init__.py",
        "settings/files.py",
        "net/credentials.py",
        "tracing.py",  # the variables of OpenTelemetry, as its own packages read them
        "programs.py",
        "interfaces/cli/commands/db.py",
    }


def test_nothing_is_left_to_be_done() -> None:
    marks = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX)\b")

    assert [p for p in PYTHON if marks.search(p.read_text())] == []


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import rowen, sys; print([m for m in ('pydantic', 'psycopg', 'turbohtml') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert out.stdout.strip() == "[]"


def test_every_test_asserts_whatever_its_loops_run_over() -> None:
    """Require an assertion that always runs: a loop over nothing, or a condition that is never met, asserts nothing."""
    modules = {path: ast.parse(path.read_text()) for path in sorted((ROOT / "tests").rglob("*.py"))}
    helpers = asserting_helpers(modules.values())
    vacuous = {
        f"{path.relative_to(ROOT / 'tests')}::{node.name}"
        for path, module in modules.items()
        for node in functions_of(module)
        if node.name.startswith("test_") and not Assertions(module, node, helpers).always_run
    }

    assert vacuous == WITHOUT_ASSERTION.keys()


@pytest.mark.parametrize(
    ("body", "runs"),
    [
        ("assert 1", True),
        ("with pytest.raises(KeyError): f()", True),
        ("with f() as it: assert it", True),
        ("for it in f(): assert it", False),
        ("for it in f(): pass\nelse: assert it", False),
        ("for it in (1, 2): assert it", True),
        ("for it in SOME: assert it", True),
        ("for it in NONE: assert it", False),
        ("for it in range(3): assert it", True),
        ("for it in range(0): assert it", False),
        ("them = [f(n) for n in range(3)]\nfor it in them: assert it", True),
        ("them = [n for n in range(3) if f(n)]\nfor it in them: assert it", False),
        ("while f(): assert 1", False),
        ("if f(): assert 1", False),
        ("if f(): assert 1\nelse: assert 2", True),
        ("assert all(it for it in f())", False),
        ("assert all(it for it in SOME)", True),
        ("assert not any(it for it in f())", False),
        ("confirm(1)", True),
        ("await it.confirm(1)", True),
        ("for it in f(): confirm(it)", False),
        ("confirm(1)\nfor it in f(): assert it", False),
        ("def inner():\n    assert 1\ninner()", True),
        ("def inner():\n    assert 1\n", False),
        ("f()", False),
    ],
)
def test_assertions_over_nothing_are_found(body: str, runs: bool) -> None:
    module = ast.parse("SOME = (1,)\nNONE = ()\nasync def test_it(): pass\ndef confirm(it): assert it")
    test = next(functions_of(module))
    test.body = ast.parse(body).body

    assert Assertions(module, test, asserting_helpers([module])).always_run is runs


Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
# Why a test needs no assertion of its own.
_PASSES = "the function returns nothing, and an error is what it must not raise"
_EXAMPLE = "the assertions stand in the example of the page"
WITHOUT_ASSERTION = {
    "docs/test_contributing.py::test_the_example_of_an_operation_passes_its_own_test": _EXAMPLE,
    "docs/test_contributing.py::test_the_worked_example_passes_its_own_test": _EXAMPLE,
    "docs/test_readers.py::test_the_worked_example_of_a_reader_passes_its_own_test": _EXAMPLE,
    "net/test_guard.py::test_other_names_are_left_to_the_proxy": _PASSES,
    "hostile/test_addresses.py::test_public_names_pass": _PASSES,
}


def functions_of(module: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def asserting_helpers(modules: Iterable[ast.Module]) -> set[str]:
    """Return the names of functions that assert, or that call one of them."""
    called: dict[str, set[str]] = {}
    names: set[str] = set()
    for function in (node for module in modules for node in functions_of(module)):
        inside = list(ast.walk(function))
        called.setdefault(function.name, set()).update(filter(None, map(called_name, inside)))
        if any(isinstance(node, ast.Assert) or called_name(node) in EXPECTATIONS for node in inside):
            names.add(function.name)
    while more := {name for name, calls in called.items() if name not in names and calls & names}:
        names |= more
    return names


EXPECTATIONS = {"raises", "warns", "fail"}


def called_name(node: ast.AST) -> str | None:
    match node:
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
            return name
    return None


class Assertions:
    """The assertions of a test, told apart by whether they always run."""

    def __init__(self, module: ast.Module, test: Function, helpers: set[str]) -> None:
        self._helpers = helpers
        assigned = [node for node in (*module.body, *ast.walk(test)) if isinstance(node, ast.Assign | ast.AnnAssign)]
        self._values = {
            target.id: node.value
            for node in assigned
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name)
        }
        self._inner = {inner.name: inner for inner in functions_of(test) if inner is not test}
        inside = {node for inner in self._inner.values() for node in ast.walk(inner)}
        self._has_own = any(
            isinstance(node, ast.Assert) or called_name(node) in EXPECTATIONS
            for node in ast.walk(test)
            if node not in inside
        )
        self.always_run = self._any(test.body)

    def _any(self, statements: Iterable[ast.stmt]) -> bool:
        return any(map(self._asserts, statements))

    def _asserts(self, statement: ast.stmt) -> bool:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return False
            case ast.Assert(test=test):
                return not self._is_over_nothing(test)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                names = {name for item in items if (name := called_name(item.context_expr))}
                expected = EXPECTATIONS if self._has_own else EXPECTATIONS | self._helpers
                return bool(names & expected) or self._any(body)
            case ast.For(iter=over, body=body) | ast.AsyncFor(iter=over, body=body):
                return self._has_some(over) and self._any(body)
            case ast.If(body=body, orelse=orelse):
                return self._any(body) and self._any(orelse)
            case ast.Try(body=body, finalbody=final):
                return self._any(body) or self._any(final)
            case ast.While() | ast.Match():
                return False
        calls = {name for node in ast.walk(statement) if (name := called_name(node))}
        if any(self._any(self._inner[name].body) for name in calls & self._inner.keys()):
            return True
        # A helper's name says less than an assertion: it counts where a test has none of its own.
        return not self._has_own and bool(calls & self._helpers - self._inner.keys())

    def _is_over_nothing(self, test: ast.expr) -> bool:
        """Whether an assertion is `all(…)` or `not any(…)` of what may be nothing."""
        match test:
            case ast.Call(func=ast.Name(id="all"), args=[over]):
                return not self._has_some(over)
            case ast.UnaryOp(op=ast.Not(), operand=ast.Call(func=ast.Name(id="any"), args=[over])):
                return not self._has_some(over)
        return False

    def _has_some(self, over: ast.expr | None) -> bool:
        """Whether something to loop over is seen to be more than nothing."""
        match over:
            case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
                return any(not isinstance(one, ast.Starred) or self._has_some(one.value) for one in elements)
            case ast.Dict(keys=keys, values=values):
                return any(key is not None or self._has_some(value) for key, value in zip(keys, values, strict=True))
            case ast.Constant(value=str() | bytes() as text):
                return bool(text)
            case ast.Name(id=name):
                # Taken out, so that a value that is made of itself comes to an end.
                value = self._values.pop(name, None)
                found = self._has_some(value)
                if value is not None:
                    self._values[name] = value
                return found
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return all(not one.ifs and self._has_some(one.iter) for one in over.generators)
            case ast.Call(func=ast.Name(id="range"), args=args):
                numbers = [one.value for one in args if isinstance(one, ast.Constant) and isinstance(one.value, int)]
                return len(numbers) == len(args) and bool(range(*numbers))
            case ast.Call(func=ast.Name(id="map"), args=[_, *overs]):
                return all(map(self._has_some, overs))
            case ast.Call(func=ast.Name(id="enumerate" | "sorted" | "set" | "list" | "tuple" | "reversed"), args=[one]):
                return self._has_some(one)
            case ast.Call(func=ast.Name(id="zip"), args=overs):
                return all(map(self._has_some, overs))
            case ast.Call(func=ast.Attribute(value=one, attr="items" | "keys" | "values")):
                return self._has_some(one)
        return False
