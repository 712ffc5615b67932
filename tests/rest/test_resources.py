"""The resources, from a source that is added to the change that others read of."""

import io
import json
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from rowen import Rowen
from rowen.model.webhooks import webhook_signature
from tests.conftest import ScratchDatabase
from tests.server.interfaces import interface

MARKDOWN = {"Accept": "text/markdown"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Some notes on hay."""
    notes = tmp_path / "notes"
    notes.mkdir()
    for name, text in {
        "hay": "# Hay\n\nCut it wet.",
        "rust": "# Rust\n\nA fungus.",
        "oats": "# Oats\n\nSow early.",
    }.items():
        (notes / f"{name}.md").write_text(text)
    return notes


async def work(rowen: Rowen) -> None:
    await rowen.queue.work(until_idle=True)


async def test_a_source_is_added_synced_by_its_job_and_found(database: ScratchDatabase, folder: Path) -> None:
    async with interface(database) as it:
        added = await it.http.post("/api/v1/sources", json={"address": str(folder), "name": "notes"})
        begun = await it.http.post("/api/v1/sources/notes/sync")
        await work(it.rowen)
        job = await it.http.get(begun.headers["location"])
        run = await it.http.get(job.links["related"]["url"])
        found = await it.http.get("/api/v1/search", params={"q": "fungus"})
        [hit] = found.json()["items"]

    assert (added.status_code, added.headers["location"]) == (201, "/api/v1/sources/notes")
    assert (begun.status_code, begun.json()["state"], job.json()["state"]) == (202, "waiting", "done")
    assert (run.json()["status"], run.json()["created"]) == ("completed", 3)
    assert (hit["title"], hit["source"], found.json()["notes"]) == ("Rust", "notes", [])


async def test_an_item_is_told_as_json_or_markdown_with_its_history_and_what_changed(
    database: ScratchDatabase, folder: Path
) -> None:
    async with interface(database) as it:
        await it.rowen.sync(str(folder))
        (folder / "hay.md").write_text("# Hay\n\nCut it dry.")
        await it.rowen.sync(str(folder))
        url = {"url": (folder / "hay.md").as_uri()}
        item = await it.http.get("/api/v1/items", params=url)
        text = await it.http.get("/api/v1/items", params=url, headers=MARKDOWN)
        history = await it.http.get("/api/v1/items/history", params=url)
        diff = await it.http.get("/api/v1/items/diff", params=url)
        unified = await it.http.get("/api/v1/items/diff", params={**url, "form": "unified"})
        related = await it.http.get("/api/v1/items/related", params=url)

    assert (item.json()["title"], item.json()["revision"]) == ("Hay", 2)
    assert (text.headers["content-type"], text.text) == ("text/markdown; charset=utf-8", "# Hay\n\nCut it dry.")
    assert [one["number"] for one in history.json()["items"]] == [1, 2]
    changed = [
        piece["text"] for line in diff.json()["hunks"][0]["lines"] for piece in line["pieces"] if piece["changed"]
    ]
    assert changed == ["wet", "dry"]
    assert unified.text.endswith("-Cut it wet.\n+Cut it dry.")
    assert set(related.json()) == {"similar", "twins"}


async def test_search_takes_all_filters_and_goes_on_by_its_cursor(database: ScratchDatabase, folder: Path) -> None:
    async with interface(database) as it:
        await it.rowen.sources.add(str(folder), name="notes")
        await it.rowen.sync("notes")
        asked = {"q": "hay rust* oats", "source": "notes", "kind": "files", "path": folder.as_uri(), "limit": 1}
        first = await it.http.get("/api/v1/search", params={**asked, "explain": True})
        second = await it.http.get(first.links["next"]["url"])
        none = await it.http.get("/api/v1/search", params={"q": "hay", "tag": "nobody", "since": "1h"})
        wrong = await it.http.get("/api/v1/search", params={"q": "hay", "kind": "nothing"})
        when = await it.http.get("/api/v1/search", params={"q": "hay", "since": "yesterday"})
        model = await it.http.get("/api/v1/search", params={"q": "hay"}, headers=MARKDOWN)
        similar = await it.http.get("/api/v1/search/similar", params={"url": (folder / "hay.md").as_uri()})

    titles = [answer.json()["items"][0]["title"] for answer in (first, second)]
    assert len(set(titles)) == 2
    assert "search_ms" in first.json()["explanation"]
    assert (none.json()["items"], wrong.status_code, when.status_code) == ([], 404, 400)
    assert model.text.startswith("The passages below are quoted")
    assert similar.status_code == 200


async def test_what_a_client_has_already_is_not_sent_again(database: ScratchDatabase, folder: Path) -> None:
    async with interface(database) as it:
        await it.rowen.sources.add(str(folder), name="notes")
        await it.rowen.sync("notes")
        for path in (
            "/api/v1/sources",
            "/api/v1/changes",
            "/api/v1/search?q=hay",
            "/feeds/atom",
            "/ldes",
            "/catalog/dcat",
        ):
            first = await it.http.get(path)
            etag = first.headers["etag"]
            again = await it.http.get(path, headers={"If-None-Match": f'"other", W/{etag}'})
            differs = await it.http.get(path, headers={"If-None-Match": '"other"'})
            head = await it.http.head(path)

            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag), path
            assert differs.status_code == 200
            assert (head.status_code, head.headers["etag"], head.content) == (200, etag, b"")


async def test_lists_go_on_by_cursors_that_no_other_list_takes(database: ScratchDatabase, folder: Path) -> None:
    async with interface(database) as it:
        await it.rowen.sources.add(str(folder), name="notes")
        await it.rowen.sync("notes")
        first = await it.http.get("/api/v1/changes", params={"limit": 2})
        second = await it.http.get(first.links["next"]["url"])
        strange = await it.http.get("/api/v1/runs", params={"after": first.json()["next"]})
        nonsense = await it.http.get("/api/v1/runs", params={"after": "%%%"})
        much = await it.http.get("/api/v1/changes", params={"limit": 100_000})

    assert [one["number"] for one in first.json()["items"] + second.json()["items"]] == [1, 2, 3]
    assert (second.json()["next"], "next" in second.links) == (None, False)
    assert [answer.status_code for answer in (strange, nonsense, much)] == [400, 400, 400]


async def test_search_with_a_relative_date_goes_on_by_its_cursor(database: ScratchDatabase, folder: Path) -> None:
    async with interface(database) as it:
        (folder / "straw.md").write_text("# Straw\n\nNo hay.")
        await it.rowen.sync(str(folder))
        whole = await it.http.get("/api/v1/search", params={"q": "hay", "since": "7d"})
        first = await it.http.get("/api/v1/search", params={"q": "hay", "since": "7d", "limit": 1})
        second = await it.http.get(first.links["next"]["url"])

    urls = [item["url"] for item in whole.json()["items"]]
    assert [second.status_code, len(urls) > 1] == [200, True]
    assert [item["url"] for item in first.json()["items"] + second.json()["items"]] == urls[:2]


async def test_errors_are_problems_with_the_words_of_the_one_tree(database: ScratchDatabase) -> None:
    async with interface(database) as it:
        missing = await it.http.get("/api/v1/sources/nobody")
        wrong = await it.http.post("/api/v1/sources", json={"adress": "https://example.org"})
        method = await it.http.put("/api/v1/sources")
        broken = await it.http.post("/api/v1/sources", content=b"{", headers={"Content-Type": "application/json"})

    told = missing.json()
    assert (missing.status_code, missing.headers["content-type"]) == (404, "application/problem+json")
    assert (told["type"], told["status"], told["code"]) == ("urn:rowen:problem:not_found", 404, "not_found")
    assert "nobody" in told["detail"]
    assert "GET /api/v1/sources" in told["hint"]
    assert [one["where"] for one in wrong.json()["errors"]] == ["body.address", "body.adress"]
    assert [answer.status_code for answer in (wrong, method, broken)] == [400, 405, 400]


async def test_a_source_is_changed_paused_resumed_and_removed(database: ScratchDatabase, folder: Path) -> None:
    async with interface(database) as it:
        await it.rowen.sources.add(str(folder), name="notes")
        changed = await it.http.patch("/api/v1/sources/notes", json={"name": "hay", "every": "6h"})
        paused = await it.http.post("/api/v1/sources/hay/pause")
        resumed = await it.http.post("/api/v1/sources/hay/resume")
        removed = await it.http.delete("/api/v1/sources/hay")
        left = await it.http.get("/api/v1/sources")

    assert (changed.json()["name"], changed.json()["schedule"]) == ("hay", "every 6h")
    assert (paused.json()["state"], resumed.json()["state"]) == ("paused", "active")
    assert (removed.json(), left.json()["items"]) == ({"source": "hay", "removed": 0}, [])


async def test_sources_are_declared_at_once_after_a_look_at_what_that_changes(
    database: ScratchDatabase, folder: Path
) -> None:
    entry = {"name": "notes", "kind": "files", "url": str(folder), "every": "6h"}
    toml = f'[[source]]\nname = "hay"\nkind = "files"\nurl = "{folder}"\n'
    as_toml = {"Content-Type": "application/toml"}
    async with interface(database) as it:
        planned = await it.http.post("/api/v1/apply?dry_run=true", json={"source": [entry]})
        none = await it.http.get("/api/v1/sources")
        applied = await it.http.post("/api/v1/apply", json={"source": [entry]})
        renamed = await it.http.post("/api/v1/apply?prune=true", content=toml, headers=as_toml)
        left = (await it.http.get("/api/v1/sources")).json()["items"]
        wrong = await it.http.post("/api/v1/apply", json={"source": [{"name": "x", "kind": "nothing", "url": "x:y"}]})
        unknown = await it.http.post("/api/v1/apply", json={"sources": []})
        broken = await it.http.post("/api/v1/apply", content=b"[[", headers=as_toml)
        seen = await it.http.post("/api/v1/preview", json={"address": str(folder), "limit": 2})

    assert [one["action"] for one in planned.json()["items"]] == ["added"]
    assert (none.json()["items"], applied.json()) == ([], planned.json())
    assert [(one["action"], set(one["changes"])) for one in renamed.json()["items"]] == [
        ("changed", {"name", "schedule"})
    ]
    assert [(one["name"], one["schedule"]) for one in left] == [("hay", None)]
    assert [answer.status_code for answer in (wrong, unknown, broken)] == [400] * 3
    assert "entry 1 (x)" in wrong.json()["detail"]
    assert (seen.json()["kept_as"], len(seen.json()["items"]), seen.json()["more"]) == ("hay", 2, True)


async def test_items_of_a_source_are_listed_page_by_page_and_narrowed(database: ScratchDatabase, folder: Path) -> None:
    async with interface(database) as it:
        await it.rowen.sources.add(str(folder), name="notes")
        await it.rowen.sync("notes")
        first = await it.http.get("/api/v1/sources/notes/items", params={"limit": 2})
        second = await it.http.get(first.links["next"]["url"])
        below = await it.http.get("/api/v1/sources/notes/items", params={"path": (folder / "oats").as_uri()})
        none = await it.http.get("/api/v1/sources/notes/items", params={"tag": "nobody"})
        other = await it.http.get("/api/v1/sources/notes/items", params={"after": first.json()["next"], "tag": "hay"})
        missing = await it.http.get("/api/v1/sources/nobody/items")
        newest = await it.http.get("/api/v1/changes/newest", params={"kind": "created", "query": "fungus"})

    assert [one["title"] for one in first.json()["items"] + second.json()["items"]] == ["Hay", "Oats", "Rust"]
    assert ([one["title"] for one in below.json()["items"]], none.json()["items"]) == (["Oats"], [])
    assert (second.json()["next"], other.status_code, missing.status_code) == (None, 400, 404)
    assert [one["title"] for one in newest.json()["items"]] == ["Rust"]


async def test_held_deletions_are_shown_and_decided_one_by_one(database: ScratchDatabase, folder: Path) -> None:
    async with interface(database) as it:
        await it.rowen.sources.add(str(folder), name="notes")
        await it.rowen.sync("notes")
        for path in folder.iterdir():
            path.unlink()
        (folder / "new.md").write_text("# New")
        await it.rowen.sync("notes")
        held = (await it.http.get("/api/v1/sources/notes/held")).json()["items"]
        urls = [one["url"] for one in held]
        kept = await it.http.post("/api/v1/sources/notes/held/keep", json={"urls": urls[:1]})
        gone = await it.http.post("/api/v1/sources/notes/held/accept", json={"urls": urls[1:]})
        wrong = await it.http.post("/api/v1/sources/notes/held/accept", json={"urls": ["file:///nothing"]})
        left = (await it.http.get("/api/v1/held")).json()["items"]

    assert (len(urls), kept.json()["kept"], gone.json()["accepted"], wrong.status_code) == (3, 1, 2, 404)
    assert [one["url"] for one in left] == urls[:1]


async def test_a_feed_can_be_narrowed_to_kinds_of_changes_and_to_a_field(
    database: ScratchDatabase, folder: Path
) -> None:
    async with interface(database) as it:
        await it.rowen.sources.add(str(folder), name="notes")
        await it.rowen.sync("notes")
        paths = (
            "/feeds/json?kind=created&kind=updated",
            "/sources/notes/feeds/json?kind=deleted",
            "/feeds/json?field=x",
        )
        counts = [len((await it.http.get(path)).json()["items"]) for path in paths]
        wrong = await it.http.get("/feeds/atom?kind=eaten")

    assert counts[0] > 0
    assert counts[1:] == [0, 0]
    assert wrong.status_code in (400, 422)


async def test_feeds_and_streams_stand_at_the_addresses_that_they_name(database: ScratchDatabase, folder: Path) -> None:
    async with interface(database, public_url="http://127.0.0.1:8400") as it:
        await it.rowen.sources.add(str(folder), name="notes")
        await it.rowen.sync("notes")
        atom = await it.http.get("/sources/notes/feeds/atom")
        tree = ET.fromstring(atom.text)
        links = [
            one.get("href") or "" for one in tree.iter("{http://www.w3.org/2005/Atom}link") if one.get("rel") == "self"
        ]
        feed = await it.http.get(links[0])
        as_json = await it.http.get("/feeds/json", params={"query": "fungus"})
        root = await it.http.get("/ldes")
        block = await it.http.get("/ldes/blocks/0")
        page = await it.http.get("/sources/notes/ldes/pages/0")
        line = await it.http.get("/changes/1")
        twin = await it.http.get("/changes/1.json")
        page_of_line = await it.http.get("/changes/1", headers={"Accept": "text/html,*/*"})
        catalog = await it.http.get("/catalog/data.json")
        nothing = await it.http.get("/sources/nobody/feeds/atom")

    assert (atom.headers["content-type"].split(";")[0], feed.status_code) == ("application/atom+xml", 200)
    assert [entry["title"] for entry in as_json.json()["items"]] == ["Rust"]
    assert all("text/turtle" in answer.headers["content-type"] for answer in (root, block, page))
    assert "/changes/1" in page.text
    # The route for programs leaves browsers alone.
    assert page_of_line.headers["content-type"] != "application/json"
    assert twin.status_code != 400
    assert (line.json()["number"], catalog.json()["dataset"], nothing.status_code) == (1, [], 404)


async def test_who_may_only_read_gets_no_contact_details(database: ScratchDatabase) -> None:
    record = {"title": "Hay", "maintainer_email": "ada@example.org", "contact": [{"hasEmail": "x@y.z", "fn": "Ada"}]}
    async with interface(database, trusts_loopback=False) as it:
        database.execute(
            "insert into source (name, kind, url) values ('a', 'files', 'file:///a');"
            "insert into item (source_id, key, url, title, text, tags, record, content_hash, record_hash, chunker)"
            " select id, sha256('https://example.org/hay'::bytea), 'https://example.org/hay', 'Hay', 'Hay', '{}',"
            f" '{json.dumps(record)}', '\\x00', '\\x00', 1 from source;"
            "insert into superseded_record (item_id, record, at)"
            " select id, jsonb_set(record, '{contact,0,hasEmail}', '\"old@y.z\"'), now() from item"
        )
        asked = {"url": "https://example.org/hay"}
        changed = [
            (await it.http.get("/api/v1/items/field-diff", params=asked, headers=await it.token(scope, f"{scope}2")))
            for scope in ("read", "write")
        ]
        seen = [
            (await it.http.get("/api/v1/items", params=asked, headers=await it.token(scope))).json()["record"]
            for scope in ("read", "write")
        ]

    hidden = {"title": "Hay", "maintainer_email": "(hidden)", "contact": [{"hasEmail": "(hidden)", "fn": "(hidden)"}]}
    assert seen == [hidden, record]
    told = [[(one["before"], one["after"]) for one in answer.json()["fields"]] for answer in changed]
    assert told[0] == [("(hidden)", "(hidden)")] * len(told[0])
    assert ("old@y.z", "x@y.z") in told[1] or any("old@y.z" in str(pair) for pair in told[1])


async def test_saved_searches_webhooks_and_schemas_are_kept(
    database: ScratchDatabase, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "x" * 32)
    async with interface(database) as it:
        await it.rowen.sources.add(str(folder), name="notes")
        await it.http.post("/api/v1/saved-searches", json={"name": "dry hay", "query": "dry hay"})
        (folder / "new.md").write_text("# New\n\nDry hay.")
        await it.rowen.sync("notes")
        news = await it.http.get("/api/v1/saved-searches/dry%20hay/news")
        hook = {"name": "ci", "url": "https://ci.example/hook", "secret": "env:HOOK_SECRET", "sources": ["notes"]}
        added = await it.http.post("/api/v1/webhooks", json=hook)
        paused = await it.http.post("/api/v1/webhooks/ci/pause")
        calls = await it.http.get("/api/v1/webhooks/ci/deliveries")
        schema = {"ref": "farm@1.0.0", "definition": {"type": "object", "properties": {"acres": {"type": "number"}}}}
        kept = await it.http.post("/api/v1/schemas", json=schema)
        carried = await it.http.put("/api/v1/sources/notes/schemas/farm", json={"conditions": ["acres>3"]})
        none = await it.http.get("/api/v1/extractions", params={"schema": "farm"})
        in_use = await it.http.delete("/api/v1/schemas/farm@1.0.0")
        gone = await it.http.delete("/api/v1/schemas/farm@1.0.0", params={"with_facts": True})

    assert [one["title"] for one in news.json()["items"]] == ["New"]
    assert (added.status_code, added.json()["waiting"], paused.json()["state"]) == (201, 0, "paused")
    assert (calls.json()["items"], kept.headers["location"]) == ([], "/api/v1/schemas/farm@1.0.0")
    assert (carried.json()["schema"], none.json()["items"]) == ("farm@1.0.0", [])
    assert (in_use.status_code, gone.json()["sources"]) == (403, ["notes"])


async def test_exports_are_streamed(database: ScratchDatabase, folder: Path) -> None:
    async with interface(database) as it:
        await it.rowen.sources.add(str(folder), name="notes")
        await it.rowen.sync("notes")
        lines = await it.http.get("/api/v1/exports/items.jsonl", params={"source": "notes"})
        array = await it.http.get("/api/v1/exports/items.json", params={"limit": 2})
        table = await it.http.get("/api/v1/exports/items.csv", params={"limit": 1})
        packed = await it.http.get("/api/v1/exports/csv", params={"since": 0})
        unknown = await it.http.get("/api/v1/exports/items.jsonl", params={"source": "nobody"})
    with tarfile.open(fileobj=io.BytesIO(packed.content)) as archive:
        names = set(archive.getnames())
        manifest = archive.extractfile("rowen-csv/manifest.json")
        assert manifest is not None
        told = json.load(manifest)

    assert sorted(json.loads(line)["title"] for line in lines.text.splitlines()) == ["Hay", "Oats", "Rust"]
    assert (len(array.json()), len(table.text.splitlines()) > 1, table.headers["content-type"]) == (
        *(2, True, "text/csv; charset=utf-8"),
    )
    assert ({"rowen-csv/notes.csv", "rowen-csv/changelog.md"} <= names, told["items"]) == (True, 3)
    assert unknown.status_code == 404


async def test_a_signed_call_needs_no_token_and_an_unsigned_one_achieves_nothing(
    database: ScratchDatabase, folder: Path
) -> None:
    key = "k" * 24
    async with interface(database, trusts_loopback=False, push_key=key, public_url="http://127.0.0.1:8400") as it:
        await it.rowen.sources.add(str(folder), name="notes")
        [access] = await it.rowen.push.access("notes")
        body, at = json.dumps({"urls": []}).encode(), str(int(datetime.now(UTC).timestamp()))
        signed = webhook_signature(access.secret, delivery="d1", timestamp=at, body=body)
        headers = {"webhook-id": "d1", "webhook-timestamp": at, "webhook-signature": signed}
        taken = await it.http.post(str(access.url), content=body, headers=headers)
        forged = await it.http.post(str(access.url), content=body, headers={**headers, "webhook-signature": "v1,x"})
        strange = await it.http.get("/push/websub/guess?hub.challenge=<script>")
        [job] = await it.rowen.queue.list()

    assert (taken.status_code, taken.text, forged.status_code, forged.text) == (202, "taken", 401, "refused")
    assert (strange.status_code, strange.headers["content-type"]) == (404, "text/plain; charset=utf-8")
    assert job.source == "notes"


async def test_probes_and_numbers_are_read_from_the_database(database: ScratchDatabase, folder: Path) -> None:
    async with interface(database) as it:
        await it.rowen.sources.add(str(folder), name='no"tes')
        await it.rowen.sync('no"tes')
        alive, ready = await it.http.get("/healthz"), await it.http.get("/readyz")
        numbers = (await it.http.get("/metrics")).text
        stats: dict[str, Any] = (await it.http.get("/api/v1/stats")).json()

    assert (alive.json(), ready.json()) == ({"status": "alive"}, {"status": "ready"})
    assert 'rowen_source_items{source="no\\"tes",kind="files"} 3' in numbers
    assert "rowen_changes_total 3" in numbers
    assert (stats["items"], stats["by_kind"], stats["last_change"]) == (3, {"files": 1}, 3)


async def test_a_server_whose_database_is_gone_lives_and_is_not_ready(database: ScratchDatabase) -> None:
    async with interface(database) as it:
        await it.rowen._engine.database.close()
        alive, ready = await it.http.get("/healthz"), await it.http.get("/readyz")

    assert (alive.status_code, ready.status_code, ready.json()["code"]) == (200, 503, "store_unavailable")


async def test_a_source_is_extracted_within_a_budget_and_again_whole(database: ScratchDatabase, folder: Path) -> None:
    product = '{"@context": "https://schema.org", "@type": "Product", "name": "Rake"}'
    (folder / "rake.html").write_text(f'<script type="application/ld+json">{product}</script><h1>Rake</h1>')
    tool = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    path = "/api/v1/sources/notes/extract"
    async with interface(database) as it:
        await it.rowen.sources.add(str(folder), name="notes")
        await it.rowen.schemas.add("tool@1.0.0", tool)
        await it.rowen.extraction.attach("notes", "tool", only_urls=["*.html"])
        await it.rowen.sync("notes")
        await it.http.put("/api/v1/sources/notes/schemas/tool@1.0.0", json={"grounding": "off"})
        await work(it.rowen)
        dry = await it.http.post(path, json={"dry_run": True, "all": True})
        begun = await it.http.post(path, json={"schema": "tool@1", "all": True, "force": True, "budget_tokens": 10})
        busy = await it.http.post(path)
        await work(it.rowen)
        job = await it.http.get(begun.headers["location"])
        facts = await it.http.get("/api/v1/extractions", params={"schema": "tool"})
        unknown = await it.http.post(path, json={"schema": "lamp@1"})
        wrong = await it.http.post(path, json={"budget": "2usd"})

    assert (dry.status_code, [one["schema"] for one in dry.json()["items"]]) == (200, ["tool@1.0.0"])
    assert (begun.status_code, busy.status_code, job.json()["state"]) == (202, 409, "done")
    assert job.json()["arguments"]["order"] == {"force": True, "budget_tokens": 10}
    assert [one["data"] for one in facts.json()["items"]] == [{"name": "Rake"}]
    assert (unknown.status_code, wrong.status_code) == (404, 400)


async def test_what_is_known_beside_an_item_and_a_run_can_be_read(database: ScratchDatabase, folder: Path) -> None:
    (folder / "broken.pdf").write_bytes(b"no PDF")
    async with interface(database) as it:
        await it.rowen.sources.add(str(folder), name="notes@1.2.0")
        run = await it.rowen.sync("notes@1.2.0")
        detail = await it.http.get("/api/v1/items/detail", params={"url": (folder / "hay.md").as_uri()})
        troubles = await it.http.get(f"/api/v1/runs/{run.id}/troubles")
        savings = await it.http.get("/api/v1/savings", params={"since": "1d"})
        never = await it.http.get("/api/v1/savings", params={"since": "7"})
        before_time = await it.http.get("/api/v1/savings", params={"since": "900000d"})
        version = await it.http.get("/api/v1/versions", params={"library": "notes", "version": "1.x"})
        none = await it.http.get("/api/v1/following")
        home = await it.http.get("/api/v1/items", params={"url": "~nobody/hay.md"})
        proxied = await it.http.post(
            "/api/v1/extractions", json={"url": "http://203.0.113.9/", "schema": "product@1", "proxy": "ftp://x"}
        )

    assert [one["text"] for one in detail.json()["passages"]] == ["# Hay\n\nCut it wet."]
    assert [one["items"] for one in troubles.json()["items"]] == [1]
    assert (savings.json()["runs"], savings.json()["rungs"]["paid"], never.status_code) == (1, 3, 400)
    assert before_time.status_code == 400
    assert (version.json()["source"], version.json()["version"]) == ("notes@1.2.0", "1.2.0")
    assert (none.json(), home.status_code) == ({"items": []}, 404)
    assert (proxied.status_code, "valid proxy" in proxied.json()["detail"]) == (400, True)
