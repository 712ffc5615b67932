import os
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from aiohttp import web

from rowen.errors import TlsError

from .world import Counts, Names, client, run, serve

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="the openssl program makes the certificate")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
            "-keyout",
            str(key),
            "-out",
            str(cert),
            "-subj",
            "/CN=site.example",
            "-addext",
            "subjectAltName=DNS:site.example",
        ],
        check=True,
        capture_output=True,
        timeout=30,
    )
    return cert, key


def server_context(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    return context


async def hello(request: web.BaseRequest) -> web.Response:
    return web.Response(text="hello")


def fails(certificate: tuple[Path, Path], name: str, **changes: object) -> tuple[TlsError, Counts]:
    async def scenario() -> tuple[TlsError, Counts]:
        meter = Counts()
        names = Names(site_example=[["127.0.0.1"]], other_example=[["127.0.0.1"]])
        async with (
            serve(hello, tls=server_context(certificate)) as base,
            client(meter=meter, resolver=names, **changes) as fetch,
        ):
            with pytest.raises(TlsError) as caught:
                await fetch.get(base.replace("127.0.0.1", name))
        return caught.value, meter

    return run(scenario())


def test_an_untrusted_certificate_is_an_error_and_not_retried(certificate: tuple[Path, Path]):
    error, meter = fails(certificate, "site.example")

    assert "The certificate of site.example" in str(error)
    assert "self-signed" in str(error)
    assert "SSL_CERT_FILE" in (error.hint or "")
    assert (error.retryable, meter.requests) == (False, 1)


def test_a_certificate_for_another_name_is_an_error(certificate: tuple[Path, Path]):
    trusting = ssl.create_default_context(cafile=str(certificate[0]))

    error, _ = fails(certificate, "other.example", tls=trusting)

    assert "cannot be trusted" in str(error)
    assert "other.example" in str(error)


def test_a_trusted_certificate_is_accepted(certificate: tuple[Path, Path]):
    async def scenario() -> bytes:
        names = Names(site_example=[["127.0.0.1"]])
        trusting = ssl.create_default_context(cafile=str(certificate[0]))
        async with (
            serve(hello, tls=server_context(certificate)) as base,
            client(resolver=names, tls=trusting) as fetch,
        ):
            return (await fetch.get(base.replace("127.0.0.1", "site.example"))).body

    assert run(scenario()) == b"hello"


def test_a_server_that_does_not_speak_tls_is_an_error():
    async def scenario() -> None:
        async with serve(hello) as base, client() as fetch:
            with pytest.raises(TlsError, match="No encrypted connection"):
                await fetch.get(base.replace("http:", "https:"))

    run(scenario())


LATE = """
import ssl
from rowen.net.sessions import aiohttp
context = aiohttp.TCPConnector.__init__.__globals__["_SSL_CONTEXT_VERIFIED"]
told = [type(context) is ssl.SSLContext, context.cert_store_stats()["x509"], context.verify_mode.name]
context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="site.example")
print(*told, type(context) is ssl.SSLContext, context.cert_store_stats()["x509"])
made = ssl.create_default_context()
print(type(made) is ssl.SSLContext, made.cert_store_stats()["x509"])
"""


def test_authorities_are_read_before_the_first_handshake_and_no_earlier(certificate: tuple[Path, Path]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LATE],
        env={**os.environ, "SSL_CERT_FILE": str(certificate[0]), "SSL_CERT_DIR": str(certificate[0].parent / "none")},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout.splitlines() == ["False 0 CERT_REQUIRED True 1", "True 1"]
