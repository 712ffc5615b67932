"""Private networks stay closed, however a name is spelt, and an opened one is open to whom it was opened for."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rowen.connectors.git.program import Remote, configuration
from rowen.errors import AddressRefusedError, ConfigurationError, UsageError
from rowen.net.client import Client
from rowen.net.target import AddressGuard
from rowen.settings import Settings, load
from tests.conftest import ScratchDatabase
from tests.portals.site import Page, Site

SPELLINGS = [
    *("localhost", "localhost.", "LOCALHOST", "LocalHost.:8080", "foo.localhost", "foo.localhost.", "localhost.."),
    *("127.0.0.1", "127.1", "0x7f.1", "0x7F000001", "2130706433", "0177.0.0.1", "127.0.0.1.", "0", "0.0.0.0"),
    *("[::1]", "::1", "[::1]:80", "[::ffff:127.0.0.1]", "::ffff:7f00:1", "[64:ff9b::7f00:1]", "[0:0:0:0:0:0:0:1]"),
    *("127。0。0。1", "ｌｏｃａｌｈｏｓｔ", "%6cocalhost", "10.1", "169.254.169.254", "0xa9fea9fe", "[fe80::1%25eth0]"),
    *("localhost.localdomain", "ip6-localhost", "ip6-loopback"),
]


@pytest.mark.parametrize("host", SPELLINGS)
def test_no_spelling_of_a_private_address_passes_behind_a_proxy(host: str) -> None:
    with pytest.raises(AddressRefusedError):
        AddressGuard().check_name(host)


@pytest.mark.parametrize(
    "host", ["example.org", "example.org.", "localhost.example.org", "93.184.215.14:8080", "a_b.example"]
)
def test_public_names_pass(host: str) -> None:
    AddressGuard().check_name(host)


@pytest.mark.parametrize(
    "url", ["http://localhost./", "http://foo.localhost.:8/", "http://127.1/", "http://[::ffff:127.0.0.1]/"]
)
async def test_the_client_does_not_ask_a_proxy_for_them(url: str) -> None:
    with closing(Site()) as proxy:
        async with Client(Settings(proxy=proxy.url, host_delay_s=0, fetch_tries=1)) as client:
            with pytest.raises(AddressRefusedError):
                await client.get(url)

        assert proxy.log == []


@pytest.mark.parametrize(
    "address", ["git+http://[::1]/x.git", "git+https://localhost./x.git", "git+http://127.1/x.git"]
)
async def test_git_does_not_ask_a_proxy_for_them(address: str) -> None:
    with pytest.raises(AddressRefusedError):
        await configuration(Remote.parse(address), None, load(proxy="http://proxy.example:3128"))


@pytest.mark.parametrize("address", ["git+http://LOCALHOST.:8080/x.git", "git+http://%6cocalhost:8080/x.git"])
async def test_git_is_told_the_checked_addresses_under_the_name_that_it_looks_up(address: str) -> None:
    remote = Remote.parse(address)

    told = await configuration(remote, None, load(allow_addresses="127.0.0.0/8,::1/128", proxy=None))

    assert remote.url == "http://localhost:8080/x.git"
    assert told["http.curloptResolve"].startswith("localhost:8080:")


# Networks that are open to some


@pytest.fixture
def trusted() -> Iterator[Site]:
    with closing(Site()) as site:
        site.put("/", "Intranet", "All about hay.")
        yield site


async def test_a_network_can_be_opened_for_the_sources_of_one_host(database: ScratchDatabase, trusted: Site) -> None:
    port = trusted.url.rpartition(":")[2]
    async with database.open(
        allow_addresses="", allow_addresses_for="localhost=127.0.0.0/8, x.example=10.0.0.0/8"
    ) as r:
        await r.sources.add(f"http://localhost:{port}/", name="mine", options={"max_pages": 1})
        await r.sources.add(f"http://127.0.0.1:{port}/", name="other", options={"max_pages": 1})
        mine = await r.sync("mine")
        asked = len(trusted.log)
        other = await r.sync("other")

    assert (mine.status, mine.stats.created) == ("completed", 1)
    assert (other.status, len(trusted.log)) == ("failed", asked)
    assert "ROWEN_ALLOW_ADDRESSES_FOR" in str(other.to_json())


async def test_a_stranger_s_source_is_not_led_into_a_network_that_is_open_to_another(
    database: ScratchDatabase, trusted: Site
) -> None:
    settings = load(allow_addresses_for="wiki.example=10.0.0.0/8,127.0.0.0/8")

    assert settings.for_source("https://wiki.example/start").allow_addresses == (
        *settings.allow_addresses_for["wiki.example"],
    )
    for url in (
        "https://stranger.example/",
        "https://wiki.example.stranger.example/",
        "https://stranger.example/wiki.example",
        "https://wiki.example@stranger.example/",
        "pkg:pypi/wiki.example",
        "file:///wiki.example",
    ):
        assert settings.for_source(url).allow_addresses == ()
    assert len(settings.for_source("git+https://WIKI.example.:8443/x.git").allow_addresses) == 2


async def test_no_option_of_a_source_opens_a_network(database: ScratchDatabase, tmp_path: Path) -> None:
    file = tmp_path / "portals.toml"
    entry = '[[source]]\nname = "x"\nkind = "web"\nurl = "http://x.example/"\n'
    file.write_text(entry + 'options = { allow_addresses = "127.0.0.0/8" }\n')
    async with database.open() as r:
        with pytest.raises(UsageError, match="allow_addresses"):
            await r.sources.apply(file, trust=True)


@pytest.mark.parametrize("value", ["10.0.0.0/8", "x.example=", "=10.0.0.0/8", "x.example=ten"])
def test_a_wrong_binding_is_named(value: str) -> None:
    with pytest.raises(ConfigurationError, match="allow_addresses_for"):
        load(allow_addresses_for=value)


async def test_a_redirect_out_of_an_open_source_stays_within_its_networks(
    database: ScratchDatabase, trusted: Site
) -> None:
    trusted.pages["/"] = Page(status=302, headers={"Location": "http://10.0.0.1/"})
    port = trusted.url.rpartition(":")[2]
    async with database.open(allow_addresses="", allow_addresses_for="localhost=127.0.0.0/8") as r:
        await r.sources.add(f"http://localhost:{port}/", name="mine", options={"scope": "domain", "robots": False})
        run = await r.sync("mine")

    assert run.stats.created == 0
