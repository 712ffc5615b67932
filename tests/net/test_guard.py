from ipaddress import ip_address, ip_network

import pytest
from aiohttp import web

from rowen.errors import AddressRefusedError
from rowen.net.target import AddressGuard, address_refused, is_own, refusal
from rowen.settings import Settings

from .world import Counts, Names, client, run, serve


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("0.0.0.0", "unspecified"),
        ("10.1.2.3", "private"),
        ("100.64.0.1", "carrier-grade NAT"),
        ("127.0.0.1", "loopback"),
        ("169.254.169.254", "link-local"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.0.0.8", "reserved"),
        ("192.0.0.255", "reserved"),
        ("192.0.2.1", "documentation"),
        ("192.88.99.1", "reserved"),
        ("192.168.1.1", "private"),
        ("198.18.0.1", "benchmarking"),
        ("198.19.255.255", "benchmarking"),
        ("198.51.100.1", "documentation"),
        ("203.0.113.9", "documentation"),
        ("224.0.0.1", "multicast"),
        ("255.255.255.255", "reserved"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("::7f00:1", "reserved"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::ffff:7f00:1", "loopback"),
        ("64:ff9b::7f00:1", "loopback"),
        ("64:ff9b::a9fe:a9fe", "link-local"),
        ("64:ff9b:1::1", "reserved"),
        ("2001::1", "Teredo"),
        ("2001:2::1", "reserved"),
        ("2001:1ff::1", "reserved"),
        ("4000::1", "reserved"),
        ("2001:db8::1", "documentation"),
        ("2002:7f00:1::1", "loopback"),
        ("2002:a00:1::", "private"),
        ("3fff::1", "documentation"),
        ("fc00::1", "private"),
        ("fd12:3456::1", "private"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("fec0::1", "site-local"),
        ("ff02::1", "multicast"),
    ],
)
def test_addresses_that_are_not_public_are_refused_with_a_reason(address: str, why: str):
    assert refusal(ip_address(address)) == why


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "100.63.255.255",
        "100.128.0.1",
        "172.32.0.1",
        "2606:4700::1111",
        "64:ff9b::101:101",
        "2002:101:101::1",
        "::ffff:1.1.1.1",
    ],
)
def test_public_addresses_pass(address: str):
    assert refusal(ip_address(address)) is None


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("127.0.0.1", "127.0.0.0/8"),
        ("::ffff:127.0.0.1", "127.0.0.0/8"),
        ("64:ff9b::7f00:1", "64:ff9b::/96"),
        ("fd00::1", "fd00::/8"),
        ("::1", "::1/128"),
    ],
)
def test_a_network_that_is_allowed_opens_its_addresses(address: str, network: str):
    assert refusal(ip_address(address), [ip_network(network)]) is None


def test_allowing_one_network_does_not_open_another():
    assert refusal(ip_address("10.0.0.1"), [ip_network("127.0.0.0/8"), ip_network("fd00::/8")]) == "private"


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "x.localhost:8080",
        "10.0.0.1",
        "10.0.0.1:80",
        "[::1]",
        "[::ffff:7f00:1]:81",
        "localhost4",
        "ip6-loopback",
    ],
)
def test_names_that_say_it_themselves_are_refused_for_a_proxy_too(host: str):
    with pytest.raises(AddressRefusedError):
        AddressGuard().check_name(host)


@pytest.mark.parametrize("host", ["localhost.", "LOCALHOST.:80", "127.0.0.1.", "a b", "[::1", ""])
def test_a_host_with_a_final_dot_and_an_invalid_host_are_refused_for_a_proxy_too(host: str):
    with pytest.raises(AddressRefusedError):
        AddressGuard().check_name(host)


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("127.0.0.1:8080", True),
        ("localhost", True),
        ("10.0.0.1", False),
        ("1.1.1.1", False),
        ("Inside.example.:443", True),
        ("outside.example", False),
        ("a b", False),
    ],
)
def test_a_host_is_our_own_if_it_is_not_public_and_was_allowed(host: str, own: bool):
    networks = ("127.0.0.0/8", "1.1.1.0/24")
    settings = Settings(allow_addresses=networks, allow_addresses_for={"inside.example": ("10.0.0.0/8",)})
    assert is_own(host, settings) is own


@pytest.mark.parametrize(
    ("host", "refusals", "opens"),
    [
        ("inside.example:8080", "10.0.0.1 (private)", "inside.example=10.0.0.1 opens"),
        ("inside.example", "127.0.0.5 (loopback)", "inside.example=127.0.0.0/8 opens"),
        ("[fd00::1]:80", "fd00::1 (private)", "[fd00::1]=fd00::1 opens"),
    ],
)
def test_a_refusal_names_the_setting_that_opens_this_host(host: str, refusals: str, opens: str):
    assert f"ROWEN_ALLOW_ADDRESSES_FOR={opens}" in (address_refused(host, refusals).hint or "")


def test_other_names_are_left_to_the_proxy():
    AddressGuard().check_name("example.org:8080")
    AddressGuard([ip_network("127.0.0.0/8")]).check_name("localhost")


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "2130706433", "0x7f.1", "0177.0.0.1", "[::ffff:7f00:1]", "[::ffff:127.0.0.1]", "１２７.0.0.1"]
)
def test_every_spelling_of_loopback_is_refused_before_a_byte_is_sent(host: str):
    async def scenario() -> Counts:
        asked = meter = Counts()

        async def answer(request: web.BaseRequest) -> web.Response:
            raise AssertionError

        async with serve(answer) as base, client(meter=meter, allow_addresses=()) as fetch:
            with pytest.raises(AddressRefusedError) as refused:
                await fetch.get(base.replace("127.0.0.1", host))
        assert "127.0.0.1" in str(refused.value) or "::ffff:7f00:1" in str(refused.value)
        assert "ROWEN_ALLOW_ADDRESSES" in (refused.value.hint or "")
        assert (refused.value.exit_code, refused.value.retryable, refused.value.trips_circuit) == (5, False, False)
        return asked

    assert run(scenario()).requests == 0


def test_a_name_that_leads_to_private_addresses_only_is_refused_by_all_of_them():
    async def scenario() -> None:
        names = Names(inside_example=[["10.0.0.1", "fd00::1"]])
        async with client(resolver=names) as fetch:
            with pytest.raises(AddressRefusedError) as refused:
                await fetch.get("http://inside.example/")
        assert "inside.example leads to 10.0.0.1 (private) and fd00::1 (private), which" in str(refused.value)

    run(scenario())


def test_of_several_addresses_only_those_that_are_allowed_are_used():
    async def scenario() -> bytes:
        names = Names(mixed_example=[["10.0.0.1", "127.0.0.1", "fd00::1"]])

        async def answer(request: web.BaseRequest) -> web.Response:
            return web.Response(text="reached")

        async with serve(answer) as base, client(resolver=names) as fetch:
            return (await fetch.get(base.replace("127.0.0.1", "mixed.example"))).body

    assert run(scenario()) == b"reached"


def test_a_name_that_changes_its_address_between_requests_is_caught():
    async def scenario() -> None:
        names = Names(rebind_example=[["127.0.0.2"], ["127.0.0.1"]])

        async def answer(request: web.BaseRequest) -> web.Response:
            return web.Response(text="public", headers={"Connection": "close"})

        async with (
            serve(answer, host="127.0.0.2") as base,
            client(resolver=names, allow_addresses="127.0.0.2/32") as fetch,
        ):
            url = base.replace("127.0.0.2", "rebind.example")
            assert (await fetch.get(url)).body == b"public"

            fetch._sessions._direct.connector.clear_dns_cache()
            with pytest.raises(AddressRefusedError, match=r"127\.0\.0\.1 \(loopback\)"):
                await fetch.get(url)

    run(scenario())


def test_a_redirect_to_a_private_address_is_refused():
    async def scenario() -> None:
        async def answer(request: web.BaseRequest) -> web.Response:
            return web.Response(status=302, headers={"Location": "http://169.254.169.254/latest/meta-data/"})

        async with serve(answer) as base, client() as fetch:
            with pytest.raises(AddressRefusedError, match=r"169\.254\.169\.254 \(link-local\)"):
                await fetch.get(base)

    run(scenario())


def test_a_refusal_neither_opens_nor_closes_the_circuit():
    async def scenario() -> None:
        async with client(allow_addresses=()) as fetch:
            for _ in range(7):
                with pytest.raises(AddressRefusedError):
                    await fetch.get("http://10.0.0.1/")
            stats = fetch.breakers.of("10.0.0.1").stats()
            assert (stats.state, stats.failures, stats.successes) == ("closed", 0, 0)

    run(scenario())
