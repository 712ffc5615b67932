"""The process that sends one message: what it answers, and which addresses its sockets reach."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
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


@pytest.mark.parametrize(
    "address",
    [
        *(
            "syslog://",
            "syslog:///local0?facility=auth",
            "dbus://",
            "qt://",
            "kde://",
            "glib://",
            "gnome://",
            "macosx://",
        ),
        *("macosx:///?sound=x", "windows://", "blink1://", "exec://touch", "script:///bin/true", "file:///etc/passwd"),
        *("fcm://project@key/device?keyfile=/etc/passwd", "vapid://a@example.org?keyfile=/etc/passwd", " SYSLOG://"),
        *("config=file:///etc/passwd", "/etc/passwd", ""),
    ],
)
def test_services_of_this_machine_and_unknown_ones_are_not_allowed(address: str) -> None:
    assert send(address) == "unreadable"


def test_a_second_address_behind_the_first_is_not_told_anything(receiver: Receiver) -> None:
    send(f"{receiver.target}, {receiver.target.replace('/room', '/other')}")

    assert len(receiver.messages) <= 1


# What an option of an address could have a service do here, such as a template, a key file, or a helper program.
ATTEMPTS = """
import json, os, subprocess, sys, syslog
from pathlib import Path
from rowen.publish.notifier import confine

folder = Path(json.load(sys.stdin))
confine([], [])
attempts = {
    "read": lambda: (folder / "secret").read_text(),
    "read by bytes": lambda: open(os.fsencode(folder / "secret")),
    "read through a link": lambda: (folder / "link").read_text(),
    "read upwards": lambda: open(f"{sys.prefix}/../../../../../../../..{folder}/secret"),
    "read the environment": lambda: Path("/proc/self/environ").read_text(),
    "read users": lambda: Path("/etc/passwd").read_text(),
    "write": lambda: (folder / "new").write_text("x"),
    "write beside packages": lambda: open(f"{sys.prefix}/written-by-a-notice", "w"),
    "run": lambda: subprocess.run(["/bin/true"]),
    "system": lambda: os.system("true"),
    "spawn": lambda: os.posix_spawn("/bin/true", ["true"], {}),
    "fork": os.fork,
    "syslog": lambda: syslog.syslog("hay"),
}
done = []
for name, attempt in attempts.items():
    try:
        attempt()
    except PermissionError:
        continue
    done.append(name)
print(json.dumps([done, len(attempts)]))
"""


def test_the_process_reads_no_files_writes_none_and_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    done = subprocess.run(
        [sys.executable, "-c", ATTEMPTS],
        input=json.dumps(str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )

    assert json.loads(done.stdout) == [[], 13]
    assert not (tmp_path / "new").exists()


def test_a_missing_package_is_named_as_missing() -> None:
    assert send("json://127.0.0.1/", program=WITHOUT_APPRISE) == "missing"


# Each way of a socket to reach an address: which of them end in an error, and which addresses were refused.
SOCKETS = """
import contextlib, json, socket, ssl, sys
from ipaddress import ip_network
from rowen.publish.notifier import confine

port, path = json.load(sys.stdin)
refused = []
confine([ip_network("127.0.0.2/32")], refused)
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
        # An address of the other family is refused before it is looked at.
        except (ConnectionRefusedError, socket.gaierror):
            failed.append(name)
with socket.socket(type=socket.SOCK_DGRAM) as s:
    try:
        s.sendto(b"hay", ("127.0.0.1", port))
    except ConnectionRefusedError:
        failed.append("sendto")
    try:
        s.sendmsg([b"hay"], [], 0, ("127.0.0.1", port))
    except ConnectionRefusedError:
        failed.append("sendmsg")
    s.sendto(b"hay", ("127.0.0.2", port))
    s.sendto(b"hay", 0, ("127.0.0.2", port))
with ssl.create_default_context().wrap_socket(socket.socket(), server_hostname="localhost") as s:
    try:
        s.connect(("127.0.0.1", port))
    except ConnectionRefusedError:
        failed.append("TLS")
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
    assert failed == [*ways, "sendmsg", "TLS", "a local socket"]
    assert refused[0] == "127.0.0.1 (loopback)"
    assert refused[2] == "localhost (a name)"
    assert refused[-1] == "a local socket"
    assert len(refused) >= len(failed) - 2
