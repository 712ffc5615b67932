"""The process that sends one message: what it answers, and which addresses its sockets reach."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web

from tests.portals.site import Page, Site

PROGRAM = "from rowen.publish.notifier import main\nmain()"
WITHOUT_APPRISE = f"import sys\nsys.modules['apprise'] = None\n{PROGRAM}"
LOOPBACK = ["127.0.0.0/8"]
LIMIT_S = 60  # for what takes a second alone


class Receiver(Site):
    """Takes what Apprise's `json://` sends."""

    def __init__(self) -> None:
        super().__init__()
        self.status = 200
        self.messages: list[dict[str, Any]] = []
        self.default = Page(handler=self._take)

    async def _take(self, request: web.Request) -> web.StreamResponse:
        self.messages.append(json.loads(await request.read()))
        return web.Response(status=self.status)

    @property
    def target(self) -> str:
        return self.url.replace("http://", "json://") + "/room"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


def send(address: str, *, allowed: list[str] = LOOPBACK, program: str = PROGRAM) -> str:
    """Start the process, hand it a message, and return its answer."""
    asked = {"address": address, "subject": "Hay", "text": "*Two* bales <b>", "allowed": allowed}
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    return done.stdout.strip()


def test_a_message_is_sent_as_it_is_written(receiver: Receiver) -> None:
    assert send(receiver.target) == "sent"

    (message,) = receiver.messages
    assert (message["title"], message["message"]) == ("Hay", "*Two* bales <b>")


def test_a_receiver_that_answers_with_an_error_has_not_been_sent_anything(receiver: Receiver) -> None:
    receiver.status = 500

    assert send(receiver.target) == "failed"
    assert len(receiver.messages) == 1


def test_an_address_that_is_not_allowed_is_not_connected_to(receiver: Receiver) -> None:
    assert send(receiver.target, allowed=[]) == "refused 127.0.0.1 (loopback)"
    assert receiver.messages == []


def test_a_name_of_a_private_address_is_not_connected_to(receiver: Receiver) -> None:
    answer = send(receiver.target.replace("127.0.0.1", "localhost"), allowed=[])

    assert answer in ("refused 127.0.0.1 (loopback)", "refused ::1 (loopback)")
    assert receiver.messages == []


def test_a_port_that_nobody_listens_on_is_a_failure() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))

        assert send(f"json://127.0.0.1:{unused.getsockname()[1]}/") == "failed"


def test_an_address_that_apprise_does_not_know_is_unreadable() -> None:
    assert send("nonsense://example") == "unreadable"


def test_a_missing_package_is_named_as_missing() -> None:
    assert send("json://127.0.0.1/", program=WITHOUT_APPRISE) == "missing"


# Each way of a socket to reach an address: which of them end in an error, and which addresses were refused.
SOCKETS = """
import contextlib, json, socket, sys
from ipaddress import ip_network
from rowen.publish.notifier import guard_sockets

port, path = json.load(sys.stdin)
refused = []
guard_sockets([ip_network("127.0.0.2/32")], refused)
ways = {
    "connect": lambda s: s.connect(("127.0.0.1", port)),
    "connect_ex": lambda s: s.connect_ex(("127.0.0.1", port)),
    "a name": lambda s: s.connect(("localhost", port)),
    "a mapped address": lambda s: s.connect(("::ffff:127.0.0.1", port)),
    "a zone": lambda s: s.connect(("fe80::1%lo", port)),
    "create_connection": lambda s: socket.create_connection(("127.0.0.1", port)),
}
failed = []
for name, way in ways.items():
    with socket.socket() as s:
        try:
            way(s)
        except ConnectionRefusedError:
            failed.append(name)
with socket.socket(type=socket.SOCK_DGRAM) as s:
    try:
        s.sendto(b"hay", ("127.0.0.1", port))
    except ConnectionRefusedError:
        failed.append("sendto")
    s.sendto(b"hay", ("127.0.0.2", port))
    s.sendto(b"hay", 0, ("127.0.0.2", port))
with socket.socket(socket.AF_UNIX) as s:
    try:
        s.connect(path)
    except ConnectionRefusedError:
        failed.append("a local socket")
print(json.dumps([failed, refused]))
"""


def test_no_way_of_a_socket_leads_to_an_address_that_is_not_allowed(tmp_path: Any) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.settimeout(0)
        port = server.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-c", SOCKETS],
            input=json.dumps([port, str(tmp_path / "none")]),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=True,
        )
        with pytest.raises(BlockingIOError):
            server.accept()

    failed, refused = json.loads(done.stdout)
    ways = ["connect", "connect_ex", "a name", "a mapped address", "a zone", "create_connection", "sendto"]
    assert failed == [*ways, "a local socket"]
    assert refused[0] == "127.0.0.1 (loopback)"
    assert refused[2] == "localhost (a name)"
    assert refused[-1] == "a local socket"
    assert len(refused) == len(failed)
