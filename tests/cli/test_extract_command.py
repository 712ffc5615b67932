"""Facts at the terminal: one page, a source, its history, what it cost, and taking it elsewhere."""

import asyncio
import csv
import json
import time
from collections.abc import Iterator

import pytest

from rowen.jobs.queue import put_extraction
from tests.cli.conftest import PATIENCE_S, Cli
from tests.conftest import ScratchDatabase
from tests.harvest.shop import LAMP, Shop
from tests.portals.language_model import Model


@pytest.fixture
def shop() -> Iterator[Shop]:
    made = Shop(2)
    yield made
    made.close()


@pytest.fixture
def model(cli: Cli, database: ScratchDatabase) -> Iterator[Model]:
    """A model that the commands ask, and a schema to ask for."""

    async def add() -> None:
        async with database.open() as r:
            await r.schemas.add("lamp@1.0.0", LAMP)

    asyncio.run(add())
    made = Model()
    cli.environment |= {**made.environment, "ROWEN_ALLOW_ADDRESSES": "127.0.0.0/8", "ROWEN_HOST_DELAY_S": "0"}
    yield made
    made.close()


def test_one_line_reads_one_page_as_json(cli: Cli, shop: Shop, model: Model) -> None:
    cli.write({"lamp/1.1.0.json": json.dumps(LAMP)})
    assert cli("schema", "add", "lamp/1.1.0.json").out == "lamp@1.1.0\tadded\t3 fields\n"

    first = cli("extract", f"{shop.url}/1", "--schema", "lamp@1")
    again = cli("extract", f"{shop.url}/1", "--schema", "lamp@1", "--json")

    assert json.loads(first.out) == {"name": "Lamp 1", "price": 10, "colour": "red"}
    assert "1 call" in first.err
    told = ("--max-chars", "30", "--instructions", "Be brief.", "--timeout", "50", "--format", "csv")
    short = cli("extract", f"{shop.url}/1", "--schema", "lamp@1", *told)
    assert short.out == f"url,name,price,colour\n{shop.url}/1,Lamp 1,,\n"
    assert "Only the first 30 of" in short.err
    assert model.questions.pop().system.endswith("Be brief.")
    assert (again.facts[0]["reused"], again.facts[0]["calls"], model.calls) == (True, 0, 1)
    assert cli("schema", "remove", "lamp@1.1.0").out == "lamp@1.1.0\tremoved\n"


def test_a_schema_is_attached_extracted_queried_and_exported(cli: Cli, shop: Shop, model: Model) -> None:
    cli("add", f"{shop.url}/", "--name", "shop", "--schema", "lamp@1", "--when", "price<9", "--option", "sitemap=false")
    first = cli("sync", "shop")
    assert "extracted facts of 2 by 2 calls" in first.out

    shop.sell(2, price=5)
    cli("sync", "shop")
    history = cli("history", f"{shop.url}/2", "--schema", "lamp").out
    found = cli("search", "lamp", "--where", "price<9", "--words-only", "--json")
    log = cli("changes", "--json").facts
    costs = cli("costs", "--json").facts

    assert "~ /price\t20.0 → 5.0" in history
    assert [fact["title"] for fact in found.facts] == ["Lamp 2"]
    assert [line["kind"] for line in log][-2:] == ["extracted", "matched"]
    assert (costs[0]["calls"], costs[0]["subject"], model.calls) == (3, "lamp", 3)
    assert cli("export", "csv", "--extractions", "--to", "out").code == 0
    with (cli.folder / "out" / "lamp.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["name"], row["price"]) for row in rows] == [("Lamp 1", "10.0"), ("Lamp 2", "5.0")]
    assert cli("export", "parquet", "--schema", "lamp", "--to", "parquet").code == 0


def test_a_budget_ends_with_a_code_of_its_own_and_a_dry_run_costs_nothing(cli: Cli, shop: Shop, model: Model) -> None:
    cli("sync", f"{shop.url}/")
    [name] = [fact["name"] for fact in cli("sources", "--json").facts]

    dry = cli("extract", "--source", name, "--schema", "lamp", "--dry-run")
    poor = cli("extract", "--source", name, "--schema", "lamp", "--budget", "10tokens", "--json")

    assert "would be: about 2 calls" in dry.out
    assert (poor.code, poor.facts[0]["pending"], model.calls) == (5, 2, 0)
    assert cli("extract", "--source", name, "--budget", "many").code == 2


def test_a_worker_extracts_what_a_sync_changed(cli: Cli, shop: Shop, model: Model) -> None:
    cli("add", f"{shop.url}/", "--name", "shop", "--schema", "lamp@1")
    model.down = True
    assert "2 items wait to be extracted" in cli("sync", "shop").err
    model.down = False

    done = cli("worker", "--until-idle", "--json")

    assert [fact["state"] for fact in done.facts] == ["done"], done.err
    assert len(cli("history", f"{shop.url}/1", "--schema", "lamp", "--json").facts) == 1


def test_a_worker_that_is_terminated_gives_its_extraction_back_and_the_next_one_pays_for_the_rest(
    cli: Cli, database: ScratchDatabase, model: Model
) -> None:
    pages = {f"docs/{number}.md": f"# Lamp {number}\n\nName: Lamp {number}\n" for number in range(8)}
    cli.write(pages)

    async def prepare() -> int:
        async with database.open() as r:
            await r.sync(str(cli.folder / "docs"))
            await r.extraction.attach("docs", "lamp@1")
            source = await r.sources.get("docs")
            async with r._engine.database.transaction() as c:
                return await put_extraction(c, r._engine.database, source.id) or 0

    job = asyncio.run(prepare())
    model.latency_s = 0.3
    with cli.start("worker", ROWEN_LLM_CONCURRENCY="2") as process:
        deadline = time.monotonic() + PATIENCE_S
        while model.calls < 2 and time.monotonic() < deadline:
            time.sleep(0.005)
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
    at_end = model.calls
    assert process.returncode == 0
    assert 2 <= at_end <= 4
    state = "select status::text, attempts from procrastinate_jobs where id = %s"
    assert database.query(state, job) == [("todo", 0)]
    assert (
        database.query("select count(*) from answer")
        == database.query("select count(*) from extraction")
        == [(at_end,)]
    )

    assert cli("worker", "--until-idle").code == 0
    assert (model.calls, database.query("select count(*) from extraction")) == (8, [(8,)])


def test_a_pass_that_is_killed_repeats_at_most_what_was_in_flight(cli: Cli, model: Model) -> None:
    pages = {f"docs/{number}.md": f"# Lamp {number}\n\nName: Lamp {number}\n" for number in range(12)}
    cli.write(pages)
    cli("sync", "./docs")
    model.latency_s = 0.05
    command = ("extract", "--source", "docs", "--schema", "lamp")
    with cli.start(*command, ROWEN_LLM_CONCURRENCY="2") as process:
        deadline = time.monotonic() + PATIENCE_S
        while model.calls < 6 and time.monotonic() < deadline:
            time.sleep(0.005)
        process.kill()
        process.communicate()

    done = cli(*command, "--json", ROWEN_LLM_CONCURRENCY="2")

    assert done.code == 0, done.err
    assert 12 <= model.calls <= 12 + 2
    assert len(cli("export", "jsonl", "--extractions", "--to", "out", "--json").facts) == 1
    assert len((cli.folder / "out" / "lamp.jsonl").read_text().splitlines()) == 12


def test_pages_that_only_lead_to_others_are_left_out_by_their_urls(cli: Cli, shop: Shop, model: Model) -> None:
    cli(
        "add", f"{shop.url}/", "--name", "shop", "--schema", "lamp@1", "--only-urls", "*/2", "--option", "sitemap=false"
    )
    assert "extracted facts of 1 by 1 call" in cli("sync", "shop").out

    cli("edit", "shop", "--schema", "lamp@1", "--only-urls", "*")
    assert "1 created" in cli("extract", "--source", "shop").out
    assert cli("edit", "shop", "--only-urls", "*").code == 2
    assert model.calls == 2
