"""What forms do: each deed asks the service, leads on to where its outcome is seen, and says what it will do."""

import asyncio
import base64
import re
from pathlib import Path
from urllib.parse import quote

import pytest

from rowen.model.access import Scope
from tests.conftest import ScratchDatabase
from tests.web.world import sell, served, sites

PLAIN = {"sitemap": False, "llms": False}


async def test_a_preview_stores_nothing_and_adding_queues_a_sync(database: ScratchDatabase) -> None:
    with sites() as there:
        url = there["valley"].url
        async with database.open(probe=True) as rowen, served(rowen) as interface:
            preview = (await interface.get(f"/add.json?address={quote(url)}")).json()["preview"]
            looked = database.query("select (select count(*) from source), (select count(*) from run)")
            kept = await interface.post("/add", address=url, name="valley", kind="ckan", every="6h")
            job = (await interface.get(f"{kept.headers['Location']}.json")).json()["job"]
            waiting = await interface.get(kept.headers["Location"])
            source = await rowen.sources.get("valley")
            again = (await interface.get(f"/add.json?address={quote(url)}")).json()["preview"]

    assert (preview["kind"], len(preview["items"]), preview["more"]) == ("ckan", 5, True)
    assert preview["items"][0]["title"] == "Soil samples of field 0"
    assert looked == [(0, 0)]
    assert (kept.status, job["task"], job["source"], job["state"]) == (303, "sync", "valley", "waiting")
    assert "No worker is running" in waiting.text
    assert (source.kind, source.schedule) == ("ckan", "every 6h")
    assert again["kept_as"] == "valley"


async def test_a_preview_of_an_unreadable_address_shows_the_error(database: ScratchDatabase) -> None:
    async with database.open() as rowen, served(rowen) as interface:
        down = (await interface.get("/add.json?address=http%3A%2F%2F127.0.0.1%3A9%2F")).json()
        nonsense = await interface.get("/add?address=%3F%3F%3F")
        secret = await interface.get("/add?address=" + quote("https://user:hunter2@example.org/"))

    assert "could not be read" in down["preview"]["trouble"]
    assert "No kind of source recognises" in nonsense.text
    assert "which would be stored in clear" in secret.text


async def test_the_page_of_a_queued_sync_redirects_to_its_run(database: ScratchDatabase) -> None:
    with sites() as there:
        async with database.open() as rowen, served(rowen) as interface:
            await rowen.sources.add(there["docs"].url + "/", name="docs", options=PLAIN)
            queued = await interface.post("/sources/docs/sync")
            working = asyncio.create_task(rowen.queue.work(until_idle=True))
            await asyncio.wait_for(working, 30)
            plain = await interface.get(queued.headers["Location"])
            polled = await interface.get(queued.headers["Location"], **{"HX-Request": "true"})
            run = await interface.get(plain.headers["Location"])

    assert (plain.status, plain.headers["Location"]) == (303, "/runs/1")
    assert (polled.status, polled.headers["HX-Redirect"]) == (204, "/runs/1")
    assert "completed" in run.text
    assert "data-live" not in run.text


async def test_a_source_is_edited_paused_resumed_and_removed_with_numbers(database: ScratchDatabase) -> None:
    with sites() as there:
        async with database.open() as rowen, served(rowen) as interface:
            await rowen.sources.add(there["docs"].url + "/", name="docs", options={**PLAIN, "max_pages": 3}, every="6h")
            await rowen.sync("docs")
            told = 'sitemap=false\nllms=false\nheaders={"X-Who": "us"}\nlanguage=en'
            edited = await interface.post("/sources/docs/edit", name="handbook", cron="0 3 * * *", options=told)
            source = await rowen.sources.get("handbook")
            wrong = await interface.post("/sources/handbook/edit", name="handbook", every="soon", options="")
            await interface.post("/sources/handbook/pause")
            paused = await rowen.sources.get("handbook")
            page = await interface.get("/sources/handbook")
            await interface.post("/sources/handbook/resume")
            asked = await interface.get("/sources/handbook/remove")
            removed = await interface.post("/sources/handbook/remove")
            left = await rowen.sources.list()

    assert edited.headers["Location"] == "/sources/handbook?tab=settings"
    assert source.schedule == "cron 0 3 * * *"
    assert dict(source.options) == {**PLAIN, "headers": {"X-Who": "us"}, "language": "en"}
    assert wrong.status == 400
    assert "is not a length of time" in wrong.text
    assert paused.state == "paused"
    assert ">Resume</button>" in page.text
    assert "<strong>3 items</strong>" in asked.text
    assert (removed.status, list(left)) == (303, [])


async def test_pending_deletions_are_kept_or_accepted_one_by_one(database: ScratchDatabase) -> None:
    with sites() as there:
        docs = there["docs"]
        async with database.open() as rowen, served(rowen) as interface:
            await rowen.sources.add(docs.url + "/", name="docs", options=PLAIN)
            await rowen.sync("docs")
            docs.put("/", "Handbook", "All.", links=("/p0",))
            await rowen.sync("docs")
            kept = await interface.post("/held", source="docs", url=f"{docs.url}/p5", decision="keep")
            gone = await interface.post("/held", source="docs", url=f"{docs.url}/p6", decision="accept")
            nothing = await interface.post("/held", source="docs", decision="accept")
            odd = await interface.post("/held", source="docs", url=f"{docs.url}/p7", decision="perhaps")
            held = {deletion.url.rpartition("/")[2]: deletion for deletion in await rowen.deletions.list("docs")}
            copy = await interface.get(f"/item?url={quote(docs.url + '/p6')}")

    assert (kept.status, gone.status, nothing.status, odd.status) == (303, 303, 400, 400)
    assert held["p5"].kept_at is not None
    assert "p6" not in held
    assert len(held) == 22
    assert "this is its last copy" in copy.text


async def test_a_schema_is_attached_and_detached(database: ScratchDatabase) -> None:
    with sites() as there:
        shop = there["shop"]
        async with database.open() as rowen, served(rowen) as interface:
            await rowen.sources.add(shop.url + "/1", name="shop", options={**PLAIN, "max_pages": 1})
            carried = await interface.post(
                "/extractions/carry", source="shop", schema="product@1.0.0", condition="price<5"
            )
            await rowen.sync("shop")
            sell(shop, 1, 6.5)
            await rowen.sync("shop")
            page = await interface.get("/extractions")
            dropped = await interface.post("/extractions/drop", source="shop", schema="product@1.0.0")
            left = await rowen.extraction.list_attached()

    assert (carried.status, dropped.status, left) == (303, 303, [])
    assert 'aria-label="from 4.5 to 6.5 in 2 versions"' in page.text


async def test_a_webhook_is_added_paused_replayed_and_removed(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "whsec_" + base64.b64encode(b"s" * 24).decode())
    async with database.open() as rowen, served(rowen) as interface:
        clear = await interface.post("/webhooks", name="ours", url="https://example.org/h", secret="hunter2" * 5)
        added = await interface.post(
            "/webhooks", name="ours", url="https://example.org/h", secret="env:HOOK_SECRET", kind="created"
        )
        await interface.post("/webhooks/ours/state", state="paused")
        paused = (await interface.get("/webhooks/ours.json")).json()["webhook"]
        replayed = await interface.post("/webhooks/ours/replay", since="0")
        page = await interface.get("/webhooks/ours")
        await interface.post("/webhooks/ours/remove")
        left = await rowen.webhooks.list()

    assert (clear.status, added.status, replayed.status) == (400, 303, 303)
    assert "hunter2" not in clear.text
    assert (paused["state"], paused["kinds"]) == ("paused", ["created"])
    assert "There were no deliveries yet" in page.text
    assert left == []


async def test_a_token_is_created_shown_once_and_revoked(database: ScratchDatabase) -> None:
    async with database.open() as rowen, served(rowen) as interface:
        empty = await interface.get("/tokens")
        made = await interface.post("/tokens", name="dashboard", scope="write", days="30")
        [secret] = re.findall(r">(rowen_[^<]+)</textarea>", made.text)
        principal = await rowen.access.identify(secret)
        [held] = await rowen.access.list_tokens()
        twice = await interface.post("/tokens", name="dashboard", scope="read", days="30")
        odd = [
            await interface.post("/tokens", name=name, scope=scope, days=days)
            for name, scope, days in (
                ("<b>", "read", "1"),
                ("x", "root", "1"),
                ("y", "read", "soon"),
                ("z", "read", ""),
            )
        ]
        later = [await interface.get(path) for path in ("/tokens", "/tokens.json", "/tokens/dashboard/revoke")]
        forever = await interface.post("/tokens", name="old", scope="read", days="0")
        revoked = await interface.post("/tokens/dashboard/revoke")
        gone = await interface.get("/tokens/dashboard/revoke")
        left = await rowen.access.list_tokens()
        unknown = await rowen.access.identify(secret)

    assert "There are no tokens yet" in empty.text
    assert (made.status, made.headers["Cache-Control"], "application/json" in made.text) == (201, "no-store", False)
    assert principal is not None
    assert (principal.name, principal.scope) == ("token:dashboard", "write")
    assert held.expires_at is not None
    assert (held.expires_at - held.created_at).days in (29, 30)
    assert [one.status for one in (twice, *odd)] == [403, 400, 400, 400, 400]
    assert "<b>" not in "".join(one.text for one in odd)
    assert all(secret not in one.text for one in (twice, *later))
    assert "until it is revoked" in forever.text
    assert (revoked.status, gone.status, [one.name for one in left], unknown) == (303, 404, ["old"], None)


async def test_a_search_is_saved_from_its_page_and_removed(database: ScratchDatabase) -> None:
    with sites() as there:
        docs = there["docs"]
        async with database.open() as rowen, served(rowen) as interface:
            await rowen.sources.add(docs.url + "/", name="docs", options={**PLAIN, "max_pages": 4})
            await rowen.sync("docs")
            nobody = await interface.get("/saved")
            offered = await interface.get("/search?q=dew+gone&source=docs")
            saved = await interface.post("/saved", name="dew &<i>?", query="dew gone", source="docs")
            before = await interface.get(saved.headers["Location"])
            docs.put("/p1", "Chapter 1", "Mow at noon.", links=())
            await rowen.sync("docs")
            news = (await interface.get(saved.headers["Location"] + ".json")).json()
            page = await interface.get(saved.headers["Location"])
            odd = [await interface.post("/saved", name=name, query=query) for name, query in (("x", "-"), ("", "hay"))]
            forgotten = await interface.post(saved.headers["Location"] + "/forget")
            missing = await interface.get(saved.headers["Location"])
            left = await rowen.searches.list()

    assert "There are no saved searches yet" in nobody.text
    assert '<input type="hidden" name="source" value="docs">' in offered.text
    assert "3 items matched when it was saved" in before.text
    assert [(one["kind"], one["title"]) for one in news["news"]] == [("no longer matches", "Chapter 1")]
    assert news["search"]["matches"] == 2
    assert "dew &amp;&lt;i&gt;?" in page.text
    assert [one.status for one in odd] == [400, 400]
    assert (forgotten.headers["Location"], missing.status, left) == ("/saved", 404, [])


async def test_a_writer_names_neither_folders_nor_secrets_of_the_server(
    database: ScratchDatabase, tmp_path: Path
) -> None:
    (tmp_path / "secret.md").write_text("# Secret\n\nNobody's business.")
    async with database.open() as rowen, served(rowen, Scope.WRITE) as interface:
        await rowen.sources.add("https://example.org/", name="docs", kind="web")
        looked = [await interface.get(f"/add?address={quote(one)}") for one in (str(tmp_path), f"file://{tmp_path}")]
        hidden = await interface.get(f"/add?kind=files&address={quote('https://../../../../../../..' + str(tmp_path))}")
        added = await interface.post("/add", address=str(tmp_path), name="mine", kind="files")
        edited = await interface.post("/sources/docs/edit", name="docs", options='headers={"X-Key": "env:HOME"}')
        left = await rowen.sources.list()

    assert all("is no address on the web" in one.text for one in looked)
    assert not any("Nobody" in one.text for one in (*looked, hidden))
    assert (added.status, edited.status) == (403, 403)
    assert [(one.name, dict(one.options)) for one in left] == [("docs", {})]


async def test_the_queue_is_paused_and_jobs_are_cancelled_and_tried_again(database: ScratchDatabase) -> None:
    with sites() as there:
        async with database.open() as rowen, served(rowen) as interface:
            await rowen.sources.add(there["docs"].url + "/", name="docs", options=PLAIN)
            await interface.post("/jobs/pause")
            job = await rowen.queue.enqueue("docs")
            paused = await interface.get("/jobs")
            await interface.post(f"/jobs/{job.id}/cancel")
            cancelled = await rowen.queue.get(job.id)
            again = await interface.post(f"/jobs/{job.id}/retry")
            await interface.post("/jobs/resume")
            depth = await rowen.queue.depth()

    assert "the queue is paused" in paused.text
    assert cancelled.state == "cancelled"
    assert again.headers["Location"] == f"/jobs/{job.id}"
    assert (depth.paused, depth.ready) == (False, 1)


async def test_an_empty_installation_leads_to_the_first_source(database: ScratchDatabase) -> None:
    async with database.open() as rowen, served(rowen) as interface:
        page = await interface.get("/")
        empty = {path: (await interface.get(path)).text for path in ("/changes", "/runs", "/sources", "/extractions")}

    assert "What should be kept fresh?" in page.text
    assert 'name="address"' in page.text
    assert all('class="empty"' in text for text in empty.values())
