"""Whatever the OpenAPI document allows is taken, what it does not is refused, and each answer is one that it describes.

The build asks each operation a few times, always others; `make fuzz` asks for as long as `ROWEN_FUZZ_SECONDS` says.
"""

import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tests.conftest import ScratchDatabase
from tests.rest.conforming import SKIPPED, Explorer
from tests.server.interfaces import Interface, interface

SECONDS = float(os.environ.get("ROWEN_FUZZ_SECONDS", "0"))
# Of each sort of request: some 600 in all, in about ten seconds; more show what few examples miss.
EXAMPLES = 2 if SECONDS < 60 else 20

THING = '{"@context": "https://schema.org", "@type": "Product", "name": "Rake"}'
RAKE = f'<title>Rake</title><script type="application/ld+json">{THING}</script><h1>Rake</h1><p>It rakes.</p>'
TOOL = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
NOBODY = "http://127.0.0.1:9"


async def settle(it: Interface, folder: Path) -> None:
    """Have something of each sort, under the names that lead to it."""
    folder.mkdir(exist_ok=True)
    (folder / "rake.html").write_text(RAKE)
    (folder / "hay.md").write_text("# Hay\n\nCut it wet.")
    await it.rowen.sources.add(str(folder), name="guide")
    await it.rowen.schemas.add("tool@1.0.0", TOOL)
    await it.rowen.extraction.attach("guide", "tool@1.0.0", only_urls=["*rake.html"])
    await it.rowen.sync("guide")
    (folder / "hay.md").write_text("# Hay\n\nCut it dry.")
    await it.rowen.queue.enqueue("guide")
    await it.rowen.queue.work(until_idle=True)
    await it.rowen.searches.save("dry hay", "hay")
    await it.rowen.webhooks.add("builds", f"{NOBODY}/hook", secret="env:HOOK_SECRET")
    await it.rowen.access.add_token("dashboard")
    await it.rowen.rdf.add_endpoint("guide", f"{NOBODY}/sparql")


def known(folder: Path) -> dict[str, dict[str, Any]]:
    """Values of parameters that lead to something, by the first part of the path."""
    page = (folder / "rake.html").as_uri()
    everywhere = {"name": "guide", "ref": "tool@1.0.0", "number": 1, "url": page, "q": "hay", "schema": "tool"}
    compared = {"older": "tool@1.0.0", "newer": "tool@1.0.0", "endpoint": f"{NOBODY}/sparql"}
    return {
        "everywhere": everywhere | compared,
        "webhooks": {"name": "builds"},
        "tokens": {"name": "dashboard"},
        "saved-searches": {"name": "dry hay"},
    }


def bodies(folder: Path) -> dict[str, Any]:
    """What is sent where hardly anything that is drawn means something."""
    address = folder.as_uri()
    return {
        "POST /api/v1/sources": {"address": address, "name": "more"},
        "POST /api/v1/preview": {"address": address},
        "POST /api/v1/apply": {"source": [{"name": "guide", "kind": "files", "url": address}]},
        "POST /api/v1/extractions": {"url": str(folder / "rake.html"), "schema": "tool@1"},
        "POST /api/v1/poke": {"targets": ["guide"]},
        "POST /api/v1/schemas": {"ref": "field@1.0.0", "definition": TOOL},
        "POST /api/v1/webhooks": {"name": "calls", "url": f"{NOBODY}/hook", "secret": "env:HOOK_SECRET"},
        "POST /api/v1/webhooks/{name}/rotate": {"secret": "env:HOOK_SECRET"},
        "POST /api/v1/sources/{name}/endpoints": {"endpoint": f"{NOBODY}/sparql"},
        "PUT /api/v1/sources/{name}/schemas/{ref}": {"grounding": "off"},
        "PATCH /api/v1/sources/{name}": {"every": "1d"},
    }


async def test_every_answer_is_one_that_the_document_describes(
    new_database: Callable[[], ScratchDatabase], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "x" * 32)
    folder, end, rounds = tmp_path / "guide", monotonic() + SECONDS, 0
    findings: list[str] = []
    while not rounds or (monotonic() < end and not findings):
        async with interface(new_database(), requests_per_minute=10**9, push_key="k" * 24) as it:
            await settle(it, folder)
            explorer = Explorer(it, known(folder), bodies(folder))
            await explorer.explore(f"round {rounds}", examples=EXAMPLES)
        findings += explorer.findings
        rounds += 1

    assert findings == [], "\n\n".join(findings)
    # Most operations were asked something that they could answer well.
    assert sum(map(bool, explorer.asked.values())) > 80
    assert set(SKIPPED) <= {one.label for one in explorer.operations}
