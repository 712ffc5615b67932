"""What every request passes: limits, keys of repeated requests, what is written down, base path and proxies."""

import json
import logging
from typing import Any

import httpx
import pytest

from rowen.operations.limits import Buckets
from rowen.server.logs import JsonLine
from rowen.server.requests import place_of
from tests.conftest import ScratchDatabase
from tests.server.interfaces import interface

KEY = {"Idempotency-Key": "5f2b9c1d"}


async def test_a_body_that_is_too_large_is_refused_before_it_is_read(database: ScratchDatabase) -> None:
    async def endless() -> Any:
        for _ in range(100):
            sent.append(1)
            yield b"x" * 1000

    sent: list[int] = []
    async with interface(database, request_limit_bytes=2000) as it:
        announced = await it.http.post("/api/v1/poke", content=b"x" * 3000)
        streamed = await it.http.post("/api/v1/poke", content=endless())

    assert (announced.status_code, streamed.status_code) == (413, 413)
    assert (announced.json()["code"], len(sent)) == ("request_too_large", 3)


async def test_a_rate_limited_caller_gets_the_time_to_retry(database: ScratchDatabase) -> None:
    async with interface(database, trusts_loopback=False, requests_per_minute=5) as it:
        token, other = await it.token("read"), await it.token("read", "other")
        found = [await it.http.get("/api/v1/me", headers=token) for _ in range(6)]
        beside = await it.http.get("/api/v1/me", headers=other)
    async with interface(database, requests_per_minute=1) as it:
        near = [(await it.http.get("/api/v1/me")).status_code for _ in range(3)]

    assert [answer.status_code for answer in found] == [200] * 5 + [429]
    assert found[5].json()["code"] == "too_many_requests"
    assert 1 <= int(found[5].headers["Retry-After"]) <= 12
    assert (beside.status_code, near) == (200, [200, 200, 200])


def test_a_bucket_refills_and_forgets_old_callers() -> None:
    now = [0.0]
    bucket = Buckets(per_minute=2, clock=lambda: now[0])
    for _ in range(2):
        bucket.take("ada")

    with pytest.raises(Exception, match="More than 2 requests") as refused:
        bucket.take("ada")
    now[0] = 30.0
    bucket.take("ada")
    for number in range(10_001):
        bucket.take(str(number))

    assert refused.value.retry_in_s == pytest.approx(30)  # type: ignore[attr-defined]
    assert len(bucket._left) == 10_000


async def test_a_repeated_request_is_done_once_and_answered_alike(database: ScratchDatabase) -> None:
    body = {"name": "hay", "query": "dry hay"}
    async with interface(database) as it:
        first = await it.http.post("/api/v1/saved-searches", json=body, headers=KEY)
        again = await it.http.post("/api/v1/saved-searches", json=body, headers=KEY)
        other = await it.http.post("/api/v1/saved-searches", json={**body, "name": "b"}, headers=KEY)
        without = await it.http.post("/api/v1/saved-searches", json=body)

    assert (first.status_code, again.status_code) == (201, 201)
    assert (again.json(), again.headers["location"]) == (first.json(), first.headers["location"])
    assert (again.headers["idempotent-replayed"], "idempotent-replayed" in first.headers) == ("true", False)
    assert (other.status_code, other.json()["code"], without.status_code) == (400, "usage", 403)


async def test_an_idempotency_key_belongs_to_its_caller_and_failures_may_be_repeated(database: ScratchDatabase) -> None:
    async with interface(database, trusts_loopback=False) as it:
        ada, bob = await it.token("write", "ada"), await it.token("write", "bob")
        body = {"name": "hay", "query": "dry hay"}
        one = await it.http.post("/api/v1/saved-searches", json=body, headers={**ada, **KEY})
        two = await it.http.post("/api/v1/saved-searches", json=body, headers={**bob, **KEY})
        await it.rowen.searches.remove("hay")
        three = await it.http.post("/api/v1/saved-searches", json=body, headers={**bob, **KEY})
        wrong = await it.http.post("/api/v1/saved-searches", json=body, headers={**bob, "Idempotency-Key": " " * 3})

    # What was refused because of a name that was taken may go well later.
    assert [answer.status_code for answer in (one, two, three, wrong)] == [201, 403, 201, 400]


async def test_a_pending_request_is_not_started_again(database: ScratchDatabase) -> None:
    async with interface(database) as it:
        await it.rowen.access.claim_answer("local", "5f2b9c1d", b"x" * 32)
        database.execute(
            "update idempotent_answer set fingerprint ="
            " sha256('/api/v1/queue/pause'::bytea || '\\x00'::bytea || ''::bytea || '\\x00'::bytea)"
        )
        busy = await it.http.post("/api/v1/queue/pause", headers=KEY)

    assert (busy.status_code, busy.json()["code"], busy.json()["retryable"]) == (409, "busy", True)


async def test_the_secret_of_a_new_token_is_kept_nowhere(database: ScratchDatabase) -> None:
    async with interface(database) as it:
        made = await it.http.post("/api/v1/tokens", json={"name": "ci", "scope": "write"}, headers=KEY)
        rows = database.query("select count(*) from idempotent_answer")
        listed = await it.http.get("/api/v1/tokens")

    assert made.json()["secret"].startswith("rowen_")
    assert (rows, "secret" in listed.text) == ([(0,)], False)


async def test_writes_are_audited_with_caller_and_address(database: ScratchDatabase) -> None:
    async with interface(database, trusts_loopback=False, client="203.0.113.9") as it:
        ada, reader = await it.token("write", "ada"), await it.token("read", "eve")
        done = await it.http.post("/api/v1/sources/nobody/sync", headers=ada)
        await it.http.post("/api/v1/sources/nobody/sync", headers=reader)
        await it.http.get("/api/v1/sources", headers=ada)
        await it.http.post("/api/v1/sources/nobody/sync")
        admin = await it.token("admin")
        page = await it.http.get("/api/v1/audit", params={"limit": 1}, headers=admin)
        rest = await it.http.get(page.links["next"]["url"], headers=admin)

    [refused], [written] = page.json()["items"], rest.json()["items"]
    assert (refused["principal"], refused["status"]) == ("token:eve", 403)
    assert (written["principal"], written["status"], written["address"]) == ("token:ada", 404, "203.0.113.9")
    assert (written["method"], written["path"]) == ("POST", "/api/v1/sources/nobody/sync")
    assert written["request"] == done.headers["x-request-id"]


async def test_the_log_is_json_with_the_request_id_and_without_the_query(
    database: ScratchDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    kept = Kept()
    kept.setFormatter(JsonLine())
    logger = logging.getLogger("rowen.server.logs")
    with caplog.at_level(logging.INFO, "rowen.server.logs"):
        logger.addHandler(kept)
        try:
            async with interface(database) as it:
                await it.http.get("/push/websub/secret-callback")
                answer = await it.http.get("/api/v1/search?q=private-words")
        finally:
            logger.removeHandler(kept)

    told = json.loads(lines[-1])
    assert told["request"] == answer.headers["x-request-id"]
    assert (told["path"], told["status"], told["principal"]) == ("/api/v1/search", 200, "local")
    assert (told["level"], "private-words" in lines[-1]) == ("info", False)
    assert "secret-callback" not in "".join(lines)


@pytest.mark.parametrize("path", ["/rowen/api/v1/sources", "/api/v1/sources"])
async def test_below_a_base_path_all_addresses_have_it(database: ScratchDatabase, path: str) -> None:
    async with interface(database, public_url="https://example.org/rowen/") as it:
        for name in ("a", "b"):
            await it.http.post("/rowen/api/v1/sources", json={"address": f"https://{name}.example", "kind": "web"})
        page = await it.http.get(path, params={"limit": 1})
        rest = await it.http.get(page.links["next"]["url"])
        made = await it.http.post(path, json={"address": "https://c.example", "kind": "web"})
        docs = await it.http.get("/rowen/api/docs")

    assert page.links["next"]["url"].startswith("/rowen/api/v1/sources?")
    assert (page.json()["items"][0]["name"], rest.json()["items"][0]["name"]) == ("a.example", "b.example")
    assert made.headers["location"] == "/rowen/api/v1/sources/c.example"
    assert 'href="/rowen/api/openapi.json"' in docs.text


async def test_forwarded_headers_are_believed_from_named_proxies_only(database: ScratchDatabase) -> None:
    told = {"X-Forwarded-For": "198.51.100.7", "X-Forwarded-Proto": "https"}

    async def address_and_cookie(client: str) -> tuple[str, bool]:
        async with interface(database, client=client, trusts_loopback=False, proxies="10.0.0.0/8") as it:
            made = await it.rowen.access.add_token(f"at-{client}", scope="write")
            entered = await it.http.post("/login", data={"token": made.secret}, headers=told)
            await it.http.post("/api/v1/sources/x/sync", headers={**told, "Authorization": f"Bearer {made.secret}"})
            [line] = await it.rowen.access.audit_log(principal=f"token:at-{client}")
            return line.address or "", "Secure" in entered.headers["set-cookie"]

    assert await address_and_cookie("10.1.2.3") == ("198.51.100.7", True)
    assert await address_and_cookie("192.0.2.4") == ("192.0.2.4", False)


async def test_a_proxy_on_this_machine_does_not_make_remote_clients_local(database: ScratchDatabase) -> None:
    async with interface(database, proxies="127.0.0.1/32") as it:
        answer = await it.http.get("/api/v1/me")

    assert answer.status_code == 401


async def test_an_unexpected_error_reveals_nothing(database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    async with interface(database) as it:

        async def broken(*_: Any, **__: Any) -> None:
            raise RuntimeError("a secret of the house")

        monkeypatch.setattr(it.rowen.sources, "list", broken)
        answer: httpx.Response = await it.http.get("/api/v1/sources")

    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert ("secret" in answer.text, answer.json()["code"]) == (False, "error")


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("203.0.113.7", "203.0.113.8", False),
        ("2001:db8::1", "2001:db8::ffff", True),
        ("2001:db8:0:0:1::", "2001:db8::", True),
        ("2001:db8:0:1::1", "2001:db8::1", False),
        ("::ffff:203.0.113.7", "::ffff:203.0.113.8", False),
    ],
)
def test_a_client_with_many_addresses_counts_as_one(one: str, other: str, is_same: bool) -> None:
    first, second = (place_of({"type": "http", "client": (address, 1)}) for address in (one, other))

    assert (first == second) is is_same


async def test_a_person_meets_a_page_and_a_program_a_problem(database: ScratchDatabase) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    async with interface(database) as it:
        strange = await it.http.get("/no<such>", headers=browser)
        asked = await it.http.get("/nosuch")
        api = await it.http.get("/api/v1/nosuch", headers=browser)
        written = await it.http.post("/", headers=browser)
        foreign = await it.http.post("/jobs/pause", headers={**browser, "Sec-Fetch-Site": "cross-site"})

    kinds = [one.headers["content-type"].partition(";")[0] for one in (strange, asked, api, written, foreign)]
    assert kinds == ["text/html", *["application/problem+json"] * 2, *["text/html"] * 2]
    assert [one.status_code for one in (strange, asked, api, written, foreign)] == [404, 404, 404, 405, 403]
    assert "There is nothing at /no" in strange.text
    assert "<such>" not in strange.text
    assert set(written.headers["allow"].split(", ")) == {"GET", "HEAD"}
    assert "comes from a page of another site" in foreign.text


async def test_an_unexpected_error_is_a_page_without_its_message(
    database: ScratchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the words of a secret")

    async with interface(database) as it:
        monkeypatch.setattr(type(it.rowen.sources), "list_status", broken)
        found = await it.http.get("/sources", headers={"Accept": "text/html"})

    assert (found.status_code, found.headers["content-type"]) == (500, "text/html; charset=utf-8")
    assert "Something unexpected happened" in found.text
    assert "secret" not in found.text


async def test_the_idempotency_keys_of_a_caller_are_limited_and_known_ones_stay_valid(
    database: ScratchDatabase,
) -> None:
    body = {"name": "hay", "query": "hay"}
    async with interface(database) as it:
        first = await it.http.post("/api/v1/saved-searches", json=body, headers=KEY)
        database.execute(
            "insert into idempotent_answer (principal, key, fingerprint)"
            " select 'local', 'key-' || n, 'x' from generate_series(2, 10000) n"
        )
        again = await it.http.post("/api/v1/saved-searches", json=body, headers=KEY)
        other = {"json": {**body, "name": "straw"}}
        full = await it.http.post("/api/v1/saved-searches", **other, headers={"Idempotency-Key": "new"})
        without = await it.http.post("/api/v1/saved-searches", **other)

    assert (first.status_code, again.status_code, again.headers["idempotent-replayed"]) == (201, 201, "true")
    assert (full.status_code, full.headers["retry-after"]) == (429, "600")
    assert "10,000 idempotency keys of this caller are kept" in full.json()["detail"]
    assert without.status_code == 201
