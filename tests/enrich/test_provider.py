"""A paid service on loopback: attempts are written down, tried again where that helps, and made only within budgets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

from rowen.enrich.ledger import NoLedger, Purse, charged_to, paid_from
from rowen.enrich.provider import Key, PaidCall, Provider
from rowen.errors import (
    BudgetExceededError,
    ConfigurationError,
    ProviderAnswerError,
    ProviderDownError,
    ProviderError,
    ProviderKeyError,
    ProviderRefusedError,
    SourceError,
    StoreUnavailableError,
)
from rowen.model.models import Charge, LedgerEntry, Price, SpentUsd, TokenUsage
from rowen.net.client import Client
from tests.cancelling import cancelled_at_each_wait
from tests.net.world import FakeTime, saying, serve, serve_raw, settings

NOW = datetime(2026, 5, 4, 10, 30, tzinfo=UTC)
CALL = PaidCall("extract", "m-1", inputs=2, expected=TokenUsage(1_000, 500), price=Price(1.0, 4.0))
OK = {"usage": {"in": 800, "out": 200}}


@dataclass
class KeptEntries(NoLedger):
    entries: list[LedgerEntry] = field(default_factory=list)

    async def record(self, entry: LedgerEntry) -> None:
        self.entries.append(entry)

    async def spent(self, charge: Charge, *, day: datetime, source_since: datetime) -> SpentUsd:
        def total(*found: LedgerEntry) -> float:
            return sum(entry.usd or 0.0 for entry in found)

        return SpentUsd(
            total(*(one for one in self.entries if one.charge.run_id == charge.run_id)),
            total(*(e for e in self.entries if e.charge.source_id == charge.source_id and e.at >= source_since)),
            total(*(one for one in self.entries if one.at >= day)),
        )


@dataclass
class Service:
    """Gives one answer after the other, the last one again and again."""

    answers: list[Any]
    seen: list[tuple[dict[str, Any], str | None]] = field(default_factory=list)
    hung: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.seen.append((await request.json(), request.headers.get("Authorization")))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer == "hang":
            self.hung.set()
            await asyncio.sleep(30)
        if isinstance(answer, dict):
            return web.json_response(answer)
        if isinstance(answer, str):
            return web.Response(text=answer)
        status, headers = answer if isinstance(answer, tuple) else (answer, {})
        return web.json_response({"error": {"message": "the prompt was:\x1b[31m no"}}, status=status, headers=headers)


@dataclass
class Desk:
    service: Service
    provider: Provider
    ledger: KeptEntries
    time: FakeTime
    url: str

    async def ask(self, call: PaidCall = CALL) -> dict[str, Any]:
        return await self.provider.post(f"{self.url}/v1/extract", {"prompt": "top secret text"}, call)

    @property
    def results(self) -> list[tuple[str, int | None]]:
        return [(entry.result, entry.status) for entry in self.ledger.entries]


@asynccontextmanager
async def desk(
    *answers: Any, key: str | None = "sk-1", named: str | None = None, **changes: Any
) -> AsyncIterator[Desk]:
    time, service, ledger = FakeTime(), Service(list(answers)), KeptEntries()
    made = settings(**changes)
    async with serve(service) as url, Client(made, clock=time.clock, sleep=time.sleep) as client:

        async def opened() -> Client:
            return client

        provider = Provider(
            url,
            key=Key.for_address(named or url, key, header="Authorization", form="Bearer {}"),
            client=opened,
            settings=made,
            ledger=ledger,
            clock=time.clock,
            sleep=time.sleep,
            now=lambda: NOW,
        )
        yield Desk(service, provider, ledger, time, url)
        await provider.close()


async def test_a_call_is_written_down_with_what_it_cost() -> None:
    def usage(answer: dict[str, Any]) -> TokenUsage:
        return TokenUsage(answer["usage"]["in"], answer["usage"]["out"])

    async with desk(OK) as at:
        with charged_to(run_id=7, source_id=3):
            answer = await at.ask(PaidCall("extract", "m-1", 2, TokenUsage(1, 1), Price(1.0, 4.0), usage))

    assert answer == OK
    assert at.service.seen == [({"prompt": "top secret text"}, "Bearer sk-1")]
    [entry] = at.ledger.entries
    assert (entry.at, entry.purpose, entry.provider, entry.model) == (NOW, "extract", at.url[7:], "m-1")
    assert (entry.inputs, entry.usage, entry.result, entry.status) == (2, (800, 200), "answered", 200)
    assert entry.usd == pytest.approx(0.0016)
    assert entry.charge == Charge(7, 3)
    assert "secret" not in repr(entry)
    assert "sk-1" not in repr(entry)


async def test_what_is_passing_is_tried_again_with_backoff_and_each_attempt_is_written_down() -> None:
    async with desk(503, 500, OK) as at:
        assert await at.ask() == OK

    assert at.results == [("failed", 503), ("failed", 500), ("answered", 200)]
    assert [entry.usd for entry in at.ledger.entries[:2]] == [0.0, 0.0]
    first, second = at.time.slept
    assert 0.5 <= first <= 1 <= second <= 2


async def test_retry_after_is_waited_for() -> None:
    async with desk((429, {"Retry-After": "7"}), OK) as at:
        assert await at.ask() == OK

    assert at.results == [("busy", 429), ("answered", 200)]
    assert at.time.slept == [7]


async def test_a_wait_that_is_too_long_is_handed_on() -> None:
    async with desk((429, {"Retry-After": "600"})) as at:
        with pytest.raises(ProviderDownError, match="asks to wait") as caught:
            await at.ask()

    assert (caught.value.retry_in_s, caught.value.busy, caught.value.retryable) == (600, True, True)
    assert (at.results, at.time.slept) == ([("busy", 429)], [])


async def test_an_open_circuit_is_not_called_and_no_attempt_is_written_down() -> None:
    async with desk(500, fetch_tries=2, cb_failure_threshold=2) as at:
        with pytest.raises(ProviderDownError, match="failed"):
            await at.ask()
        with pytest.raises(ProviderDownError, match="was not tried") as caught:
            await at.ask()

    assert len(at.service.seen) == len(at.ledger.entries) == 2
    assert caught.value.retry_in_s == pytest.approx(30)


@pytest.mark.parametrize(
    ("answer", "error", "result"),
    [
        (401, ProviderKeyError, "denied"),
        (403, ProviderKeyError, "denied"),
        (400, ProviderRefusedError, "refused"),
        (413, ProviderRefusedError, "refused"),
        (404, ProviderError, "failed"),
        ("<html>", ProviderAnswerError, "unreadable"),
        ("[1]", ProviderAnswerError, "unreadable"),
        ("[" * 100_000, ProviderAnswerError, "unreadable"),
    ],
)
async def test_what_trying_again_cannot_help_is_tried_once(answer: Any, error: type[Exception], result: str) -> None:
    async with desk(answer) as at:
        with pytest.raises(ProviderError) as caught:
            await at.ask()

    assert type(caught.value) is error
    assert not isinstance(caught.value, SourceError)
    assert "\x1b" not in str(caught.value)
    assert [one for one, _ in at.results] == [result]
    assert "secret" not in str(caught.value)
    # An answer that cannot be read was paid for; a refusal was not.
    assert at.ledger.entries[0].usage == (CALL.expected if result == "unreadable" else TokenUsage())


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 503, 529])
async def test_what_may_be_over_soon_is_tried_again(status: int) -> None:
    async with desk(status, OK, fetch_tries=2) as at:
        assert await at.ask() == OK

    assert [found for _, found in at.results] == [status, 200]


async def test_a_redirect_is_not_followed() -> None:
    async with desk((302, {"Location": "/elsewhere"}), OK) as at:
        with pytest.raises(ProviderError, match="302"):
            await at.ask()

    assert len(at.service.seen) == 1


async def test_the_body_of_a_denial_is_not_repeated() -> None:
    async with desk(401) as at:
        with pytest.raises(ProviderKeyError) as caught:
            await at.ask()

    assert "prompt" not in f"{caught.value} {caught.value.hint}"


async def test_calls_side_by_side_share_one_denial_and_a_later_call_tries_again() -> None:
    async with desk(401) as at:
        done = await asyncio.gather(*(at.ask() for _ in range(8)), return_exceptions=True)
        assert [type(one) for one in done] == [ProviderKeyError] * 8
        assert len({str(one) for one in done}) == 1
        assert len(at.service.seen) == 1

        with pytest.raises(ProviderKeyError):
            await at.ask()
        assert len(at.service.seen) == 2


async def test_a_first_call_that_is_cancelled_holds_up_nobody() -> None:
    async with desk("hang", OK) as at:
        first = asyncio.create_task(at.ask())
        await asyncio.wait_for(at.service.hung.wait(), 10)
        others = [asyncio.create_task(at.ask()) for _ in range(3)]
        first.cancel()

        assert await asyncio.wait_for(asyncio.gather(*others), 10) == [OK] * 3


async def test_once_the_key_is_accepted_calls_run_side_by_side() -> None:
    async with desk(OK, "hang") as at:
        await at.ask()
        others = [asyncio.create_task(at.ask()) for _ in range(3)]
        async with asyncio.timeout(10):
            while len(at.service.seen) < 4:
                await asyncio.sleep(0.01)
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


async def test_a_circuit_that_opens_at_the_last_failure_ends_the_tries_with_the_failure_itself() -> None:
    async with desk(500, fetch_tries=5, cb_failure_threshold=2) as at:
        with pytest.raises(ProviderDownError, match="status 500"):
            await at.ask()

    assert (len(at.service.seen), len(at.time.slept)) == (2, 1)


async def test_the_code_of_a_refusal_goes_before_its_type() -> None:
    told = {"error": {"code": "too_long", "type": "invalid_request_error", "param": "input", "message": "No."}}

    async def refuse(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response(told, status=400)

    async with serve(refuse) as url, desk(OK, named=url) as at:
        with pytest.raises(ProviderRefusedError) as caught:
            await at.provider.post(f"{url}/v1", {}, CALL)

    assert (caught.value.reason, caught.value.about) == ("too_long", "input")


@pytest.mark.parametrize("limits", [{"limit_s": 0.2, "idle_s": 60.0}, {"limit_s": 60.0, "idle_s": 0.2}])
async def test_a_call_has_limits_of_its_own(limits: dict[str, float]) -> None:
    async with desk("hang", fetch_tries=1) as at:
        with pytest.raises(ProviderDownError):
            await asyncio.wait_for(at.ask(PaidCall("extract", "m-1", 1, TokenUsage(1), **limits)), 15)


async def test_an_answer_that_ends_early_is_counted_as_paid() -> None:
    half = saying(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", close=True)
    async with serve_raw(half) as url, desk(OK, fetch_tries=1) as at:
        with pytest.raises(ProviderDownError):
            await at.provider.post(f"{url}/v1", {}, CALL)

    [entry] = at.ledger.entries
    assert (entry.result, entry.usage) == ("unreachable", CALL.expected)


async def test_closing_waits_until_a_cancelled_call_is_written_down() -> None:
    async with desk("hang") as at:
        record, may_go = at.ledger.record, asyncio.Event()

        async def slowly(entry: LedgerEntry) -> None:
            await may_go.wait()
            await record(entry)

        at.ledger.record = slowly  # type: ignore[method-assign]
        task = asyncio.create_task(at.ask())
        await asyncio.wait_for(at.service.hung.wait(), 10)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        closing = asyncio.create_task(at.provider.close())
        await asyncio.sleep(0)
        assert not closing.done()

        may_go.set()
        await asyncio.wait_for(closing, 10)
        assert at.results == [("cancelled", None)]


async def test_errors_of_providers_have_codes_for_every_door() -> None:
    async with desk(401) as at:
        with pytest.raises(ProviderError) as caught:
            await at.ask()

    assert (caught.value.code, caught.value.http_status, caught.value.exit_code) == ("provider_key", 502, 1)
    assert "embed" not in f"{caught.value} {caught.value.hint}".lower()


async def test_a_key_goes_to_the_origin_that_was_named_and_to_no_other() -> None:
    async with desk(OK, named="https://api.example.org/v1") as at:
        await at.ask()

    assert at.service.seen[0][1] is None
    assert not at.provider.is_named


async def test_a_missing_key_is_a_matter_of_settings_and_no_attempt() -> None:
    async with desk(OK, key="env:NO_SUCH_KEY") as at:
        with pytest.raises(ConfigurationError, match="NO_SUCH_KEY"):
            await at.ask()

    assert (at.service.seen, at.ledger.entries) == ([], [])


async def test_a_service_that_is_not_there_is_down() -> None:
    async with desk(OK, fetch_tries=2) as at:
        gone = Provider(
            "http://127.0.0.1:9",
            key=Key.for_address("http://127.0.0.1:9", None, header="x"),
            client=at.provider._client,
            settings=settings(fetch_tries=2),
            ledger=at.ledger,
            sleep=at.time.sleep,
        )
        with pytest.raises(ProviderDownError, match=r"127\.0\.0\.1:9"):
            await gone.post("http://127.0.0.1:9/v1", {}, CALL)

    assert at.results == [("unreachable", None)] * 2


async def test_a_call_that_took_too_long_is_counted_as_paid() -> None:
    async with desk("hang", fetch_tries=1) as at:
        with pytest.raises(ProviderDownError):
            await at.ask(PaidCall("extract", "m-1", 1, TokenUsage(1_000, 500), Price(1.0, 4.0), limit_s=0.2))

    [entry] = at.ledger.entries
    assert (entry.result, entry.usd) == ("unreachable", pytest.approx(0.003))


async def test_a_call_that_is_cancelled_is_written_down() -> None:
    async with desk("hang") as at:
        task = asyncio.create_task(at.ask())
        await asyncio.wait_for(at.service.hung.wait(), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await at.provider.close()

        assert at.results == [("cancelled", None)]
        # The provider may have done the work, and wants it paid.
        assert at.ledger.entries[0].usd == pytest.approx(0.003)


@pytest.mark.parametrize(
    ("budget", "calls", "words"),
    [
        ({"budget_run_usd": 0.010}, 3, "this run"),
        ({"budget_source_usd": 0.007}, 2, "this source"),
        ({"budget_day_usd": 0.004}, 1, "one day"),
        ({"budget_day_usd": 0}, 0, "one day"),
    ],
)
async def test_a_call_beyond_a_budget_is_not_made(budget: dict[str, float], calls: int, words: str) -> None:
    async with desk(OK, **budget) as at:
        with charged_to(run_id=1, source_id=2):
            for _ in range(calls):
                await at.ask()
            with pytest.raises(BudgetExceededError, match=words) as caught:
                await at.ask()

    assert len(at.service.seen) == calls
    assert (caught.value.exit_code, caught.value.scope) == (5, next(iter(budget)).split("_")[1])


async def test_calls_at_the_same_time_share_a_budget() -> None:
    async with desk(OK, budget_day_usd=0.0031 * 3) as at:
        done = await asyncio.gather(*(at.ask() for _ in range(10)), return_exceptions=True)

    assert len(at.service.seen) == 3
    assert sum(isinstance(one, BudgetExceededError) for one in done) == 7


async def test_budgets_of_another_run_source_or_day_are_not_touched() -> None:
    async with desk(OK, budget_run_usd=0.003, budget_source_usd=0.003) as at:
        for number in range(3):
            with charged_to(run_id=number, source_id=number):
                await at.ask()
        await at.ask()

    assert len(at.service.seen) == 4


@pytest.mark.parametrize(
    ("budget", "age", "is_allowed"),
    [
        ("budget_source_usd", timedelta(days=29, hours=23), False),
        ("budget_source_usd", timedelta(days=30, minutes=1), True),
        ("budget_day_usd", timedelta(hours=10, minutes=30), False),
        ("budget_day_usd", timedelta(hours=10, minutes=31), True),
    ],
)
async def test_a_budget_counts_what_was_spent_in_its_period(budget: str, age: timedelta, is_allowed: bool) -> None:
    settings: dict[str, Any] = {budget: 0.005}
    async with desk(OK, **settings) as at:
        with charged_to(source_id=2):
            await at.ask()
            [spent] = at.ledger.entries
            at.ledger.entries[:] = [replace(spent, at=NOW - age, usd=0.004)]
            with nullcontext() if is_allowed else pytest.raises(BudgetExceededError):
                await at.ask()

    assert len(at.ledger.entries) == 1 + is_allowed


async def test_calls_that_are_over_are_no_longer_in_flight() -> None:
    # This ledger counts no tokens, so only what is in flight counts.
    async with desk(OK, budget_day_tokens=2_000) as at:
        for _ in range(3):
            await at.ask()

    assert len(at.service.seen) == 3


@pytest.mark.parametrize("budget", ["budget_run_usd", "budget_source_usd", "budget_day_usd", "budget_call_usd"])
async def test_a_budget_needs_a_price(budget: str) -> None:
    settings: dict[str, Any] = {budget: 1}
    async with desk(OK, **settings) as at:
        with pytest.raises(BudgetExceededError, match="price of m-1"):
            await at.ask(PaidCall("extract", "m-1", 1, TokenUsage(1)))

    assert at.service.seen == []


async def test_an_answer_that_was_paid_for_survives_a_ledger_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    async with desk(OK) as at:

        async def fail(entry: LedgerEntry) -> None:
            raise StoreUnavailableError("the disk is gone")

        at.ledger.record = fail  # type: ignore[method-assign]
        assert await at.ask() == OK

    assert "missing in the ledger" in caplog.text


async def test_a_call_that_is_cancelled_anywhere_is_counted_once_and_reserves_nothing_for_good() -> None:
    purse = Purse(usd=1.0)
    async with desk(OK, budget_day_usd=100.0) as one:
        with paid_from(purse):
            async for number in cancelled_at_each_wait(one.ask):
                await one.provider.close()
                spent = sum(entry.usd or 0.0 for entry in one.ledger.entries)
                assert purse.spent_usd == pytest.approx(spent), number
                assert (one.provider._begun_usd, one.provider._begun_tokens) == (
                    pytest.approx(one.provider._settled_usd),
                    one.provider._settled_tokens,
                )
                assert await one.ask() == OK
        results = [result for result, _ in one.results]

    assert "cancelled" in results
    assert set(results) == {"cancelled", "answered"}
