"""Traces, for those who collect them: what a command did, and nothing that is private."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.cli.conftest import Cli
from tests.portals.site import Site


class Collector(HTTPServer):
    """Takes what is sent to a collector by OTLP over HTTP."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        super().__init__(("127.0.0.1", 0), _Taking)

    @property
    def spans(self) -> list[tuple[str, dict[str, str | int]]]:
        found = []
        for body in self.bodies:
            request = ExportTraceServiceRequest.FromString(body)
            for span in (span for each in request.resource_spans for some in each.scope_spans for span in some.spans):
                facts = {
                    attribute.key: attribute.value.string_value or attribute.value.int_value
                    for attribute in span.attributes
                }
                found.append((span.name, facts))
        return found


class _Taking(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_sync_is_traced_with_its_requests_and_without_what_is_private(cli: Cli, collector: Collector) -> None:
    with closing(Site()) as site:
        site.put("/?visitor=somebody", "Hay", "Cut it dry.")
        there = {"ROWEN_ALLOW_ADDRESSES": "127.0.0.0/8", "ROWEN_HOST_DELAY_S": "0"}
        there |= {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}", "KEY": "a-secret"}
        options = ("--option", 'headers={"X-Key": "env:KEY"}', "--option", "max_pages=1")
        added = cli("add", f"{site.url}/?visitor=somebody", "--name", "site", "--kind", "web", *options, **there)
        done = cli("sync", "site", **there)

    assert (added.code, done.code) == (0, 0), added.err + done.err
    run = next(facts for name, facts in collector.spans if name == "run")
    assert (run["rowen.source"], run["rowen.kind"], run["rowen.status"]) == ("site", "web", "completed")
    assert ("GET", 200) in {(name, facts.get("http.response.status_code")) for name, facts in collector.spans}
    assert all(private not in body for body in collector.bodies for private in (b"a-secret", b"visitor", b"somebody"))


def test_tracing_is_not_imported_without_a_collector() -> None:
    script = "import sys\nfrom rowen.tracing import span\nwith span('x', {}) as note: note({'a': 1})\n"
    script += "print([name for name in sys.modules if name.startswith('opentelemetry')])"

    done = subprocess.run([sys.executable, "-c", script], env={}, capture_output=True, text=True, timeout=60)

    assert done.stdout.strip() == "[]"
