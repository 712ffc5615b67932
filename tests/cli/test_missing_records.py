"""A record that could never be read: the summary says so until it can be."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.cli.conftest import Cli
from tests.portals.ckan import CkanPortal


@pytest.fixture
def portal() -> Iterator[CkanPortal]:
    with closing(CkanPortal()) as portal:
        yield portal


def test_each_sync_ends_with_3_and_names_what_is_missing_until_it_is_read(cli: Cli, portal: CkanPortal) -> None:
    cli.environment |= {"ROWEN_ALLOW_ADDRESSES": "127.0.0.0/8", "ROWEN_HOST_DELAY_S": "0", "ROWEN_FETCH_TRIES": "1"}
    portal.fill(30)
    portal.stuck = {"d00017"}
    cli("add", portal.address, "--name", "portal")
    first = cli("sync", "portal")
    plain = cli("sync", "portal", "--json")
    portal.stuck = set()
    healed = cli("sync", "portal", "--json")

    assert first.code == 3
    assert "missing here: 1 item" in first.err
    assert (plain.code, plain.facts[0]["missing"], plain.facts[0]["complete"]) == (3, 1, False)
    assert (healed.code, healed.facts[0]["missing"], healed.facts[0]["complete"]) == (0, 0, True)
