"""The state of everything in numbers that stay right, whatever comes and goes, and cost no second count."""

from datetime import timedelta

import pytest

from rowen import Rowen
from rowen.operations.summary import remarks_on_switched_off
from tests.conftest import ScratchDatabase
from tests.portals.site import Page, Site
from tests.web.world import sites

PLAIN = {"sitemap": False, "llms": False}


async def counted(rowen: Rowen, database: ScratchDatabase) -> bool:
    """Whether the numbers are those of the tables."""
    state, sources = await rowen.status.get(), await rowen.sources.list_status()
    held = dict(
        database.query(
            "select source.name, count(item.id) from source left join item on source_id = source.id group by 1"
        )
    )
    return state.items == sum(held.values()) and {one.name: one.items for one in sources} == held


async def test_items_are_counted_once_and_then_by_the_log(database: ScratchDatabase) -> None:
    with sites() as there:
        docs, valley = there["docs"], there["valley"]
        async with database.open() as rowen:
            right = [await counted(rowen, database)]
            await rowen.sources.add(docs.url + "/", name="docs", options=PLAIN)
            await rowen.sources.add(valley.address, name="valley")
            await rowen.sync("docs")
            right.append(await counted(rowen, database))
            docs.put("/", "Handbook", "All.", links=("/p0", "/p1"))
            await rowen.sync("docs", accept_deletions=True)
            await rowen.sync("valley")
            right.append(await counted(rowen, database))
            await rowen.sources.remove("docs")
            valley.remove("set-01")
            await rowen.sync("valley")
            right.append(await counted(rowen, database))
            database.execute("update item set title = 'x'")
            whole = await rowen.items.count((await rowen.sources.get("valley", counted=False)).id)

    assert right == [True] * 4
    assert whole == 45


async def test_savings_tell_where_looks_ended_and_what_was_not_spent(database: ScratchDatabase) -> None:
    with sites() as there:
        async with database.open() as rowen:
            nothing = await rowen.status.savings()
            await rowen.sources.add(there["docs"].url + "/", name="docs", options=PLAIN)
            first = await rowen.sync("docs")
            again = await rowen.sync("docs")
            saved = await rowen.status.savings()
            before = await rowen.status.savings(timedelta(days=-1))

    assert (nothing.runs, before.runs, saved.runs) == (0, 0, 2)
    assert (saved.paid, saved.validator) == (first.stats.created, again.stats.stopped_at_validator)
    assert saved.requests == first.stats.requests + again.stats.requests
    assert 0.5 < saved.bytes_spared / first.stats.bytes < 1.5
    assert dict(saved.rungs)["paid"] == 25


async def test_what_a_catalog_was_not_asked_for_is_worth_what_a_whole_walk_would_cost(
    database: ScratchDatabase,
) -> None:
    with sites() as there:
        async with database.open() as rowen:
            await rowen.sources.add(there["valley"].address, name="valley", options={"page_size": 10})
            first = await rowen.sync("valley")
            again = await rowen.sync("valley")
            saved = await rowen.status.savings()

    assert again.stats.not_asked > 40
    assert 0 < saved.requests_spared <= first.stats.requests < again.stats.not_asked
    assert 0.5 < saved.bytes_spared / first.stats.bytes <= 1


async def test_a_preview_shows_first_items_and_leaves_no_trace(database: ScratchDatabase) -> None:
    site = Site()
    try:
        site.grow(9)
        site.pages["/p3"] = Page(b"", status=500)
        async with database.open() as rowen:
            few = await rowen.sources.preview(site.url + "/", limit=2)
            left = database.query(
                "select (select count(*) from source), (select count(*) from item), (select count(*) from run)"
            )
            asked = len(site.asked())
    finally:
        site.close()

    assert (few.kind, few.more, few.kept_as, few.trouble) == ("web", True, None, None)
    assert [one.title for one in few.items] == ["Page 0", "Page 1"]
    assert left == [(0, 0, 0)]
    assert asked < 9


async def test_troubles_are_grouped_by_their_reason(database: ScratchDatabase) -> None:
    with sites() as there:
        docs = there["docs"]
        for number in range(3):
            docs.alter(f"/p{number}", body=b"%PDF-1.4 broken", headers={"Content-Type": "application/pdf"})
        async with database.open() as rowen:
            await rowen.sources.add(docs.url + "/", name="docs", options=PLAIN)
            run = await rowen.sync("docs")
            groups = await rowen.runs.error_groups(run.id)

    assert sum(one.items for one in groups) == run.stats.failed == 3
    assert groups == sorted(groups, key=lambda one: -one.items)


async def test_who_was_switched_off_is_named_with_what_tries_again(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "x" * 32)
    async with database.open() as rowen:
        await rowen.sources.add("https://docs.example.org/", name="docs", kind="web")
        await rowen.webhooks.add("builds", "https://ci.example.org/hook", secret="env:HOOK_SECRET")
        await rowen.rdf.add_endpoint("docs", "https://store.example.org/sparql")
        before = (await rowen.status.get()).needs
        database.execute("update webhook set state = 'disabled'")
        database.execute("update statement_target set state = 'disabled'")
        state = await rowen.status.get()
        hints = list(remarks_on_switched_off(await rowen.status.list_disabled()))

    assert (before, state.needs) == (0, 2)
    assert [(one.kind, one.name, one.source) for one in state.switched_off] == [
        ("endpoint", "https://store.example.org/sparql", "docs"),
        ("webhook", "builds", None),
    ]
    assert [one.command for hint in hints for one in hint.actions] == [
        "rowen statements keep docs https://store.example.org/sparql",
        "rowen webhooks resume builds",
    ]
