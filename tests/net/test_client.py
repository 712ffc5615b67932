import asyncio
import gzip

import pytest
from aiohttp import web

from rowen.errors import BadAnswerError, BadUrlError, ConfigurationError, ConnectError
from rowen.net.client import Client
from rowen.net.credentials import Credentials
from rowen.net.response import ACCEPT_ENCODING, Response
from rowen.net.sessions import USER_AGENT
from rowen.version import __version__

from .world import Answer, Counts, Names, client, run, saying, serve, serve_raw, settings

ETAG = 'W/"5f3a-60c1"'
MODIFIED = "Thu, 01 Jan 2026 00:00:00 GMT"


def echo_headers(request: web.BaseRequest) -> web.Response:
    return web.json_response(dict(request.headers))


async def echo(request: web.BaseRequest) -> web.Response:
    return echo_headers(request)


def once(answer: Answer, path: str = "/", **options: object) -> Response:
    async def scenario() -> Response:
        async with serve(answer) as base, client() as fetch:
            return await fetch.get(base + path, **options)

    return run(scenario())


def test_a_page_comes_back_with_all_that_its_headers_say():
    async def answer(request: web.BaseRequest) -> web.Response:
        headers = {"ETag": ETAG, "Last-Modified": MODIFIED, "Content-Type": "text/html; charset=utf-8"}
        return web.Response(body=b"<html>hi", headers=headers)

    page = once(answer, "/a?b=c#d")

    assert (page.status, page.body, page.ok, page.not_modified) == (200, b"<html>hi", True, False)
    assert (page.etag, page.last_modified) == (ETAG, MODIFIED)
    assert (page.media_type, page.charset) == ("text/html", "utf-8")
    assert page.url.endswith("/a?b=c")
    assert (page.redirects, page.moved_to) == ((), None)
    assert page.headers["content-type"] == "text/html; charset=utf-8"


def test_requests_name_themselves_and_ask_for_the_same_codings_always():
    sent = once(echo).body.decode()

    assert f'"User-Agent": "{USER_AGENT}"' in sent
    assert f"Rowen/{__version__}" == USER_AGENT
    assert f'"Accept-Encoding": "{ACCEPT_ENCODING}"' in sent
    assert "Cookie" not in sent
    assert "Referer" not in sent


def test_the_user_agent_can_be_set():
    async def scenario() -> bytes:
        async with serve(echo) as base, client(user_agent="Library/2 (+mailto:me@library.example)") as fetch:
            return (await fetch.get(base)).body

    assert b"Library/2 (+mailto:me@library.example)" in run(scenario())


def test_accept_and_other_headers_are_sent():
    sent = once(echo, accept="text/markdown", headers={"Accept-Language": "de"}).body

    assert b'"Accept": "text/markdown"' in sent
    assert b'"Accept-Language": "de"' in sent


def test_unchanged_etag_costs_one_request_and_no_body():
    async def scenario() -> tuple[Response, Counts]:
        meter = Counts()

        async def answer(request: web.BaseRequest) -> web.Response:
            assert request.headers["If-None-Match"] == ETAG
            assert request.headers["If-Modified-Since"] == MODIFIED
            return web.Response(status=304, headers={"ETag": ETAG})

        async with serve(answer) as base, client(meter=meter) as fetch:
            return await fetch.get(base, etag=ETAG, last_modified=MODIFIED), meter

    page, meter = run(scenario())
    assert (page.status, page.not_modified, page.body, page.etag) == (304, True, b"", ETAG)
    assert meter == Counts(requests=1, not_modified=1, bytes=0)


@pytest.mark.parametrize(
    ("given", "header"),
    [({"etag": ETAG}, "If-None-Match"), ({"last_modified": MODIFIED}, "If-Modified-Since")],
)
def test_a_server_with_only_one_validator_gets_only_that_one(given: dict[str, str], header: str):
    async def answer(request: web.BaseRequest) -> web.Response:
        assert [name for name in request.headers if name.startswith("If-")] == [header]
        return web.Response(status=304)

    assert once(answer, **given).not_modified


def test_without_validators_nothing_conditional_is_sent():
    assert b"If-" not in once(echo).body


def test_a_304_to_an_unconditional_request_is_an_error():
    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(status=304)

    with pytest.raises(BadAnswerError, match="answered 304 to a request without validators"):
        once(answer)


@pytest.mark.parametrize("status", [200, 203, 204, 400, 401, 403, 404, 410, 418, 451, 501, 505, 599])
def test_every_final_status_is_returned_after_one_request(status: int):
    async def scenario() -> tuple[Response, Counts]:
        meter = Counts()

        async def answer(request: web.BaseRequest) -> web.Response:
            return web.Response(status=status, body=None if status == 204 else b"page")

        async with serve(answer) as base, client(meter=meter) as fetch:
            return await fetch.get(base), meter

    page, meter = run(scenario())
    assert (page.status, meter.requests) == (status, 1)


def test_bytes_are_counted_as_they_came_over_the_wire():
    packed = gzip.compress(b"word " * 10_000)

    async def scenario() -> tuple[Response, Counts]:
        meter = Counts()

        async def answer(request: web.BaseRequest) -> web.Response:
            return web.Response(body=packed, headers={"Content-Encoding": "gzip"})

        async with serve(answer) as base, client(meter=meter) as fetch:
            return await fetch.get(base), meter

    page, meter = run(scenario())
    assert (len(page.body), meter) == (50_000, Counts(1, 0, len(packed)))


def test_connections_are_kept_alive():
    async def scenario() -> int:
        peers = set()

        async def answer(request: web.BaseRequest) -> web.Response:
            assert request.transport is not None
            peers.add(request.transport.get_extra_info("peername"))
            return (
                web.Response(status=302, headers={"Location": "/x"}, text="moved")
                if request.path == "/"
                else web.Response(text="x")
            )

        async with serve(answer) as base, client() as fetch:
            for _ in range(5):
                await fetch.get(base)
        return len(peers)

    assert run(scenario()) == 1


def test_cookies_are_not_kept():
    async def answer(request: web.BaseRequest) -> web.Response:
        assert "Cookie" not in request.headers
        response = (
            web.Response(text="x") if request.path == "/b" else web.Response(status=302, headers={"Location": "/b"})
        )
        response.set_cookie("session", "1")
        return response

    assert once(answer).ok


def test_a_question_can_be_posted():
    async def scenario() -> Response:
        async def answer(request: web.BaseRequest) -> web.Response:
            assert request.method == "POST"
            return web.Response(body=await request.read(), headers={"Content-Type": request.headers["Content-Type"]})

        async with serve(answer) as base, client() as fetch:
            return await fetch.request("post", base, body=b"<q/>", headers={"Content-Type": "application/xml"})

    reply = run(scenario())
    assert (reply.body, reply.media_type) == (b"<q/>", "application/xml")


def test_a_unicode_host_is_requested_by_its_ascii_name():
    async def scenario() -> bytes:
        names = Names()
        names.addresses["xn--bcher-kva.example"] = [["127.0.0.1"]]
        async with serve(echo) as base, client(resolver=names) as fetch:
            return (await fetch.get(base.replace("127.0.0.1", "bücher.example") + "/ä")).body

    assert b'"Host": "xn--bcher-kva.example:' in run(scenario())


def test_urls_are_sent_as_they_were_written():
    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(text=request.raw_path)

    assert once(answer, "/a%2Cb;c=(d)?sig=%2B%2F%7E&x=a,b").body == b"/a%2Cb;c=(d)?sig=%2B%2F%7E&x=a,b"


def test_header_lines_of_30_kb_are_read():
    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(headers={"Content-Security-Policy": "x" * 30_000})

    assert len(once(answer).headers["content-security-policy"]) == 30_000


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "data:,x", "http://", "http://a..b/", f"http://{'a' * 70}.example/"]
)
def test_an_unfetchable_url_costs_only_itself(url: str):
    async def scenario() -> None:
        async with client() as fetch:
            with pytest.raises((BadUrlError, ConnectError)):
                await fetch.get(url)

    run(scenario())


@pytest.mark.parametrize(
    "answer", [b"220 mail.example ESMTP\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"\x00\x01\x02\r\n\r\n"]
)
def test_an_answer_that_is_not_http_is_an_error(answer: bytes):
    async def scenario() -> None:
        async with serve_raw(saying(answer)) as base, client() as fetch:
            with pytest.raises(BadAnswerError, match="not valid HTTP"):
                await fetch.get(base)

    run(scenario())


def test_credentials_reach_their_own_origin_only(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SITE_TOKEN", "s3cret")

    async def scenario() -> tuple[bytes, bytes]:
        async with serve(echo) as ours, serve(echo) as theirs, client() as fetch:
            credentials = Credentials.of(ours, {"Authorization": "Bearer env:SITE_TOKEN"})
            mine = await fetch.get(ours, credentials=credentials)
            other = await fetch.get(theirs, credentials=credentials)
            return mine.body, other.body

    mine, other = run(scenario())
    assert b'"Authorization": "Bearer s3cret"' in mine
    assert b"s3cret" not in other


def test_a_login_in_the_url_is_used_and_not_shown():
    async def scenario() -> Response:
        async with serve(echo) as base, client() as fetch:
            return await fetch.get(base.replace("//", "//me:s3cret@"))

    page = run(scenario())
    assert b'"Authorization": "Basic bWU6czNjcmV0"' in page.body
    assert "s3cret" not in page.url


def test_a_missing_credential_is_reported_before_anything_is_sent():
    async def scenario() -> Counts:
        meter = Counts()
        async with serve(echo) as base, client(meter=meter) as fetch:
            credentials = Credentials.of(base, {"Authorization": "Bearer env:ROWEN_TEST_NOWHERE"})
            with pytest.raises(ConfigurationError, match="ROWEN_TEST_NOWHERE"):
                await fetch.get(base, credentials=credentials)
            assert (await fetch.get(base)).ok
        return meter

    assert run(scenario()).requests == 1


def test_a_client_is_used_inside_async_with():
    with pytest.raises(RuntimeError, match="async with"):
        run(Client(settings()).get("http://a.example/"))


def test_cancelling_a_request_frees_the_turn_of_its_host():
    async def scenario() -> bytes:
        entered = asyncio.Event()

        async def answer(request: web.BaseRequest) -> web.Response:
            if request.path == "/hang":
                entered.set()
                await asyncio.Event().wait()
            return web.Response(text="next")

        async with serve(answer) as base, client(host_concurrency=1) as fetch:
            hanging = asyncio.create_task(fetch.get(base + "/hang"))
            await entered.wait()
            hanging.cancel()
            with pytest.raises(asyncio.CancelledError):
                await hanging
            return (await fetch.get(base)).body

    assert run(scenario()) == b"next"


def test_the_addresses_of_a_bounded_number_of_names_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rowen.net.sessions._NAMES_KEPT", 20)
    names = Names(**{f"host{number}_example": [["127.0.0.1"]] for number in range(300)})

    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(headers={"Connection": "close"})

    async def scenario() -> tuple[int, int]:
        async with serve(answer) as base, client(resolver=names) as fetch:
            port = base.rpartition(":")[2]
            for number in range(300):
                await fetch.get(f"http://host{number}.example:{port}/")
            connector = fetch._sessions._direct.connector
            return len(connector._cached_hosts._addrs_rr), len(connector._conns)

    kept, idle = run(scenario(), limit_s=60)

    assert (kept, idle) == (20, 0)
