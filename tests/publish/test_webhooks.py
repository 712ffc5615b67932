"""Receivers hear of each change once, in order, signed, whatever they answer; and hold nothing up."""

import asyncio
import base64
import hmac
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from random import Random
from typing import Any

import pytest
from aiohttp import web

from rowen import Complete, Fetched, RefusedError, UsageError
from rowen.jobs import webhooks as webhook_jobs
from rowen.model.changes import Change
from rowen.net.client import Client
from rowen.publish.webhooks import message
from rowen.store import webhooks
from tests.conftest import ScratchDatabase
from tests.harvest.shop import market, stock
from tests.portals.scripted import Scripted, page, shows
from tests.portals.site import Page, Site
from tests.store.interleaving import Moment, OtherClient, OtherProcess

SECRET = "whsec_" + base64.b64encode(b"s" * 24).decode()


class Receiver(Site):
    """Takes messages, as its `answers` say: a status for each, in turn; the last one stays."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = [200]
        self.heard: list[dict[str, Any]] = []
        self.accepted: list[int] = []
        self.headers: list[dict[str, str]] = []
        self.slow: int | None = None
        self.default = Page(handler=self._take)

    async def _take(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        status = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        told = json.loads(body)
        self.heard.append(told)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        assert _is_signed(self.headers[-1], body, SECRET)
        while told["data"]["number"] == self.slow:
            await asyncio.sleep(0.01)
        if status == 200:
            self.accepted.append(told["data"]["number"])
        return web.Response(status=status, headers={"Location": "/elsewhere"} if status == 302 else {})


def _is_signed(headers: dict[str, str], body: bytes, secret: str) -> bool:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(key, signed, sha256).digest()).decode()
    return f"v1,{expected}" in headers["webhook-signature"].split()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    site = Receiver()
    yield site
    site.close()


@pytest.fixture(autouse=True)
def _prepared(kinds: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch) -> None:
    kinds(Scripted)
    monkeypatch.setenv("HOOK_SECRET", SECRET)


async def _grow(r: Any, count: int, *, name: str = "one", text: str = "Hay.") -> None:
    shows(*(Fetched(page(f"{name}/{n}", f"{text} {n}")) for n in range(count)), Complete())
    await r.sync(f"scripted:{name}")


async def _hook(r: Any, receiver: Receiver, **more: Any) -> None:
    await r.webhooks.add("team", f"{receiver.url}/hook", secret="env:HOOK_SECRET", **more)


async def test_each_change_arrives_once_signed_and_in_the_order_of_the_log(
    database: ScratchDatabase, receiver: Receiver
) -> None:
    async with database.open(trust_database=True) as r:
        await _hook(r, receiver)
        await _grow(r, 20)

        first, second = await r.webhooks.deliver("team"), await r.webhooks.deliver("team")

    assert (first, second) == (20, 0)
    assert sorted(receiver.accepted) == list(range(1, 21))
    assert receiver.heard[0]["type"] == "item.created"
    assert len({headers["webhook-id"] for headers in receiver.headers}) == 20


def _nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("value", [10**5_000, _nested(100_000), {1, 2}], ids=["digits", "levels", "no JSON"])
def test_a_change_that_cannot_be_told_whole_is_told_without_what_differs(value: Any) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    change = Change(7, "updated", "https://example.org/1", "One", "one", at, diff=[{"path": "/a", "before": value}])

    sent = message(1, change, secrets=[SECRET], timestamp=2)

    told = json.loads(sent.body)["data"]
    assert (told["number"], told["url"], told["diff"]) == (7, "https://example.org/1", None)
    assert _is_signed(sent.headers, sent.body, SECRET)


async def test_an_error_that_nobody_expected_is_a_failed_call_that_is_tried_again(
    database: ScratchDatabase, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = Client.request

    async def stumble(self: Client, method: str, url: str, **how: Any) -> Any:
        if b"/one/2" in (how.get("body") or b""):
            raise OverflowError("int too large to convert to float")
        return await request(self, method, url, **how)

    async with database.open(trust_database=True) as r:
        await _hook(r, receiver)
        await _grow(r, 4)
        with monkeypatch.context() as patch:
            patch.setattr(Client, "request", stumble)
            await r.webhooks.deliver("team")
        [failing] = await r.webhooks.list()
        database.execute("update webhook set next_try_at = null")
        await r.webhooks.deliver("team")
        [healed] = await r.webhooks.list()

    assert (failing.failures, failing.waiting > 0) == (1, True)
    assert "OverflowError" in (failing.last_error or "")
    assert (healed.failures, healed.waiting) == (0, 0)
    assert sorted(told["data"]["url"][-1] for told in receiver.heard) == ["0", "1", "2", "3"]


async def test_a_slow_answer_holds_up_no_other_and_what_was_taken_meanwhile_is_written_down(
    database: ScratchDatabase, receiver: Receiver
) -> None:
    receiver.slow = 1
    async with database.open(trust_database=True) as r:
        await _hook(r, receiver)
        await _grow(r, 40)

        telling = asyncio.create_task(r.webhooks.deliver("team"))
        async with asyncio.timeout(30):
            while database.query("select after, cardinality(ahead) from webhook") != [(0, 39)]:
                await asyncio.sleep(0.02)
        receiver.slow = None
        delivered = await telling

    assert (delivered, len(receiver.heard), receiver.accepted[-1]) == (40, 40, 1)
    assert database.query("select after, ahead from webhook") == [(40, [])]


async def test_only_what_a_receiver_wants_is_sent(database: ScratchDatabase, receiver: Receiver) -> None:
    async with database.open(trust_database=True) as r:
        await _grow(r, 1)
        name = (await r.sources.list())[0].name
        await _hook(r, receiver, sources=[name], kinds=["updated"], query="barley")
        await _grow(r, 3, name="two", text="Barley.")
        await _grow(r, 2, text="Barley.")

        await r.webhooks.deliver("team")
        (hook,) = await r.webhooks.list()

    assert [told["data"]["kind"] for told in receiver.heard] == ["updated"]
    assert hook.waiting == 0


async def test_a_query_is_compared_with_the_item_of_the_changed_source_alone(
    database: ScratchDatabase, receiver: Receiver
) -> None:
    async with database.open(trust_database=True) as r:
        await _hook(r, receiver, query="barley")
        for name, text in (("one", "Barley."), ("two", "Oats.")):
            shows(Fetched(page("shared", text)), Complete())
            await r.sync(f"scripted:{name}")

        await r.webhooks.deliver("team")

    assert receiver.accepted == [1]


async def test_a_receiver_hears_when_a_field_fulfils_a_condition_and_of_nothing_else(
    database: ScratchDatabase, receiver: Receiver
) -> None:
    with market(1) as (shop, model):
        async with database.open(**model.settings, trust_database=True) as r:
            await stock(r, shop, conditions=["price < 9"])
            await _hook(r, receiver, kinds=["matched"])
            for price in (20, 8, 7, 12):
                shop.sell(1, price=price)
                await r.sync("shop")
            await r.webhooks.deliver("team")
    [told] = [message["data"] for message in receiver.heard]
    assert (told["kind"], told["title"], told["schema"]) == ("matched", "Lamp 1: price < 9", "lamp@1.0.0")
    assert told["diff"] == [{"op": "changed", "path": "/price", "before": 20.0, "after": 8.0}]


@pytest.mark.parametrize("status", [500, 302, 429])
async def test_a_receiver_that_fails_is_called_again_with_what_it_did_not_take(
    database: ScratchDatabase, receiver: Receiver, status: int
) -> None:
    receiver.answers = [200, 200, status, 200]
    async with database.open(trust_database=True) as r:
        await _hook(r, receiver)
        await _grow(r, 12)

        await r.webhooks.deliver("team")
        (hook,) = await r.webhooks.list()
        assert (hook.failures, hook.state) == (1, "active")
        assert hook.next_try_at is not None
        await r.webhooks.deliver("team")
        log = await r.webhooks.deliveries("team", limit=100)

    assert sorted(receiver.accepted) == list(range(1, 13))
    assert sorted(delivery.number for delivery in log if delivery.error is None) == list(range(1, 13))
    assert [delivery.status for delivery in log if delivery.error] == [status]


async def test_a_receiver_that_says_it_is_gone_is_disabled_and_can_be_resumed(
    database: ScratchDatabase, receiver: Receiver
) -> None:
    receiver.answers = [410]
    async with database.open(trust_database=True) as r:
        await _hook(r, receiver)
        await _grow(r, 2)

        await r.webhooks.deliver("team")
        await r.webhooks.deliver("team")
        (hook,) = await r.webhooks.list()
        heard = len(receiver.heard)
        receiver.answers = [200]
        await r.webhooks.resume("team")
        await r.webhooks.deliver("team")

    assert (hook.state, hook.last_error) == ("disabled", "It answered with status 410.")
    assert heard == 2
    assert sorted(receiver.accepted) == [1, 2]


@pytest.mark.parametrize(("days", "state"), [(4.9, "active"), (5.1, "disabled")])
async def test_a_receiver_is_disabled_when_it_has_failed_for_five_days_and_not_before(
    database: ScratchDatabase, receiver: Receiver, days: float, state: str
) -> None:
    receiver.answers = [500]
    async with database.open(trust_database=True) as r:
        await _hook(r, receiver)
        await _grow(r, 1)
        await r.webhooks.deliver("team")
        database.execute(f"update webhook set failing_since = now() - interval '{days} days'")
        await r.webhooks.deliver("team")

        (hook,) = await r.webhooks.list()

    assert hook.state == state


async def test_a_receiver_that_acknowledges_a_change_before_it_fails_has_not_failed_for_days(
    database: ScratchDatabase, receiver: Receiver
) -> None:
    receiver.answers = [500]
    async with database.open(trust_database=True) as r:
        await _hook(r, receiver)
        await _grow(r, 3)
        await r.webhooks.deliver("team")
        database.execute("update webhook set failing_since = now() - interval '6 days', failures = 7")
        receiver.answers = [200, 500]
        await r.webhooks.deliver("team")

        (hook,) = await r.webhooks.list()

    assert (hook.state, hook.failures, len(receiver.accepted)) == ("active", 1, 1)
    assert database.query("select failing_since > now() - interval '1 hour' from webhook") == [(True,)]
    # As after a first failure: 5 s, not half a day.
    assert database.query("select next_try_at < now() + interval '1 minute' from webhook") == [(True,)]


FAILING = """
select failures, failing_since < now() - interval '1 day', next_try_at between now() and now() + interval '10 minutes',
       last_error
  from webhook
"""


async def test_a_failing_receiver_keeps_its_first_failure_and_waits_longer_until_a_call_succeeds(
    database: ScratchDatabase, receiver: Receiver
) -> None:
    receiver.answers = [500]
    async with database.open(trust_database=True) as r:
        await _hook(r, receiver)
        await _grow(r, 20)
        await r.webhooks.deliver("team")
        first_calls = len(receiver.heard)
        database.execute("update webhook set failing_since = now() - interval '2 days', failures = 2")
        await r.webhooks.deliver("team")
        failing = database.query(FAILING)
        longer = database.query("select next_try_at > now() + interval '3 minutes' from webhook")
        calls = len(receiver.heard) - first_calls
        receiver.answers = [200]
        await r.webhooks.deliver("team")

    assert (failing, longer) == ([(3, True, True, "It answered with status 500.")], [(True,)])
    assert (first_calls > 1, calls) == (True, 1)
    assert database.query(FAILING) == [(0, None, None, None)]


async def test_a_receiver_is_due_only_after_its_wait_and_at_once_when_it_is_resumed(
    database: ScratchDatabase, receiver: Receiver
) -> None:
    receiver.answers = [500]
    async with database.open(trust_database=True) as r:
        await _hook(r, receiver)
        await _grow(r, 1)
        due = [await _is_due(database)]
        await r.webhooks.deliver("team")
        due.append(await _is_due(database))
        database.execute("update webhook set next_try_at = now() - interval '1 second'")
        due.append(await _is_due(database))
        for since in (None, 0):
            database.execute("update webhook set next_try_at = now() + interval '1 day', failing_since = now()")
            await r.webhooks.resume("team", since=since)
            due.append(await _is_due(database))
        database.execute("update webhook set after = 1")
        due.append(await _is_due(database))

    assert due == [True, False, True, True, True, False]
    assert database.query("select failures, failing_since from webhook") == [(0, None)]


@pytest.mark.parametrize("status", ["todo", "doing"])
async def test_a_receiver_is_not_due_while_a_delivery_to_it_waits_or_runs(
    database: ScratchDatabase, receiver: Receiver, status: str
) -> None:
    async with database.open(trust_database=True) as r:
        await _hook(r, receiver)
        await _grow(r, 1)
        database.execute(
            "insert into procrastinate_workers default values;"
            " insert into procrastinate_jobs (queue_name, task_name, lock, queueing_lock, args, status, worker_id)"
            f" select 'deliver', 'deliver', 'webhook:' || id, 'deliver:' || id, '{{}}', '{status}', 1 from webhook"
        )

    assert not await _is_due(database)


async def _is_due(database: ScratchDatabase) -> bool:
    async with database.open() as r, r._engine.database.connection() as c:
        return await webhooks.ready(c) != []


async def test_a_replay_calls_a_receiver_that_waits_at_once(database: ScratchDatabase, receiver: Receiver) -> None:
    async with database.open(trust_database=True) as r:
        await _hook(r, receiver)
        await _grow(r, 3)
        database.execute("update webhook set ahead = '{3}', next_try_at = now() + interval '1 day'")
        async with r._engine.database.transaction() as c:
            await webhooks.set_after(c, 1, 1)

    assert database.query("select after, ahead, next_try_at from webhook") == [(1, [], None)]


async def test_the_error_of_the_earliest_change_that_failed_is_kept(
    database: ScratchDatabase, receiver: Receiver
) -> None:
    database.execute(LINES.format(3))
    async with database.open(trust_database=True) as r:
        await _hook(r, receiver, since=0)
        async with r._engine.database.connection() as c:
            (webhook,) = await webhooks.every(c, "webhook")
            batch = await webhooks.pending(c, webhook, limit=10)
        telling = webhook_jobs._Delivery(r._engine, webhook, batch)
        telling.note([webhooks.Attempt(number, 500, f"Error {number}.", 0.1) for number in (2, 1, 3)])
        await telling.write_failure(Random(1))
        (hook,) = await r.webhooks.list()

    assert hook.last_error == "Error 1."


async def test_what_each_of_two_processes_delivered_is_delivered(database: ScratchDatabase, receiver: Receiver) -> None:
    database.execute(LINES.format(4))
    async with database.open(trust_database=True) as r:
        await _hook(r, receiver, since=0)
        async with r._engine.database.connection() as c:
            (webhook,) = await webhooks.every(c, "webhook")
            batch = await webhooks.pending(c, webhook, limit=10)
        for number in (2, 4):
            telling = webhook_jobs._Delivery(r._engine, webhook, batch)
            telling.note([webhooks.Attempt(number, 200, None, 0.1)])
            await telling.write()
        delivered = await r.webhooks.deliver("team")

    assert (delivered, sorted(receiver.accepted)) == (2, [1, 3])
    assert database.query("select after, ahead from webhook") == [(4, [])]


async def test_only_the_last_calls_of_a_receiver_are_kept(
    database: ScratchDatabase, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "_DELIVERIES_KEPT", 4)
    async with database.open(trust_database=True) as r:
        await r.webhooks.add("another team", f"{receiver.url}/hook", secret="env:HOOK_SECRET")
        await _hook(r, receiver)
        await _grow(r, 3, name="one")
        for team in ("another team", "team"):
            await r.webhooks.deliver(team)
        await _grow(r, 3, name="two")
        await r.webhooks.deliver("team")
        log, of_the_other = (
            await r.webhooks.deliveries("team", limit=100),
            await r.webhooks.deliveries("another team", limit=100),
        )

    assert (len(log), {4, 5, 6} <= {delivery.number for delivery in log}) == (4, True)
    assert {delivery.number for delivery in of_the_other} == {1, 2, 3}


async def test_a_worker_calls_within_seconds_of_the_sync_and_a_dead_receiver_holds_nothing_up(
    database: ScratchDatabase, receiver: Receiver
) -> None:
    async with database.open(trust_database=True) as r, database.open(trust_database=True) as syncing:
        await _hook(r, receiver)
        await r.webhooks.add("dead", "http://127.0.0.1:9/hook", secret="env:HOOK_SECRET")
        working = asyncio.create_task(r.queue.work())
        await _grow(syncing, 3)

        async with asyncio.timeout(30):
            while len(receiver.accepted) < 3:
                await asyncio.sleep(0.02)
        r.stop()
        await working
        states = {hook.name: hook for hook in await r.webhooks.list()}

    assert sorted(receiver.accepted) == [1, 2, 3]
    assert states["team"].waiting == 0
    assert states["dead"].waiting == 3


async def test_what_was_sent_can_be_sent_once_more_from_a_number(database: ScratchDatabase, receiver: Receiver) -> None:
    async with database.open(trust_database=True) as r:
        await _hook(r, receiver)
        await _grow(r, 5)
        await r.webhooks.deliver("team")
        before = {headers["webhook-id"] for headers in receiver.headers}

        await r.webhooks.resume("team", since=3)
        await r.webhooks.deliver("team")

    assert receiver.accepted[5:] == [4, 5]
    assert {headers["webhook-id"] for headers in receiver.headers} == before


async def test_a_secret_is_changed_without_a_gap(
    database: ScratchDatabase, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEXT_SECRET", "a secret of a fair length")
    async with database.open(trust_database=True) as r:
        await _hook(r, receiver)
        await r.webhooks.rotate("team", secret="env:NEXT_SECRET")
        await _grow(r, 1)
        await r.webhooks.deliver("team")

    assert len(receiver.headers[0]["webhook-signature"].split()) == 2
    assert database.query("select secrets from webhook") == [(["env:NEXT_SECRET", "env:HOOK_SECRET"],)]


async def test_private_addresses_are_refused_and_nothing_is_lost(database: ScratchDatabase, receiver: Receiver) -> None:
    async with database.open(trust_database=True, allow_addresses="") as r:
        await _hook(r, receiver)
        await _grow(r, 1)
        await r.webhooks.deliver("team")

        (hook,) = await r.webhooks.list()

    assert receiver.heard == []
    assert "127.0.0.1" in (hook.last_error or "")
    assert hook.waiting == 1


async def test_secrets_of_this_machine_are_not_used_for_receivers_that_nobody_here_added(
    database: ScratchDatabase, receiver: Receiver
) -> None:
    async with database.open() as r:
        await _grow(r, 1)
        database.execute(
            "insert into webhook (name, url, secrets, after)"
            f" values ('strange', '{receiver.url}/hook', '{{env:HOOK_SECRET}}', 0)"
        )
        await r.webhooks.deliver("strange")

        (hook,) = await r.webhooks.list()

    assert receiver.heard == []
    assert "not agreed" in (hook.last_error or "")


async def test_what_is_wrong_is_refused_when_it_is_added(
    database: ScratchDatabase, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHORT", "short")
    async with database.open(trust_database=True) as r:
        await _hook(r, receiver)
        wrong: list[dict[str, Any]] = [
            {"secret": SECRET},
            {"secret": "env:SHORT"},
            {"secret": "env:HOOK_SECRET", "kinds": ["exploded"]},
        ]
        for one in wrong:
            with pytest.raises(UsageError):
                await r.webhooks.add("other", f"{receiver.url}/hook", **one)
        with pytest.raises(UsageError, match="in clear"):
            await r.webhooks.add("other", "https://me:pass@example.org/", secret="env:HOOK_SECRET")
        with pytest.raises(RefusedError, match="already"):
            await _hook(r, receiver)

        assert len(await r.webhooks.list()) == 1


@pytest.mark.parametrize("secret", ["short", "whsec_c2hvcnQgYnV0IGxvbmcgZW5v", "whsec_no base64, however long it is"])
async def test_a_secret_that_could_be_guessed_is_refused_when_it_is_changed_too(
    database: ScratchDatabase, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.setenv("WEAK", secret)
    async with database.open(trust_database=True) as r:
        await _hook(r, receiver)
        for change in (
            r.webhooks.add("other", f"{receiver.url}/hook", secret="env:WEAK"),
            r.webhooks.rotate((await r.webhooks.list())[0].name, secret="env:WEAK"),
        ):
            with pytest.raises(UsageError, match="could be guessed"):
                await change

    assert database.query("select secrets from webhook") == [(["env:HOOK_SECRET"],)]


LINES = """
insert into change (number, source_id, source, kind, key, url, title)
select coalesce((select max(number) from change), 0) + n, 1, 'one', 'created', int8send(n), 'https://example.org/' || n,
       ''
  from generate_series(1, {}) as n
"""


async def test_more_changes_than_are_read_at_a_time_all_arrive(database: ScratchDatabase, receiver: Receiver) -> None:
    database.execute(LINES.format(1_234))
    async with database.open(trust_database=True) as r:
        await _hook(r, receiver, since=0)
        delivered = await r.webhooks.deliver("team")
        (hook,) = await r.webhooks.list()

    assert (delivered, hook.after, hook.waiting) == (1_234, 1_234, 0)
    assert sorted(receiver.accepted) == list(range(1, 1_235))


async def test_a_receiver_that_wants_few_of_many_changes_is_brought_up_to_the_end(
    database: ScratchDatabase, receiver: Receiver
) -> None:
    database.execute(LINES.format(1_234))
    async with database.open(trust_database=True) as r:
        await _hook(r, receiver, since=0, kinds=["deleted"])
        delivered = await r.webhooks.deliver("team")
        (hook,) = await r.webhooks.list()

    assert (delivered, hook.after, hook.waiting, receiver.heard) == (0, 1_234, 0, [])


async def test_a_second_process_that_delivers_at_any_moment_neither_hides_a_change_nor_moves_the_number_back(
    database: ScratchDatabase, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_jobs, "_BATCH", 4)
    async with database.open(trust_database=True) as r:
        await _grow(r, 1)
        await _hook(r, receiver, since=0)
        with OtherClient(database) as other, OtherProcess(database, lock_timeout_ms=200) as process:

            def deliver() -> bool:
                other.store()
                database.execute(LINES.format(5))
                process.call(lambda rowen: rowen.webhooks.deliver("team"))
                numbers.append(_after(database))
                return True

            # A round in which the other process was first has few moments; the others count.
            number, most = 1, 0
            while number <= most or not most:
                database.execute(LINES.format(6))
                numbers: list[int] = []
                moment = Moment(number, deliver)
                await moment.during(r.webhooks.deliver("team"))
                most = max(most, moment.count)
                numbers.append(_after(database))
                await r.webhooks.deliver("team")
                assert numbers == sorted(numbers), f"the number went back at moment {number}"
                assert set(receiver.accepted) == set(range(1, _after(database) + 1)), f"moment {number}"
                number += 1
        (hook,) = await r.webhooks.list()

    assert (hook.waiting, hook.ahead) == (0, ())
    assert number > 20


def _after(database: ScratchDatabase) -> int:
    [(after,)] = database.query("select after from webhook")
    return int(after)


async def test_a_replay_at_any_moment_of_a_delivery_sends_all_once_more(
    database: ScratchDatabase, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_jobs, "_BATCH", 4)
    database.execute(LINES.format(10))
    async with database.open(trust_database=True) as r:
        await _hook(r, receiver, since=0)
        with OtherProcess(database, lock_timeout_ms=200) as process:
            heard = 0

            def replay() -> bool:
                nonlocal heard
                done = process.call(lambda rowen: rowen.webhooks.resume("team", since=3))
                heard = len(receiver.heard)
                return done

            number, moment = 1, Moment(0, replay)
            while number <= moment.count or not moment.count:
                await r.webhooks.resume("team", since=0)
                moment = Moment(number, replay)
                await moment.during(r.webhooks.deliver("team"))
                await r.webhooks.deliver("team")
                told = {one["data"]["number"] for one in receiver.heard[heard:]}
                assert not moment.acted or told >= set(range(4, 11)), f"{sorted(told)} after moment {number}"
                number += 1

    assert number > 20
