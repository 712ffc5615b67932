"""The page on facts: the commands by which a price is watched do what it says."""

from collections.abc import Iterator

import pytest

from tests.cli.conftest import Cli, cli  # noqa: F401 (a fixture)
from tests.docs.markdown import ROOT, blocks, steps
from tests.harvest.shop import Shop
from tests.portals.language_model import Model
from tests.portals.site import Page

PAGE = ROOT / "docs" / "extraction.md"
HTML = (
    "<!doctype html><html><head><title>Lamp</title></head><body><main><h1>Aurora</h1><p>Name: Aurora</p>"
    "<p>Price: <b class=amount>{price}</b> EUR</p><p>Currency: EUR</p></main></body></html>"
)


@pytest.fixture
def shop() -> Iterator[Shop]:
    made = Shop(1)
    yield made
    made.close()


@pytest.fixture
def model() -> Iterator[Model]:
    made = Model()
    yield made
    made.close()


def test_a_price_is_watched_by_the_commands_of_the_page(cli: Cli, shop: Shop, model: Model) -> None:  # noqa: F811
    local = {"ROWEN_ALLOW_ADDRESSES": "127.0.0.0/8", "ROWEN_HOST_DELAY_S": "0", "ROWEN_PROBE": "false"}
    cli.environment |= {**model.environment, **local}
    [block] = blocks(PAGE, "console")
    commands = [step.command.replace("https://shop.example", shop.url) for step in steps(block)]
    shop.pages["/lamp"] = Page(HTML.format(price="19.5").encode())
    shown = []
    for number, command in enumerate(commands):
        if number == 2:
            shop.pages["/lamp"] = Page(HTML.format(price="14.5").encode())
        done = cli(*[word.strip("'") for word in command.split()[1:]])
        assert done.code == 0, done.err
        shown.append(done.out)

    assert model.calls == 1
    assert "extracted" in shown[3]
    assert "Lamp: price < 15" in shown[3]
    assert "~ /price\t19.5 → 14.5" in shown[4]
