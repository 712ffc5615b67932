"""The codebase stays tidy: names, the public surface, layers."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from inspect import signature
from pathlib import Path

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
        "CarriedSchema",
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
        "HeldDeletion",
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
        "SavedNews",
        "SavedSearch",
        "Savings",
        "Schema",
        "SchemaChange",
        "SchemaComparison",
        "SchemaUse",
        "Scope",
        "ServerStatus",
        "Situation",
        "Skipped",
        "Source",
        "SourceError",
        "StatementFile",
        "StatementReport",
        "StatementSummary",
        "StatementTarget",
        "StoreError",
        "StoreUnavailableError",
        "Subscription",
        "SwitchedOff",
        "Tally",
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

    assert set(broad) <= {"harvest/run.py", "cli/app.py", "jobs/worker.py", "mcp/server.py"}


def test_only_the_settings_referenced_secrets_and_child_processes_read_the_environment() -> None:
    readers = {str(p.relative_to(SOURCE)) for p in MODULES if re.search(r"os\.environ|getenv", p.read_text())}

    assert readers <= {
        "settings/__init__.py",
        "settings/files.py",
        "fetch/credentials.py",
        "tracing.py",  # the variables of OpenTelemetry, as its own packages read them
        "programs.py",
        "cli/commands/db.py",
    }


def test_nothing_is_left_to_be_done() -> None:
    marks = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX)\b")

    assert [p for p in PYTHON if marks.search(p.read_text())] == []


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import rowen, sys; print([m for m in ('pydantic', 'psycopg', 'turbohtml') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert out.stdout.strip() == "[]"
