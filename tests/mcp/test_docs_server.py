"""The names and arguments of a well-known documentation server, so that nobody has to change a prompt."""

import asyncio
import json
from collections.abc import Iterator

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from tests.mcp.conftest import asking, text_of
from tests.portals.site import Page, Site

READING = {
    "search_docs": {"library", "version", "query", "limit"},
    "list_libraries": set(),
    "find_version": {"library", "targetVersion"},
    "fetch_url": {"url", "followRedirects"},
}
WRITING = {
    "scrape_docs": {
        *("url", "library", "version", "maxPages", "maxDepth", "scope", "followRedirects", "preserveHashes"),
    },
    "refresh_version": {"library", "version"},
    "list_jobs": {"status"},
    "get_job_info": {"jobId"},
    "cancel_job": {"jobId"},
    "remove_docs": {"library", "version"},
}


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    made.put("/docs/", "Barn", "Version two: hay is kept in the barn.", links=("/docs/a", "/docs/b"))
    made.put("/docs/a", "Interfaces", "Barn doors open outwards.")
    made.put("/docs/b", "Lofts", "Lofts are dry.")
    made.pages["/old"] = Page(status=302, headers={"Location": "/docs/a"})
    yield made
    made.close()


async def takes(assistant: Client) -> dict[str, set[str]]:
    return {tool.name: set(tool.input_schema.get("properties", ())) for tool in (await assistant.list_tools()).tools}


async def test_the_names_and_arguments_are_those_that_prompts_use(database):
    async with database.open() as rowen:
        async with asking(rowen, profile="docs-server") as reader:
            read = await takes(reader)
        async with asking(rowen, profile="docs-server", allow_writes=True) as writer:
            every = await takes(writer)

    assert read == READING
    assert every == READING | WRITING


async def test_documentation_is_scraped_searched_by_version_refreshed_and_removed(database, site):
    async with database.open() as rowen, asking(rowen, profile="docs-server", allow_writes=True) as assistant:

        async def ask(name: str, **arguments: object) -> dict:
            answer = await assistant.call_tool(name, arguments)
            return {**answer.structured_content, "text": text_of(answer), "failed": answer.is_error}

        for version in ("1.4.0", "2.1.0"):
            given = {"url": f"{site.url}/docs/", "library": "barn", "version": version, "maxPages": 2}
            began = await ask("scrape_docs", **given, scope="hostname")
            async with asyncio.timeout(20):
                while (await rowen.sources.get(f"barn@{version}")).items < 2:
                    await asyncio.sleep(0.01)
        listed = await ask("list_libraries")
        found = await ask("search_docs", library="barn", version="2.x", query="doors open")
        earlier = await ask("search_docs", library="barn", version="1.9.0", query="interfaces")
        missing = await ask("search_docs", library="barn", version="0.3", query="interfaces")
        best = await ask("find_version", library="barn", targetVersion="1.x")
        again = await ask("refresh_version", library="barn", version="2.1.0")
        jobs = await ask("list_jobs", status="running")
        removed = await ask("remove_docs", library="barn", version="1.4.0")
        source = await rowen.sources.get("barn@2.1.0")

    assert began["status"] == "running"
    assert [(one["name"], one["versions"]) for one in listed["libraries"]] == [("barn", ["1.4.0", "2.1.0"])]
    assert {one["source"] for one in found["results"]} == {"barn@2.1.0"}
    assert {one["source"] for one in earlier["results"]} == {"barn@1.4.0"}
    assert (missing["code"], "1.4.0, 2.1.0" in missing["text"]) == ("not_found", True)
    assert best["version"] == "1.4.0"
    assert again["source"] == "barn@2.1.0"
    assert jobs["jobs"] == []
    assert removed["removed"] == 2
    assert (source.options["max_pages"], source.options["scope"]) == (2, "host")


async def test_any_page_is_read_now_and_nothing_is_kept_of_it(database, site):
    async with database.open() as rowen, asking(rowen, profile="docs-server") as assistant:
        read = await assistant.call_tool("fetch_url", {"url": f"{site.url}/old"})
        strict = await assistant.call_tool("fetch_url", {"url": f"{site.url}/old", "followRedirects": False})
        local = await assistant.call_tool("fetch_url", {"url": "file:///etc/hosts"})
    async with database.open(allow_addresses="") as rowen, asking(rowen, profile="docs-server") as assistant:
        private = await assistant.call_tool("fetch_url", {"url": f"{site.url}/docs/"})

    assert "Barn doors open outwards." in read.structured_content["text"]
    assert [answer.structured_content["code"] for answer in (strict, local, private)] == [
        "refused",
        "refused",
        "address_refused",
    ]
    assert database.query("select count(*) from item") == [(0,)]


async def test_libraries_versions_and_jobs_are_resources_at_the_addresses_that_clients_have(database, tmp_path):
    async with database.open() as rowen:
        for version in ("1.4.0", "2.1.0"):
            await rowen.sources.add(str(tmp_path), name=f"barn@{version}")
        job = await rowen.queue.enqueue("barn@2.1.0")

        async def read(assistant: Client, uri: str) -> dict:
            [contents] = (await assistant.read_resource(uri)).contents
            return json.loads(contents.text)

        async with asking(rowen, profile="docs-server", allow_writes=True) as writer:
            listed = [str(one.uri) for one in (await writer.list_resources()).resources]
            templates = [one.uri_template for one in (await writer.list_resource_templates()).resource_templates]
            libraries = await read(writer, "docs://libraries")
            versions = await read(writer, "docs://libraries/barn/versions")
            jobs = await read(writer, "docs://jobs")
            one = await read(writer, f"docs://jobs/{job.id}")
            refused = []
            for uri in ("docs://libraries/shed/versions", "docs://jobs/x", "docs://nothing"):
                with pytest.raises(MCPError, match="no resource"):
                    await read(writer, uri)
                refused.append(uri)
        async with asking(rowen, profile="docs-server") as reader:
            seen = [str(one.uri) for one in (await reader.list_resources()).resources]
            with pytest.raises(MCPError, match="no resource"):
                await read(reader, "docs://jobs")
        async with asking(rowen) as other:
            plain = [str(one.uri) for one in (await other.list_resources()).resources]

    assert listed[:3] == ["docs://libraries", "docs://jobs", "rowen://sources"]
    assert {"docs://libraries/{library}/versions", "docs://jobs/{jobId}"} <= set(templates)
    assert [one["name"] for one in libraries["libraries"]] == ["barn"]
    assert versions == {"library": "barn", "versions": ["1.4.0", "2.1.0"]}
    assert ([one["id"] for one in jobs["jobs"]], one["jobs"][0]["status"]) == ([str(job.id)], "queued")
    assert (len(refused), "docs://jobs" in seen, seen[0]) == (3, False, "docs://libraries")
    assert not any(uri.startswith("docs:") for uri in plain)


@pytest.mark.parametrize("profile", ["rowen", "docs-server"])
@pytest.mark.parametrize("uri", ["http://[::1", "docs://[", "rowen://[", f"rowen://diffs/x?older={'9' * 5_000}"])
async def test_an_address_that_no_parser_reads_is_no_resource(database, profile, uri):
    async with database.open() as rowen, asking(rowen, profile=profile) as assistant:
        with pytest.raises(MCPError) as problem:
            await assistant.read_resource(uri)

    assert problem.value.error.code != INTERNAL_ERROR


async def test_a_library_without_a_name_is_refused_as_such(database):
    async with database.open() as rowen, asking(rowen, profile="docs-server") as assistant:
        answer = await assistant.call_tool("find_version", {"library": ""})

    assert (answer.is_error, answer.structured_content["code"]) == (True, "usage")
