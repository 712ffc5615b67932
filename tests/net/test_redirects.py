from collections.abc import Mapping

import pytest
from aiohttp import web

from rowen.errors import BadUrlError, RedirectError
from rowen.net.credentials import Credentials
from rowen.net.response import Hop, Response

from .world import Answer, Counts, FakeTime, client, run, serve


def redirecting(routes: Mapping[str, tuple[int, str]]) -> Answer:
    async def answer(request: web.BaseRequest) -> web.Response:
        if request.path in routes:
            status, location = routes[request.path]
            return web.Response(status=status, headers={"Location": location}, text="over there")
        body = {"method": request.method, "sent": (await request.read()).decode(), "headers": dict(request.headers)}
        return web.json_response(body)

    return answer


def follow(
    routes: Mapping[str, tuple[int, str]], method: str = "GET", **options: object
) -> tuple[str, Response, Counts]:
    async def scenario() -> tuple[str, Response, Counts]:
        meter = Counts()
        async with serve(redirecting(routes)) as base, client(meter=meter) as fetch:
            return base, await fetch.request(method, base + "/a", **options), meter

    return run(scenario())


def test_redirects_are_followed_and_each_is_reported():
    base, page, meter = follow({"/a": (301, "/b"), "/b": (302, "/c")})

    assert page.url == f"{base}/c"
    assert page.redirects == (Hop(f"{base}/a", 301, f"{base}/b"), Hop(f"{base}/b", 302, f"{base}/c"))
    assert [hop.permanent for hop in page.redirects] == [True, False]
    assert meter.requests == 3


def test_only_an_unbroken_start_of_permanent_redirects_is_remembered():
    base, page, _ = follow({"/a": (308, "/b"), "/b": (301, "/c"), "/c": (307, "/d"), "/d": (301, "/e")})

    assert page.moved_to == f"{base}/c"
    assert follow({"/a": (302, "/b")})[1].moved_to is None


def test_validators_are_sent_only_to_the_url_they_belong_to():
    _, page, _ = follow({"/a": (301, "/b")}, etag='"x"', last_modified="Thu, 01 Jan 2026 00:00:00 GMT")

    assert page.status == 200
    assert b"If-" not in page.body


@pytest.mark.parametrize(
    ("status", "method", "arrives"),
    [(301, "POST", "GET"), (302, "POST", "GET"), (303, "POST", "GET"), (307, "POST", "POST"), (308, "POST", "POST")],
)
def test_a_post_is_repeated_only_if_the_redirect_requires_it(status: int, method: str, arrives: str):
    _, page, _ = follow({"/a": (status, "/b")}, method, body=b"q", headers={"Content-Type": "text/x"})

    assert f'"method": "{arrives}"'.encode() in page.body
    assert (b'"sent": "q"' in page.body) == (arrives == "POST")
    assert (b'"Content-Type": "text/x"' in page.body) == (arrives == "POST")


def test_neither_credentials_nor_own_headers_follow_to_another_origin():
    async def scenario() -> bytes:
        async with (
            serve(redirecting({})) as theirs,
            serve(redirecting({"/a": (302, f"{theirs}/b")})) as ours,
            client() as fetch,
        ):
            credentials = Credentials.of(ours, {"X-Key": "s3cret"})
            headers = {"X-Api-Key": "s3cret", "Cookie": "s3cret", "Accept-Language": "de"}
            with_login = ours.replace("//", "//me:s3cret@")
            page = await fetch.get(with_login + "/a", credentials=credentials, headers=headers, accept="text/html")
            return page.body

    body = run(scenario())
    assert b"s3cret" not in body
    assert b"Authorization" not in body
    assert b'"Accept-Language": "de"' in body
    assert b'"Accept": "text/html"' in body


def test_credentials_stay_on_their_own_origin():
    async def scenario() -> bytes:
        async with serve(redirecting({"/a": (302, "/b")})) as ours, client() as fetch:
            page = await fetch.get(ours + "/a", credentials=Credentials.of(ours, {"X-Key": "s3cret"}))
            return page.body

    assert b'"X-Key": "s3cret"' in run(scenario())


def test_a_circle_is_noticed_at_once():
    async def scenario() -> Counts:
        meter = Counts()
        async with serve(redirecting({"/a": (302, "/b"), "/b": (302, "/a#x")})) as base, client(meter=meter) as fetch:
            with pytest.raises(RedirectError, match="in a loop"):
                await fetch.get(base + "/a")
        return meter

    assert run(scenario()).requests == 2


def test_endless_redirects_end_after_ten():
    async def scenario() -> Counts:
        meter = Counts()

        async def answer(request: web.BaseRequest) -> web.Response:
            return web.Response(status=302, headers={"Location": f"/{int(request.path[1:]) + 1}"})

        async with serve(answer) as base, client(meter=meter) as fetch:
            with pytest.raises(RedirectError, match="more than 10 times"):
                await fetch.get(base + "/0")
        return meter

    assert run(scenario()).requests == 11


@pytest.mark.parametrize(
    "location", ["javascript:alert(1)", "file:///etc/passwd", "ftp://a.example/", "http://[", "data:,x"]
)
def test_a_redirect_out_of_http_is_refused(location: str):
    with pytest.raises(BadUrlError):
        follow({"/a": (302, location)})


def test_a_redirect_without_a_place_to_go_is_an_answer_like_any_other():
    async def scenario() -> Response:
        async def answer(request: web.BaseRequest) -> web.Response:
            return web.Response(status=301, text="somewhere")

        async with serve(answer) as base, client() as fetch:
            return await fetch.get(base)

    page = run(scenario())
    assert (page.status, page.body, page.redirects) == (301, b"somewhere", ())


def test_a_huge_body_beside_a_redirect_is_not_read():
    async def scenario() -> tuple[Response, Counts]:
        meter = Counts()

        async def answer(request: web.BaseRequest) -> web.Response:
            if request.path == "/b":
                return web.Response(text="here")
            return web.Response(status=302, headers={"Location": "/b"}, body=bytes(20 << 20))

        async with serve(answer) as base, client(meter=meter) as fetch:
            return await fetch.get(base), meter

    page, meter = run(scenario())
    assert page.body == b"here"
    assert meter.bytes < 1 << 20


def test_every_hop_waits_for_its_turn():
    async def scenario() -> list[float]:
        time = FakeTime()
        async with serve(redirecting({"/a": (302, "/b")})) as base, client(time, host_delay_s=5) as fetch:
            await fetch.get(base + "/a")
        return time.slept

    (wait_s,) = run(scenario())
    assert 5 <= wait_s <= 7.5
