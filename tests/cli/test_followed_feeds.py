"""How feeds and streams are followed, and endpoints told, as the terminal tells it."""

from contextlib import closing

from tests.cli.conftest import Cli
from tests.portals.ldes import LdesSite


def test_status_and_show_report_streams_and_endpoints(cli: Cli) -> None:
    with closing(LdesSite()) as feed:
        feed.description += "ldes:pollingInterval 60 ;"
        feed.chain([feed.event("a")], [feed.event("b")])
        cli("add", feed.address, "--name", "feed")
        cli("sync", "feed", ROWEN_ALLOW_ADDRESSES="127.0.0.0/8")
        cli("statements", "keep", "feed", "https://store.example/sparql", "--header", "X-Key: env:STORE_KEY")
        status = cli("status", "--json")
        shown = cli("show", "feed")

    [following] = [fact["following"] for fact in status.facts if "following" in fact]
    assert (following["source"], following["state"], following["members"]) == ("feed", "following", 2)
    assert (following["pages"], following["pages_immutable"], following["backlog"]) == (3, 1, 0)
    assert following["next_poll_at"]
    assert "pages that never change" in shown.out
    assert "next poll" in shown.out
    [endpoint] = [fact["endpoint"] for fact in status.facts if "endpoint" in fact]
    assert (endpoint["source"], endpoint["state"], endpoint["number"], endpoint["waiting"]) == ("feed", "active", 0, 0)
    assert endpoint["headers"] == {"X-Key": "env:STORE_KEY"}
    assert "active, nothing sent yet" in shown.out
