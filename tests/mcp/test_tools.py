"""What an assistant is told: passages with their addresses and their freshness, within its budget."""

from rowen import Complete, Fetched
from rowen.interfaces.mcp.answers import tokens
from rowen.operations.registry import signature_of
from tests.mcp.conftest import GOATS, HAY, asking, small_library, text_of
from tests.portals.scripted import page, shows

READING = {"search", "fetch", "list_sources", "list_changes", "get_diff", "get_extraction", "find_version"}
WRITING = {"add_source", "sync_source", "remove_source", "extract"}


async def test_the_tools_say_what_they_are_for_and_what_they_give(library):
    async with library() as rowen, asking(rowen) as reader, asking(rowen, allow_writes=True) as writer:
        read = {tool.name: tool for tool in (await reader.list_tools()).tools}
        written = {tool.name: tool for tool in (await writer.list_tools()).tools}

    assert set(read) == READING
    assert set(written) == READING | WRITING
    for tool in written.values():
        assert tool.description.startswith("Use this")
        assert tool.output_schema["type"] == tool.input_schema["type"] == "object"
        assert all("description" in field for field in tool.input_schema["properties"].values())
        assert tool.annotations.read_only_hint is (tool.name in READING)
    assert written["remove_source"].annotations.destructive_hint
    # All of them together are read with every conversation.
    assert sum(tokens(tool.model_dump_json(exclude_none=True)) for tool in read.values()) < 6_000


async def test_a_passage_is_found_with_the_address_to_cite_and_when_it_was_checked(library, database):
    async with library() as rowen, asking(rowen) as assistant:
        found = await assistant.call_tool("search", {"query": "how long does hay dry"})
        nothing = await assistant.call_tool("search", {"query": "zeppelin"})

    [first, *_] = found.structured_content["results"]
    [[checked]] = database.query("select max(updated_at) from item where url like '%/hay'")
    assert (first["id"], first["url"]) == ("https://example.org/hay", "https://example.org/hay#drying")
    assert (first["title"], first["heading"], first["source"]) == ("Hay", "Drying", "field")
    assert first["checked_at"].startswith(f"{checked:%Y-%m-%dT%H:%M:%S}")
    assert "<https://example.org/hay#drying> · field · checked just now" in text_of(found)
    assert "three days" in text_of(found)
    assert nothing.structured_content["results"] == []
    assert "Nothing was found" in text_of(nothing)


async def test_an_answer_stays_within_its_budget(library):
    prose = "\n\n".join(f"Hay number {n} dries slowly, since the valley is damp: {'ja ' * n}." for n in range(150))
    async with library() as rowen:
        shows(*(Fetched(page(n, f"# Hay {n}\n\n{prose}", title=f"Hay “{n}” ⟨漢字⟩")) for n in range(12)), Complete())
        await rowen.sync("field")
        async with asking(rowen) as assistant:
            usual = await assistant.call_tool("search", {"query": "hay dries"})
            small = await assistant.call_tool("search", {"query": "hay dries", "budget": 500})
            large = await assistant.call_tool("search", {"query": "hay dries", "budget": 6000, "limit": 12})
            text = await assistant.call_tool("fetch", {"id": "https://example.org/3"})
            log = await assistant.call_tool("list_changes", {"limit": 500, "budget": 300})
            diff = await assistant.call_tool("get_diff", {"id": "https://example.org/3", "budget": 400})

    for answer, most in ((usual, 2000), (small, 500), (large, 6000), (text, 2000), (log, 300), (diff, 400)):
        assert tokens(text_of(answer)) <= most
        assert len(str(answer.structured_content)) <= 4 * most
    assert len(usual.structured_content["results"]) >= 3
    assert tokens(text_of(usual)) > 1000
    assert tokens(text_of(large)) > tokens(text_of(usual))
    assert log.structured_content["next"]
    assert diff.structured_content["truncated"]


async def test_a_long_text_is_read_in_parts_or_from_the_words_that_are_wanted(library):
    text = "\n\n".join(f"Paragraph {n} speaks of nothing in particular." for n in range(300))
    text = text.replace("Paragraph 217 speaks of nothing", "Paragraph 217 speaks of zeppelins, and nothing")
    async with library() as rowen:
        shows(Fetched(page("long", text)), Complete())
        await rowen.sync("field", accept_deletions=True)
        async with asking(rowen) as assistant:
            parts, offset = [], 0
            while offset is not None:
                asked = {"id": "https://example.org/long", "offset": offset}
                answer = (await assistant.call_tool("fetch", asked)).structured_content
                parts.append(answer["text"])
                offset = answer["next_offset"]
            focused = await assistant.call_tool(
                "fetch", {"id": "https://example.org/long", "focus": "zeppelins", "budget": 400}
            )

    assert len(parts) > 1
    assert "".join(parts) == text
    assert "zeppelins" in focused.structured_content["text"]
    assert focused.structured_content["offset"] > 0


async def test_what_changed_is_told_with_the_number_to_ask_from_next_time(library):
    async with library() as rowen, asking(rowen) as assistant:
        first = (await assistant.call_tool("list_changes", {"since": "1d", "limit": 2})).structured_content
        rest = (await assistant.call_tool("list_changes", {"since": "1d", "after": first["next"]})).structured_content
        small_library(HAY.replace("three", "four"))
        await rowen.sync("field")
        news = (await assistant.call_tool("list_changes", {"since": str(rest["last"])})).structured_content
        diff = await assistant.call_tool("get_diff", {"id": "https://example.org/hay"})

    assert [change["kind"] for change in first["changes"] + rest["changes"]] == ["created"] * 3
    assert [(change["kind"], change["url"]) for change in news["changes"]] == [("updated", "https://example.org/hay")]
    assert (diff.structured_content["older"], diff.structured_content["newer"]) == (1, 2)
    assert "-Hay dries for three days" in text_of(diff)
    assert "+Hay dries for four days" in text_of(diff)


async def test_sources_come_in_pages_with_their_freshness_and_their_next_look(library):
    async with library() as rowen:
        for number in range(30):
            await rowen.sources.add(f"scripted:{number:02}", name=f"barn-{number:02}@{number}.0", every="1h")
        async with asking(rowen) as assistant:
            names, after = [], None
            while True:
                asked = {"budget": 600} | ({"after": after} if after else {})
                answer = (await assistant.call_tool("list_sources", asked)).structured_content
                names += [source["name"] for source in answer["sources"]]
                if (after := answer["next"]) is None:
                    break
            first = (await assistant.call_tool("list_sources", {"limit": 1})).structured_content["sources"][0]

    assert names == sorted(names)
    assert len(names) == len(set(names)) == 31
    assert (first["version"], first["checked_at"]) == ("0.0", None)
    assert first["next_check_at"]


async def test_the_version_of_a_library_is_found_that_a_range_means(library):
    async with library() as rowen:
        for version in ("1.4", "2.0", "2.9"):
            await rowen.sources.add(f"scripted:{version}", name=f"react@{version}")
        async with asking(rowen) as assistant:
            meant = {}
            for spec in ("2.x", "<2", None, "7"):
                asked = {"library": "React"} | ({"version": spec} if spec else {})
                meant[spec] = (await assistant.call_tool("find_version", asked)).structured_content["source"]
            unknown = await assistant.call_tool("find_version", {"library": "vue"})
            wrong = await assistant.call_tool("find_version", {"library": "react", "version": ">>"})

    assert meant == {"2.x": "react@2.9", "<2": "react@1.4", None: "react@2.9", "7": None}
    assert (unknown.is_error, unknown.structured_content["code"]) == (True, "not_found")
    assert (wrong.is_error, wrong.structured_content["code"]) == (True, "usage")


async def test_errors_have_the_words_and_codes_of_all_doors_and_name_tools(library):
    async with library() as rowen, asking(rowen) as assistant:
        gone = await assistant.call_tool("fetch", {"id": "https://example.org/nowhere"})
        wrong = await assistant.call_tool("search", {"qwery": "hay"})
        moment = await assistant.call_tool("list_changes", {"since": "yesterday"})
        refused = await assistant.call_tool("remove_source", {"name": "field", "items": 3})
        held = len(await rowen.sources.list())

    assert all(answer.is_error for answer in (gone, wrong, moment, refused))
    assert [answer.structured_content["code"] for answer in (gone, wrong, moment, refused)] == [
        "not_found",
        "usage",
        "usage",
        "refused",
    ]
    assert text_of(gone) == (
        "not_found: Nothing is held of 'https://example.org/nowhere'. The tool search finds items by their words."
    )
    assert "It takes: query, sources" in text_of(wrong)
    assert held == 1


async def test_search_takes_every_filter_of_the_operation_and_numbers_as_text(library):
    declared = {"query" if one.name == "words" else one.name for one in signature_of("items.search").sent}
    async with library() as rowen, asking(rowen) as assistant:
        tools = {tool.name: tool for tool in (await assistant.list_tools()).tools}
        recent = await assistant.call_tool(
            "search", {"query": "hay", "since": "1d", "kinds": ["scripted"], "limit": "1"}
        )
        old = await assistant.call_tool("search", {"query": "hay", "until": "2020-01-01"})
        other = await assistant.call_tool("search", {"query": "hay", "kinds": ["git"]})
        number = await assistant.call_tool("search", {"query": "hay", "since": "4711"})
        many = await assistant.call_tool("search", {"query": "hay", "limit": 51})

    assert set(tools["search"].input_schema["properties"]) == declared - {"meaning"}
    assert [len(answer.structured_content["results"]) for answer in (recent, old)] == [1, 0]
    assert "No source is of the kind 'git'" in text_of(other)
    assert "'4711' is no date or span of time" in text_of(number)
    assert "limit: Expected `int` <= 50." in text_of(many)


async def test_search_with_a_relative_date_goes_on_by_its_cursor(library):
    async with library() as rowen, asking(rowen) as assistant:
        shows(*(Fetched(page(name, f"Hay and {name}.")) for name in ("hay", "goats", "empty")), Complete())
        await rowen.sync("field")
        recent = {"query": "hay", "since": "1d", "limit": 1}
        first = (await assistant.call_tool("search", recent)).structured_content
        second = (await assistant.call_tool("search", {**recent, "after": first["next"]})).structured_content

    assert first["results"][0]["url"] != second["results"][0]["url"]


async def test_an_item_that_its_source_deleted_is_called_so(library):
    async with library() as rowen:
        shows(Fetched(page("goats", GOATS, title="Goats")), Fetched(page("hay", HAY, title="Hay")), Complete())
        await rowen.sync("field")
        async with asking(rowen) as assistant:
            answer = await assistant.call_tool("fetch", {"id": "https://example.org/empty"})

    assert answer.structured_content["withdrawn_at"]
    assert "this is the last copy" in text_of(answer)
