import pytest
from aiohttp import web

from rowen.errors import AddressRefusedError, ConnectError
from rowen.settings import load

from .world import client, run, saying, serve, serve_raw


async def proxy(request: web.BaseRequest) -> web.Response:
    return web.json_response({"asked": str(request.url), "login": request.headers.get("Proxy-Authorization")})


async def direct(request: web.BaseRequest) -> web.Response:
    return web.Response(text="direct")


def test_a_proxy_gets_names_that_only_it_can_resolve():
    async def scenario() -> bytes:
        async with serve(proxy) as base, client(proxy=base, allow_addresses=()) as fetch:
            return (await fetch.get("http://public.example/page")).body

    assert b'"asked": "http://public.example/page"' in run(scenario())


def test_a_login_for_the_proxy_is_sent_to_it():
    async def scenario() -> bytes:
        async with serve(proxy) as base, client(proxy=base.replace("//", "//me:pass@")) as fetch:
            return (await fetch.get("http://public.example/")).body

    assert b'"login": "Basic bWU6cGFzcw=="' in run(scenario())


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1/", "http://169.254.169.254/", "http://localhost:81/", "http://[::1]/"]
)
def test_a_proxy_is_not_sent_to_private_addresses(url: str):
    async def scenario() -> None:
        async with serve(proxy) as base, client(proxy=base, allow_addresses=()) as fetch:
            with pytest.raises(AddressRefusedError):
                await fetch.get(url)

    run(scenario())


def test_hosts_can_be_kept_from_the_proxy():
    async def scenario() -> tuple[bytes, bytes]:
        async with serve(proxy) as base, serve(direct) as near, client(proxy=base, no_proxy="127.0.0.1,.corp") as fetch:
            return (await fetch.get(near)).body, (await fetch.get("http://127.0.0.1.example/")).body

    near, far = run(scenario())
    assert near == b"direct"
    assert b"asked" in far


def test_a_proxy_that_refuses_a_tunnel_is_an_error_without_its_password():
    async def scenario() -> None:
        answer = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
        async with (
            serve_raw(saying(answer)) as base,
            client(proxy=base.replace("//", "//me:s3cret@"), fetch_tries=1) as fetch,
        ):
            with pytest.raises(ConnectError, match=r"proxy did not connect to public\.example") as caught:
                await fetch.get("https://public.example/")
        assert "s3cret" not in repr(caught.value)

    run(scenario())


def test_the_proxy_comes_from_the_settings(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ROWEN_PROXY", raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://me:s3cret@proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "localhost, .corp")

    found = load()

    assert found.proxy is not None
    assert found.proxy.get_secret_value() == "http://me:s3cret@proxy.example:3128"
    assert "s3cret" not in repr(found)
    assert found.no_proxy == ("localhost", ".corp")

    monkeypatch.setenv("ROWEN_PROXY", "http://own.example:1")
    own = load().proxy
    assert own is not None
    assert own.get_secret_value() == "http://own.example:1"


def test_addresses_are_allowed_by_a_list_with_commas(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ROWEN_ALLOW_ADDRESSES", "127.0.0.0/8, ::1,10.1.2.3")

    assert [str(network) for network in load().allow_addresses] == ["127.0.0.0/8", "::1/128", "10.1.2.3/32"]
