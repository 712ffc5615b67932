import asyncio

import pytest
from aiohttp import web

from rowen.errors import AddressRefusedError, CircuitOpenError
from rowen.net.robots import Robots, RobotsRules, read_rules
from tests.hostile.clock import costs_at_most

from .world import Answer, Counts, FakeTime, client, run, serve

CLOSED = b"User-agent: *\nDisallow: /private\n"
SITE = "https://a.example"


def rules_of(answer: Answer, **changes: object) -> RobotsRules:
    async def scenario() -> RobotsRules:
        async with serve(answer) as base, client(**changes) as fetch:
            return await Robots(fetch).rules(base + "/some/page")

    return run(scenario())


def saying(status: int, body: bytes = b"", **headers: str) -> Answer:
    async def answer(request: web.BaseRequest) -> web.Response:
        assert request.path == "/robots.txt"
        return web.Response(status=status, body=body, headers=headers)

    return answer


@pytest.mark.parametrize(
    "body",
    [
        CLOSED,
        b"\xef\xbb\xbf" + CLOSED,
        CLOSED.decode().encode("utf-16"),
        b"\xfe\xff" + CLOSED.decode().encode("utf-16-be"),
        CLOSED.decode().encode("utf-16-le"),
        CLOSED.replace(b"\n", b"\r"),
        CLOSED.replace(b"\n", b"\r\n"),
        b"# caf\xe9\n" + CLOSED,
        b"\xef\xbb\xbf# caf\xe9\n" + CLOSED,
        b"User-agent: *\nDisallow: /\n\nUser-agent: rowen\nDisallow: /private",
        b"User-agent: Rowen/1.0\nDisallow: /private\n\nUser-agent: *\nDisallow: /",
        b"User-agent: Other\nUser-agent: ROWEN\nDisallow: /private\n\nUser-agent: *\nDisallow: /",
        b"User-agent: *\nDisallow: /priv*te\nDisallow: /*.bak$",
    ],
)
def test_a_file_is_parsed_in_every_common_form(body: bytes):
    rules = read_rules(body)

    assert rules.allows(f"{SITE}/public")
    assert not rules.allows(f"{SITE}/private/x")


def test_the_longest_rule_wins():
    rules = read_rules(b"User-agent: *\nDisallow: /a\nAllow: /a/b\nDisallow: /a/b/c")

    assert [rules.allows(SITE + path) for path in ("/a", "/a/b", "/a/b/c")] == [False, True, False]


def test_delay_and_sitemaps_are_returned():
    rules = read_rules(
        b"Sitemap: https://a.example/one.xml\nUser-agent: *\nCrawl-delay: 2.5\nSitemap: https://a.example/two.xml\n"
        b"Sitemap: https://a.example/one.xml\n"
    )

    assert rules.crawl_delay_s == 2.5
    assert rules.sitemaps == ("https://a.example/one.xml", "https://a.example/two.xml")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00\x01\x02\xff" * 50,
        b"<!DOCTYPE html><title>Welcome</title>User-agent: *\nDisallow: /",
        b"  <p>Disallow: /",
    ],
)
def test_a_page_instead_of_a_robots_file_allows_everything(body: bytes):
    assert read_rules(body).allows(f"{SITE}/private")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_no_file_allows_everything(status: int):
    rules = rules_of(saying(status, CLOSED))

    assert rules.allows(f"{SITE}/private")
    assert rules.refused is None


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_failing_server_refuses_everything_with_a_reason(status: int):
    rules = rules_of(saying(status, CLOSED))

    assert not rules.allows(f"{SITE}/public")
    assert str(status) in (rules.refused or "")


def test_a_host_that_cannot_be_reached_refuses_everything():
    async def scenario() -> RobotsRules:
        async with serve(saying(200)) as base:
            pass
        async with client() as fetch:
            return await Robots(fetch).rules(base)

    assert "could not be read" in (run(scenario()).refused or "")


def test_endless_redirects_count_as_no_file():
    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(status=302, headers={"Location": "/robots.txt?again=1" + request.query_string})

    assert rules_of(answer).allows(f"{SITE}/x")


def test_a_file_behind_a_redirect_holds_for_the_requested_origin():
    async def answer(request: web.BaseRequest) -> web.Response:
        if request.path == "/robots.txt":
            return web.Response(status=301, headers={"Location": "/real.txt"})
        return web.Response(body=CLOSED)

    assert not rules_of(answer).allows(f"{SITE}/private")


def test_of_a_file_of_ten_megabytes_only_the_start_is_read():
    body = CLOSED + b"Disallow: /x\n" * (10 << 20 >> 4) + b"Disallow: /"

    async def scenario() -> tuple[RobotsRules, Counts]:
        meter = Counts()
        async with serve(saying(200, body)) as base, client(meter=meter, body_limit_bytes=1 << 20) as fetch:
            fetch._settings = fetch._settings.model_copy(update={"body_limit_bytes": 64 << 20})
            return await Robots(fetch).rules(base), meter

    with costs_at_most(5):
        rules, meter = run(scenario())

    assert not rules.allows(f"{SITE}/private")
    assert rules.allows(f"{SITE}/end")
    assert meter.bytes < 1 << 20


def test_a_file_is_fetched_once_and_again_when_its_time_is_over():
    async def scenario() -> tuple[Counts, Counts]:
        time, meter = FakeTime(), Counts()
        async with serve(saying(200, CLOSED)) as base, client(time, meter=meter) as fetch:
            robots = Robots(fetch, clock=time.clock)
            await asyncio.gather(*(robots.allows(f"{base}/{number}") for number in range(20)))
            first = Counts(**vars(meter))
            time.at += 3601
            assert not await robots.allows(f"{base}/private")
            return first, meter

    first, later = run(scenario())
    assert (first.requests, later.requests) == (1, 2)


def test_a_refusal_is_not_kept_for_long():
    async def scenario() -> tuple[bool, bool]:
        time = FakeTime()
        answers = iter([500, 500, 500, 200])

        async def answer(request: web.BaseRequest) -> web.Response:
            return web.Response(status=next(answers))

        async with serve(answer) as base, client(time) as fetch:
            robots = Robots(fetch, clock=time.clock)
            before = await robots.allows(base)
            time.at += 301
            return before, await robots.allows(base)

    assert run(scenario()) == (False, True)


def test_robots_itself_may_always_be_read():
    assert read_rules(b"User-agent: *\nDisallow: /").allows(f"{SITE}/robots.txt")


def test_an_open_circuit_and_a_refused_address_are_not_cached_as_rules():
    async def scenario() -> None:
        async with client(fetch_tries=1, allow_addresses=()) as fetch:
            with pytest.raises(AddressRefusedError):
                await Robots(fetch).rules("http://10.0.0.1/")
        async with serve(saying(500)) as base, client(cb_failure_threshold=1, fetch_tries=1) as fetch:
            await fetch.get(base + "/robots.txt")
            with pytest.raises(CircuitOpenError):
                await Robots(fetch).rules(base)

    run(scenario())


def test_the_rules_of_a_bounded_number_of_origins_are_kept():
    async def scenario() -> tuple[int, int]:
        async def answer(request: web.BaseRequest) -> web.Response:
            return web.Response(text="User-agent: *\nDisallow: /private")

        async with serve(answer) as base, client(proxy=base) as fetch:
            robots = Robots(fetch, most=20)
            for number in range(200):
                assert not await robots.allows(f"http://host{number}.example/private")
            return robots.remembered, len(robots._locks)

    assert run(scenario()) == (20, 20)
