"""Whatever a provider of embeddings does: clear words, nothing lost, nothing stored that could not be searched."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from rowen import Complete, Fetched
from rowen.enrich.embedders.remote import OpenAI
from rowen.errors import StoreError, StoreUnavailableError, UsageError
from rowen.harvest import embed as flow
from rowen.operations.search import QuestionVectors
from rowen.store.search.embeddings import Claim
from tests.conftest import ScratchDatabase
from tests.harvest.embedded import is_direction_of, pages, sync, untitled, vectors_of
from tests.portals.embedder import Provider, says, status, vectors
from tests.portals.scripted import Scripted, shows
from tests.seeds import numbers
from tests.store.interleaving import Moment, OtherProcess


@pytest.fixture(autouse=True)
def _scripted(kinds: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch) -> None:
    kinds(Scripted)
    monkeypatch.setattr(flow, "LONGEST_PAUSE_S", 0.01)


async def test_a_provider_that_is_down_holds_nothing_up_and_loses_nothing(
    database: ScratchDatabase, provider: Provider
) -> None:
    provider.down = True
    async with database.open(**provider.settings) as r:
        run = await sync(r, *pages(1, 2, 3))
        assert (run.status, run.stats.created) == ("completed", 3)
        assert (run.stats.embedded, run.stats.embeddings_pending) == (0, 3)
        [facts] = await r.embeddings.list()
        assert (facts.pending, facts.vectors) == (3, 0)

        provider.down = False
        report = await r.embeddings.embed()

        assert report is not None
        assert (report.embedded, report.pending, report.error) == (3, 0, None)
        assert len(vectors_of(database)) == 3


async def test_an_open_circuit_is_not_knocked_at(database: ScratchDatabase, provider: Provider) -> None:
    provider.down = True
    async with database.open(**provider.settings, cb_failure_threshold=2, cb_recovery_timeout_secs=60) as r:
        run = await sync(r, *pages(1))
        again = await sync(r, *pages(1, 2))
        report = await r.embeddings.embed()

        assert (run.stats.embeddings_pending, again.stats.embeddings_pending) == (1, 2)
        assert len(provider.asked_for) == 2
        assert report is not None
        assert report.error is not None
        assert "not tried" in report.error
        [facts] = await r.embeddings.list()
        assert next(iter(facts.trouble["circuits"].values()))["state"] == "open"


@pytest.mark.parametrize(
    ("mood", "words"),
    [
        (vectors(lambda v: v[:5]), "5 dimensions where 8 are stored"),
        (vectors(lambda v: [float("nan"), *v[1:]]), "not finite"),
        (vectors(lambda v: [float("inf"), *v[1:]]), "not finite"),
        (vectors(lambda v: [0.0] * len(v)), "zeros"),
        (vectors(lambda v: ["a"] * len(v)), "not made of numbers"),
        (vectors(lambda v: 7), "no vector"),
        (vectors(lambda v: "?!"), "base64"),
        (lambda data: data[:-1], "for 2 texts"),
        (lambda data: [{**one, "index": 0} for one in data], "indexes"),
        (says("<html>Welcome</html>"), "not JSON"),
        (says("[]"), "no object"),
        (says('{"data": null}'), "no list"),
        (status(401), "wants a key; none was sent"),
        (status(404), "says 404"),
    ],
)
async def test_a_useless_answer_is_refused_in_clear_words_and_nothing_of_it_is_stored(
    database: ScratchDatabase, provider: Provider, mood: Any, words: str
) -> None:
    async with database.open(**provider.settings) as r:
        await sync(r, *pages(1))
        provider.moods.append(mood)
        run = await sync(r, *pages(1, 2, 3))
        stored = database.query("select count(*) from embedding")
        [facts] = await r.embeddings.list()
        healed = await r.embeddings.embed()

    assert (run.status, run.stats.created, run.stats.embedded, run.stats.embeddings_pending) == ("completed", 2, 0, 2)
    assert stored == [(1,)]
    assert words in facts.trouble["error"]
    assert healed is not None
    assert (healed.embedded, healed.pending, healed.error) == (2, 0, None)


async def test_vectors_are_put_in_order_by_their_index(database: ScratchDatabase, provider: Provider) -> None:
    provider.always = lambda data: data[::-1]
    async with database.open(**provider.settings) as r:
        await sync(r, *pages(1, 2, 3))

    assert [is_direction_of(vector, text) for text, vector in vectors_of(database).items()] == [True] * 3


async def test_vectors_may_come_as_base64(database: ScratchDatabase, provider: Provider) -> None:
    provider.encode = True
    async with database.open(**provider.settings) as r:
        await sync(r, *pages(1, 2, 3))

    found = vectors_of(database)
    assert len(found) == 3
    assert all(is_direction_of(vector, text) for text, vector in found.items())


async def test_a_failure_in_the_middle_costs_only_its_own_request(
    database: ScratchDatabase, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.moods.extend([lambda data: data, status(500)])
    async with database.open(**provider.settings) as r:
        texts = [f"{n:03} " + "word " * 250 for n in range(200)]
        run = await sync(r, *(Fetched(untitled(n, text)) for n, text in enumerate(texts)))

        assert (run.stats.embedded, run.stats.embeddings_pending) == (200, 0)
        first, failed = (set(asked["input"]) for asked in provider.asked_for[:2])
        assert set(provider.repeated()) == failed
        assert not first & failed


@pytest.mark.parametrize("headers", [{}, {"Retry-After": "0"}])
async def test_a_rate_limit_is_waited_for(
    database: ScratchDatabase, provider: Provider, headers: dict[str, str]
) -> None:
    provider.moods.extend([status(429, **headers), status(429, **headers)])
    async with database.open(**provider.settings) as r:
        await sync(r, *pages(1, 2))
        report = await r.embeddings.embed()

        assert report is not None
        assert (report.pending, report.error) == (0, None)
        assert len(vectors_of(database)) == 2


async def test_a_long_rate_limit_is_left_to_a_later_run(database: ScratchDatabase, provider: Provider) -> None:
    provider.always = status(429, **{"Retry-After": "86400"})
    async with database.open(**provider.settings, retry_after_limit_s=0.1, cb_max_recovery_timeout_secs=1) as r:
        run = await sync(r, *pages(1))
        report = await r.embeddings.embed()

        assert run.stats.embeddings_pending == 1
        assert report is not None
        assert report.error is not None
        assert "asks to wait" in report.error


async def test_embedding_goes_on_at_once_when_its_circuit_is_reset(
    database: ScratchDatabase, provider: Provider
) -> None:
    provider.always = status(429)
    circuit = {"cb_failure_threshold": 1, "cb_recovery_timeout_secs": 250}
    async with database.open(embedder="none") as r:
        await sync(r, *pages(1, 2, 3))
    async with database.open(**provider.settings, **circuit) as r:
        embedding = asyncio.create_task(r.embeddings.embed())
        async with asyncio.timeout(30):
            while [one.state for one in await r.circuits.list()] != ["open"]:
                await asyncio.sleep(0.01)
        provider.always = None
        [reset] = await r.circuits.reset()
        report = await asyncio.wait_for(embedding, 30)

    assert (reset.kind, reset.state) == ("embedder", "open")
    assert report is not None
    assert (report.embedded, report.pending, report.error) == (3, 0, None)


async def test_a_dead_embedder_that_never_answered_is_an_error_at_once(
    database: ScratchDatabase, provider: Provider
) -> None:
    provider.down = True
    async with database.open(embedder="none") as r:
        await sync(r, *pages(1))
    async with database.open(**provider.settings, cb_failure_threshold=2, cb_recovery_timeout_secs=250) as r:
        report = await asyncio.wait_for(r.embeddings.embed(), 60)

    assert report is not None
    assert "not tried" in (report.error or "")
    assert len(provider.asked_for) == 2


async def test_a_refused_text_does_not_block_the_others(database: ScratchDatabase, provider: Provider) -> None:
    provider.poison = "number 3"
    async with database.open(**provider.settings) as r:
        run = await sync(r, *pages(*range(8)))
        again = await sync(r, *pages(*range(8)))
        [facts] = await r.embeddings.list()

        assert (run.stats.embedded, run.stats.embeddings_pending) == (7, 0)
        assert (again.stats.embedded, facts.refused) == (0, 1)


async def test_a_provider_that_refuses_everything_is_a_wrong_setting_and_costs_two_requests(
    database: ScratchDatabase, provider: Provider
) -> None:
    provider.poison = ""
    async with database.open(**provider.settings) as r:
        run = await sync(r, *pages(*range(30)))
        [facts] = await r.embeddings.list()

        assert (run.stats.embeddings_pending, facts.refused, len(provider.asked_for)) == (30, 0, 2)
        assert "not welcome" in facts.trouble["error"]


async def test_a_key_is_resolved_by_reference_and_never_shown(
    database: ScratchDatabase, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-very-secret")
    provider.moods.append(status(401))
    async with database.open(**provider.settings, embedder_key="env:MY_KEY") as r:
        await sync(r, *pages(1))
        [facts] = await r.embeddings.list()

    assert provider.keys == ["Bearer sk-very-secret"]
    assert "does not accept the key in the environment variable MY_KEY" in facts.trouble["error"]
    assert "secret" not in str(facts)
    assert "secret" not in str(database.query("select * from embedding_model"))


async def test_a_private_address_is_refused_unless_it_is_allowed(database: ScratchDatabase, provider: Provider) -> None:
    async with database.open(**provider.settings, allow_addresses="") as r:
        run = await sync(r, *pages(1))
        [facts] = await r.embeddings.list()

    assert run.stats.embeddings_pending == 1
    assert "not a public address" in facts.trouble["error"]
    assert provider.asked_for == []


async def test_a_crash_between_the_answer_and_the_commit_loses_one_batch(
    database: ScratchDatabase, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with database.open(embedder="none") as r:
        await sync(r, *pages(*range(30)))
    store, stored = Claim.store, 0

    async def crash(claim: Claim, vectors: Any, **how: Any) -> None:
        nonlocal stored
        if stored >= 12:
            raise StoreUnavailableError("the power failed")
        await store(claim, vectors, **how)
        stored += len(vectors)

    monkeypatch.setattr(Claim, "store", crash)
    async with database.open(**provider.settings, embedder_batch=4, embedder_concurrency=1) as r:
        with pytest.raises(StoreUnavailableError):
            await r.embeddings.embed()
        monkeypatch.setattr(Claim, "store", store)
        report = await r.embeddings.embed()

    assert report is not None
    assert (report.embedded, report.pending) == (18, 0)
    assert len(provider.repeated()) == 4


# The connection that stands for the right to embed, by its lock.
CUT_OFF = """
select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and granted
   and database = (select oid from pg_database where datname = current_database())
"""


MORE_TEXTS = """
insert into chunk (item_id, position, heading, text, text_hash, tsv)
select item.id, %s, '{}', told.text, sha256(told.text::bytea), ''
  from item cross join lateral (select 'Row ' || %s || ' in ' || item.id as text) told
"""


def _more(database: ScratchDatabase, number: int) -> None:
    """Store a new text in each of four sources: no request holds texts of two sources."""
    with psycopg.connect(database.conninfo, options="-c search_path=rowen,public") as connection:
        connection.execute(MORE_TEXTS, [number, number])


async def _four_sources(database: ScratchDatabase) -> None:
    async with database.open(embedder="none") as r:
        for source in range(4):
            shows(Fetched(untitled(f"{source}", f"Source {source}.")), Complete())
            await r.sync(f"scripted:{source}")


async def test_no_text_is_paid_twice_when_the_database_hangs_up_at_any_moment(
    database: ScratchDatabase, provider: Provider
) -> None:
    few = {"embedder_batch": 2, "embedder_concurrency": 2}
    await _four_sources(database)
    async with database.open(**provider.settings, **few) as r:
        await r.embeddings.embed()
        steps, number, moment = numbers("moments of embedding"), 1, Moment(0, bool)
        while number <= moment.count or not moment.count:
            _more(database, number)
            moment = Moment(number, lambda: bool(database.query(CUT_OFF)))
            with suppress(StoreError):
                await moment.during(r.embeddings.embed())
            report = await _at_last(r.embeddings.embed)
            assert (report.pending, provider.repeated()) == (0, {}), f"moment {number}"
            number += 1 + next(steps) % 8

    assert number > 20
    assert len(provider.received) == database.query("select count(*) from chunk")[0][0]


async def test_another_process_repeats_only_requests_in_flight_when_the_claim_was_lost(
    database: ScratchDatabase, provider: Provider
) -> None:
    few = {"embedder_batch": 2, "embedder_concurrency": 2}
    await _four_sources(database)
    async with database.open(**provider.settings, **few) as r:
        await r.embeddings.embed()
        with OtherProcess(database, lock_timeout_ms=200, **provider.settings, **few) as process:

            def lose() -> bool:
                database.query(CUT_OFF)
                return process.call(lambda other: _at_last(other.embeddings.embed))

            steps, number, moment = numbers("moments of two processes"), 1, Moment(0, bool)
            while number <= moment.count or not moment.count:
                _more(database, number)
                repeated = len(provider.repeated())
                moment = Moment(number, lose)
                with suppress(StoreError):
                    await moment.during(r.embeddings.embed())
                report = await _at_last(r.embeddings.embed)
                in_flight = 2
                assert report.pending == 0
                assert len(provider.repeated()) - repeated <= in_flight, f"moment {number}: {provider.repeated()}"
                number += 1 + next(steps) % 8

    assert number > 20
    assert set(provider.repeated().values()) <= {2}


async def _at_last(work: Callable[[], Any]) -> Any:
    """Do something again until the connections that were cut off are found out."""
    for _ in range(10):
        with suppress(StoreError):
            return await work()
    raise AssertionError("the database does not come back")


async def test_a_long_text_is_cut_and_counted(database: ScratchDatabase, provider: Provider) -> None:
    async with database.open(**provider.settings) as r:
        await sync(r, *pages(1))
        database.execute("update chunk set text = repeat('word ', 2000000), text_hash = '\\x01', id = default")
        database.execute("update item set chunker = chunker")
        report = await r.embeddings.embed()

        assert report is not None
        assert (report.embedded, report.truncated) == (1, 1)
        assert len(provider.received[-1]) == 8_000


async def test_blank_texts_are_never_sent(database: ScratchDatabase, provider: Provider) -> None:
    async with database.open(**provider.settings) as r:
        await sync(r, *pages(1))
        database.execute("update chunk set text = E' \\n\\t\\u00a0\\u2003 ', text_hash = '\\x02', id = default")
        report = await r.embeddings.embed()

        assert report is not None
        assert (report.embedded, report.pending, len(provider.received)) == (0, 0, 1)


async def test_an_unresponsive_provider_costs_a_search_little_time_and_is_reported(
    database: ScratchDatabase, provider: Provider
) -> None:
    async with database.open(**provider.settings) as r:
        await sync(r, *pages(1))
        provider.down = True
        down = await QuestionVectors(r._engine).vector_of("anybody?")

        assert down.vector is None
        assert down.trouble is not None
        assert "503" in down.trouble
        assert (await QuestionVectors(r._engine).vector_of("  \n ")).trouble is None


async def test_vectors_that_no_index_can_hold_are_refused(database: ScratchDatabase) -> None:
    provider = Provider(dimensions=4001)
    try:
        async with database.open(**provider.settings) as r:
            run = await sync(r, *pages(1))
            [facts] = await r.embeddings.list()
    finally:
        provider.close()

    assert run.stats.embeddings_pending == 1
    assert "4001 dimensions" in facts.trouble["error"]


async def test_a_wrong_kind_is_named_with_those_that_exist(database: ScratchDatabase) -> None:
    async with database.open(embedder="lokal") as r:
        run = await sync(r, *pages(1))

        assert run.status == "completed"
        assert "There is no embedder 'lokal'" in r.embeddings.remarks()[0]
        with pytest.raises(UsageError, match="lokal"):
            await r.embeddings.embed()


async def test_a_sync_waits_for_a_limited_time_and_reports_the_rest(
    database: ScratchDatabase, provider: Provider
) -> None:
    async def slowly(request: Any) -> Any:
        await asyncio.sleep(30)

    async with database.open(**provider.settings, embed_wait_s=0.05, total_limit_s=0.2) as r:
        provider._answer_for = slowly  # type: ignore[method-assign]
        run = await sync(r, *pages(1, 2))

        assert (run.status, run.stats.embeddings_pending) == ("completed", 2)
        assert run.stats.seconds < 20


async def test_a_bug_in_an_embedder_fails_no_sync(
    database: ScratchDatabase, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("a bug of somebody else's")

    async with database.open(**provider.settings) as r:
        with monkeypatch.context() as patch:
            patch.setattr("rowen.enrich.embedders.remote.OpenAI.embed", broken)
            run = await sync(r, *pages(1))
        remarks = r.embeddings.remarks()
        healed = await sync(r, *pages(1, 2))

    assert (run.status, run.stats.embeddings_pending) == ("completed", 1)
    assert "ZeroDivisionError" in remarks[0]
    assert (healed.stats.embedded, healed.stats.embeddings_pending) == (2, 0)


async def test_a_text_that_makes_the_embedder_fail_does_not_delay_others(
    database: ScratchDatabase, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed = OpenAI.embed

    async def stumble(self: OpenAI, texts: Sequence[str], **how: Any) -> Any:
        if any("number 3" in text for text in texts):
            raise OverflowError("int too large to convert to float")
        return await embed(self, texts, **how)

    monkeypatch.setattr(OpenAI, "embed", stumble)
    async with database.open(**provider.settings) as r:
        run = await sync(r, *pages(*range(8)))
        again = await sync(r, *pages(*range(9)))

    assert (run.stats.embedded, run.stats.embeddings_pending) == (7, 0)
    assert (again.stats.embedded, again.stats.embeddings_pending) == (1, 0)
    [(error,)] = database.query("select error from embedding_refused")
    assert "OverflowError: int too large to convert to float" in error


async def test_an_embedder_that_fails_over_every_text_since_refuses_none(
    database: ScratchDatabase, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("a bug of somebody else's")

    async with database.open(**provider.settings) as r:
        await sync(r, *pages(1, 2))
        with monkeypatch.context() as patch:
            patch.setattr(OpenAI, "embed", broken)
            run = await sync(r, *pages(*range(5)))
        [facts] = await r.embeddings.list()
        healed = await sync(r, *pages(*range(6)))

    assert (run.stats.embedded, run.stats.embeddings_pending, facts.refused) == (0, 3, 0)
    assert (healed.stats.embedded, healed.stats.embeddings_pending) == (4, 0)


async def test_a_source_with_an_exhausted_budget_waits_and_others_continue(
    database: ScratchDatabase, provider: Provider
) -> None:
    settings: dict[str, Any] = {**provider.settings, "embedder_price": 1000, "embed_wait_s": 0}
    async with database.open(**settings) as r:
        provider.down = True
        for name, count in (("small", 2), ("large", 40)):
            shows(*(Fetched(untitled(n, f"All about {name} number {n}. " * 4)) for n in range(count)), Complete())
            await r.sync(f"scripted:{name}")
        provider.down = False
    async with database.open(**settings, budget_source_usd=0.3, embedder_batch=4, embedder_concurrency=1) as r:
        report = await r.embeddings.embed()

    assert report is not None
    assert "this source in 30 days" in (report.error or "")
    assert sum("small" in text for text in provider.received) == 2
    assert 0 < sum("large" in text for text in provider.received) < 40
    assert report.pending == 42 - report.embedded
    spent = dict(database.query("select source_id, sum(usd) from provider_call group by source_id"))
    assert None not in spent
    assert max(spent.values()) <= 0.3


async def test_a_missing_key_is_named_and_holds_nothing_up(database: ScratchDatabase, provider: Provider) -> None:
    async with database.open(**provider.settings, embedder_key="env:NO_SUCH_KEY") as r:
        run = await sync(r, *pages(1))
        [facts] = await r.embeddings.list()

    assert (run.status, run.stats.embeddings_pending) == ("completed", 1)
    assert "NO_SUCH_KEY" in facts.trouble["error"]


async def test_waiting_for_embeddings_can_be_switched_off(database: ScratchDatabase, provider: Provider) -> None:
    answer = provider._answer_for

    async def slowly(request: Any) -> Any:
        await asyncio.sleep(0.1)
        return await answer(request)

    provider._answer_for = slowly  # type: ignore[method-assign]
    patience = {"embed_wait_s": 0, "embedder_batch": 1, "embedder_concurrency": 1}
    async with database.open(**provider.settings, **patience) as r:
        run = await sync(r, *pages(*range(60)))

        assert run.stats.embeddings_pending > 30
        assert run.stats.embedded + run.stats.embeddings_pending == 60
        assert (await r.runs.get(run.id)).stats == run.stats
