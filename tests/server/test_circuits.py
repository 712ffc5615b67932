"""An open circuit, as each interface over HTTP and an assistant see it, and its reset."""

import asyncio

from tests.conftest import ScratchDatabase
from tests.mcp.conftest import asking
from tests.portals.site import Page, Site, html
from tests.server.interfaces import Interface, interface


async def listed(it: Interface) -> list[dict[str, object]]:
    items: list[dict[str, object]] = (await it.http.get("/api/v1/circuits")).json()["items"]
    return items


async def test_an_open_circuit_is_seen_by_all_interfaces_and_reset_by_an_administrator(
    database: ScratchDatabase,
) -> None:
    site = Site()
    site.pages["/"] = Page(html("Meadows", "Hay is mown in June."))
    host = site.url.removeprefix("http://")
    try:
        async with interface(database, cb_failure_threshold=2, cb_recovery_timeout_secs=250, fetch_tries=3) as it:
            await it.rowen.sources.add(f"{site.url}/", name="meadows", options={"sitemap": False, "llms": False})
            assert await listed(it) == []
            site.down = True
            await it.rowen.sync("meadows")
            async with asyncio.timeout(30):
                while not (found := await listed(it)):
                    await asyncio.sleep(0.02)

            [one] = found
            assert (one["kind"], one["name"], one["state"], one["failures"]) == ("host", host, "open", 2)
            numbers = (await it.http.get("/metrics")).text
            assert f'rowen_circuit_open_processes{{kind="host",name="{host}"}} 1' in numbers
            assert f'rowen_circuit_failures{{kind="host",name="{host}"}} 2' in numbers
            page = (await it.http.get("/health", headers={"Accept": "text/html"})).text
            assert "<h2>Circuits</h2>" in page
            assert host in page
            async with asking(it.rowen) as assistant:
                answer = await assistant.call_tool("list_sources", {})
            assert [(one["name"], one["state"]) for one in answer.structured_content["unreached"]] == [(host, "open")]
            assert f"Not called at the moment: host {host}" in answer.content[0].text

            where = f"/api/v1/circuits/{host}/reset"
            writer, admin = await it.token("write"), await it.token("admin")
            assert (await it.http.post(where, headers=writer)).status_code == 403
            assert (await listed(it))[0]["state"] == "open"
            reset = await it.http.post(where, headers=admin)
            assert [one["name"] for one in reset.json()["items"]] == [host]
            unknown = await it.http.post("/api/v1/circuits/nobody.example.org/reset", headers=admin)
            assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")

            # Its own process hears at once: the next sync calls the host again.
            site.down = False
            run = await it.rowen.sync("meadows")
            assert (run.status, run.stats.created) == ("completed", 1)
            async with asyncio.timeout(30):
                while await listed(it):
                    await asyncio.sleep(0.02)
    finally:
        site.close()


async def test_a_half_open_circuit_and_a_lost_row_are_published_again(database: ScratchDatabase) -> None:
    site = Site()
    site.pages["/"] = Page(html("Meadows", "Hay is mown in June."))
    try:
        async with interface(database, cb_failure_threshold=2, cb_recovery_timeout_secs=250, fetch_tries=3) as it:
            await it.rowen.sources.add(f"{site.url}/", name="meadows", options={"sitemap": False, "llms": False})
            site.down = True
            await it.rowen.sync("meadows")
            async with asyncio.timeout(30):
                while not await listed(it):
                    await asyncio.sleep(0.02)
                database.execute("update circuit set probe_at = now()")
                assert [one["state"] for one in await listed(it)] == ["half-open"]

                # A crash of the server empties the table; the process writes its circuit again.
                database.execute("truncate circuit")
                while [one["state"] for one in await listed(it)] != ["open"]:
                    await asyncio.sleep(0.02)
    finally:
        site.close()
