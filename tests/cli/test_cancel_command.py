"""A run is ended from another terminal."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.cli.conftest import PATIENCE_S, Cli, Done
from tests.conftest import ScratchDatabase

ALLOWED = {"ROWEN_ALLOW_ADDRESSES": "127.0.0.0/8", "ROWEN_HOST_DELAY_S": "0", "ROWEN_LEASE_S": "0.6"}


class _Pages(BaseHTTPRequestHandler):
    """A site whose start answers, and whose second page keeps one waiting."""

    released: threading.Event

    def do_GET(self) -> None:
        if self.path == "/slow":
            _Pages.released.wait(PATIENCE_S)
        body = b"<html><title>Hay</title><h1>Hay</h1><p>Hay is dry grass.</p><a href='/slow'>on</a></html>"
        self.send_response(200 if self.path in ("/", "/slow") else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def slow_site() -> Iterator[str]:
    _Pages.released = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    _Pages.released.set()
    server.shutdown()
    server.server_close()


def test_a_run_is_cancelled_by_its_source(cli: Cli, database: ScratchDatabase, slow_site: str) -> None:
    assert cli("add", slow_site, "--kind", "web", "--name", "slow", **ALLOWED).code == 0
    with cli.start("sync", "slow", "--json", **ALLOWED) as process:
        while not database.query("select from run where status = 'running'"):
            assert process.poll() is None
        asked = cli("cancel", "slow", **ALLOWED)
        out, err = process.communicate(timeout=PATIENCE_S)
    done = Done(process.returncode, out, err)

    assert (asked.code, asked.out) == (0, "run 1\tslow\tasked to end\n")
    assert (done.code, done.facts[0]["status"]) == (130, "cancelled")


def test_cancel_without_a_live_run_is_refused(cli: Cli, docs: Cli) -> None:
    unknown = cli("cancel", "nobody", "--json")
    idle = cli("cancel", "docs", "--json")
    ended = cli("cancel", "1", "--json")

    assert (unknown.code, unknown.error["code"]) == (4, "not_found")
    assert (idle.code, idle.error["actions"][0]["action"]) == (4, "runs")
    assert (ended.code, ended.error["error"]) == (5, "Run 1 of 'docs' ended already: completed.")
