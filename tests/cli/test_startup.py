"""What a command imports before it answers: that is what it costs to start, and nobody pays for what is not needed."""

import subprocess
import sys
from contextlib import closing

import pytest

from tests.cli.conftest import PATIENCE_S, Cli
from tests.portals.ckan import CkanPortal

SCRIPT = (
    "import sys\n"
    "from rowen.interfaces.cli.app import app\n"
    "from rowen.interfaces.cli.invocation import Invocation\n"
    "app.main(sys.argv[1:], standalone_mode=False, obj=Invocation())\n"
    "print(*sorted(sys.modules), file=sys.stderr)\n"
)

# What harvests, parses, talks to others, or draws for a terminal. Each takes longer than listing a thousand sources.
HEAVY = {
    *("aiohttp", "cronsim", "jsonschema_rs", "numpy", "onnxruntime", "procrastinate", "protego", "pydantic"),
    *("pyoxigraph", "rich", "turbohtml", "platformdirs"),
    *("rowen.connectors", "rowen.content", "rowen.formats", "rowen.jobs", "rowen.publish"),
}


def imported(cli: Cli, *arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        cwd=cli.folder,
        env=cli.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    "arguments", [["sources"], ["search", "hay"], ["get", "docs/hay.md"], ["changes"]], ids=lambda given: given[0]
)
def test_a_query_of_stored_items_imports_nothing_that_harvests(docs: Cli, arguments: list[str]) -> None:
    modules = imported(docs, *arguments)

    assert modules & HEAVY == set()
    assert "psycopg" in modules


def test_a_sync_without_changes_imports_no_reader_and_no_extraction(docs: Cli) -> None:
    modules = imported(docs, "sync", "docs")

    assert modules & {"turbohtml", "pyoxigraph", "rowen.content.html", "rowen.content.documents.pdf"} == set()
    assert modules & {"rowen.operations.extraction", "rowen.harvest.extractor", "rowen.operations.facts"} == set()
    assert "rowen.harvest.run" in modules


def test_a_sync_of_an_unchanged_catalog_imports_only_client_and_comparison(cli: Cli) -> None:
    cli.environment |= {"ROWEN_ALLOW_ADDRESSES": "127.0.0.0/8", "ROWEN_HOST_DELAY_S": "0"}
    with closing(CkanPortal()) as portal:
        portal.make("hay", notes="<p>In <b>bales</b>.</p>")
        first = imported(cli, "sync", portal.address)
        modules = imported(cli, "sync", portal.address)

    assert {"aiohttp", "rowen.connectors.ckan"} < modules
    assert "turbohtml" in first
    assert modules & HEAVY == {"aiohttp", "rowen.connectors", "rowen.content", "rowen.formats", "rowen.jobs"}
    assert modules & {"aiohttp.web", "psutil", "statistics", "tomllib"} == set()
    assert {name for name in modules if name.startswith("rowen.content.")} == {
        *("rowen.content.base", "rowen.content.documents", "rowen.content.readers"),
    }
    enriching = {name for name in modules if name.startswith("rowen.enrich.")}
    assert enriching == {"rowen.enrich.base", "rowen.enrich.ledger"}
    assert modules & {f"rowen.model.{name}" for name in ("extraction", "passages", "search")} == set()
    assert modules & {"rowen.harvest.embed", "rowen.operations.declarations", "rowen.store.search.search"} == set()


def test_only_json_output_imports_the_facts_of_all_results(docs: Cli) -> None:
    assert "rowen.operations.facts" not in imported(docs, "sources")
    assert "rowen.operations.facts" in imported(docs, "sources", "--json")


def test_a_search_imports_only_the_operations_it_needs(docs: Cli) -> None:
    modules = imported(docs, "search", "hay")

    assert {name for name in modules if name.startswith("rowen.operations.")} == {
        *("rowen.operations.items", "rowen.operations.operation", "rowen.operations.paging", "rowen.operations.search"),
        *("rowen.operations.parameters", "rowen.operations.registry"),
    }


def test_the_help_imports_click_and_eight_modules_of_rowen(cli: Cli) -> None:
    modules = imported(cli, "--help")

    assert modules & (HEAVY | {"psycopg", "asyncio", "tomllib"}) == set()
    assert {name for name in modules if name.startswith("rowen.")} == {
        *(
            "rowen.interfaces",
            "rowen.interfaces.cli",
            "rowen.interfaces.cli.app",
            "rowen.interfaces.cli.command",
            "rowen.interfaces.cli.invocation",
            "rowen.interfaces.cli.output",
        ),
        *("rowen.errors", "rowen.version"),
    }
