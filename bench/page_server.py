"""Servers of pages: nginx with ETags and a log to count by, and a small one that answers late."""

import asyncio
import multiprocessing
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

__all__ = ["Nginx", "Served", "late_server", "nginx"]

NGINX = Path("/usr/sbin/nginx")
CONFIG = """
{user}
daemon off; worker_processes 1; pid {base}/nginx.pid; error_log {base}/error.log;
events {{ worker_connections 256; }}
http {{
  types {{ text/html html; text/css css; text/plain txt; application/javascript js; image/svg+xml svg; image/png png; }}
  log_format counted "$status $body_bytes_sent";
  access_log {base}/access.log counted;
  client_body_temp_path {base}/t1; proxy_temp_path {base}/t2; fastcgi_temp_path {base}/t3;
  uwsgi_temp_path {base}/t4; scgi_temp_path {base}/t5;
  gzip off; etag on; sendfile on; tcp_nopush on; keepalive_requests 1000000;
  server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""
_VALIDATOR = re.compile(rb"\r\nif-none-match: *([^\r]*)", re.IGNORECASE)


class Served(NamedTuple):
    """What a server was asked for."""

    requests: int = 0
    bodies: int = 0
    body_bytes: int = 0


class Nginx:
    """A running nginx."""

    def __init__(self, url: str, log: Path) -> None:
        self.url = url
        self._log = log
        self._read = 0

    def served(self) -> Served:
        """What was asked for since the last question. An answer 200 is a body; that of a 404 is none."""
        time.sleep(0.05)
        with self._log.open() as log:
            log.seek(self._read)
            lines = [line.split() for line in log]
            self._read = log.tell()
        bodies = [int(size) for status, size in lines if status == "200"]
        return Served(len(lines), len(bodies), sum(bodies))


@contextmanager
def nginx(root: Path, base: Path) -> Iterator[Nginx]:
    """Serve a folder as a child process of ours, on a free port."""
    base.mkdir()
    port = _free_port()
    config = base / "nginx.conf"
    user = "user root;" if os.getuid() == 0 else ""
    config.write_text(CONFIG.format(user=user, base=base, root=root, port=port))
    process = subprocess.Popen([NGINX, "-c", config, "-p", base], stderr=subprocess.DEVNULL)
    try:
        _wait_for(port)
        server = Nginx(f"http://127.0.0.1:{port}/", base / "access.log")
        server.served()
        yield server
    finally:
        process.terminate()
        process.wait(10)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _wait_for(port: int) -> None:
    until = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            return


class _Late(asyncio.Protocol):
    """Answers from a folder, each answer after the same wait."""

    def __init__(self, root: Path, latency_s: float) -> None:
        self._root = root
        self._latency_s = latency_s

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._unread = b""

    def data_received(self, data: bytes) -> None:
        *requests, self._unread = (self._unread + data).split(b"\r\n\r\n")
        for request in requests:
            asyncio.get_running_loop().call_later(self._latency_s, self._answer, request)

    def _answer(self, request: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(_answer(self._root, request))


def _answer(root: Path, request: bytes) -> bytes:
    path = root / request.split(b" ", 2)[1].decode().lstrip("/").partition("?")[0]
    if not path.is_file():
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    facts = path.stat()
    etag = f'"{facts.st_mtime_ns:x}-{facts.st_size:x}"'.encode()
    asked = _VALIDATOR.search(request)
    if asked and asked[1] == etag:
        return b"HTTP/1.1 304 Not Modified\r\nETag: %b\r\n\r\n" % etag
    body = path.read_bytes()
    kind = b"text/html" if path.suffix == ".html" else b"application/octet-stream"
    head = b"HTTP/1.1 200 OK\r\nETag: %b\r\nContent-Type: %b\r\nLast-Modified: %b\r\nContent-Length: %d\r\n\r\n"
    return head % (etag, kind, formatdate(facts.st_mtime, usegmt=True).encode(), len(body)) + body


def _serve(pipe: Connection, root: Path, latency_s: float) -> None:
    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(lambda: _Late(root, latency_s), "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


@contextmanager
def late_server(root: Path, latency_s: float) -> Iterator[str]:
    """Serve a folder from a process of its own, every answer late; yields the URL."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs, root, latency_s), daemon=True)
    server.start()
    theirs.close()
    try:
        yield f"http://127.0.0.1:{ours.recv()}/"
    finally:
        server.terminate()
        server.join(10)
