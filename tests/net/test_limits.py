import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from rowen.errors import BadAnswerError, BodyTooLargeError, ConnectError, FetchError, FetchTimeoutError, TruncatedError
from rowen.net.response import Response

from .world import Counts, Names, Talk, client, run, saying, serve, serve_raw

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


def refused(talk: Talk, error: type[FetchError], **changes: object) -> FetchError:
    """What a request to such a server ends in, and that the same host can be asked again."""

    async def scenario() -> FetchError:
        async with serve_raw(talk) as base, client(fetch_tries=1, host_concurrency=1, **changes) as fetch:
            for _ in range(2):
                with pytest.raises(error) as caught:
                    await fetch.get(base)
        return caught.value

    return run(scenario())


def endless(head: bytes, piece: bytes) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()

    return talk


def dripping(head: bytes, every_s: float) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(every_s)

    return talk


def bomb(size_bytes: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    zeros = bytes(1 << 20)
    return b"".join(packer.compress(zeros) for _ in range(size_bytes >> 20)) + packer.flush()


def test_an_endless_body_is_cut_off_at_the_limit():
    error = refused(endless(HEAD + b"\r\n", bytes(1 << 16)), BodyTooLargeError, body_limit_bytes=1 << 20)

    assert "1,048,576 bytes" in str(error)
    assert "ROWEN_BODY_LIMIT_BYTES" in (error.hint or "")
    assert not error.retryable


def test_a_body_declared_too_large_is_not_read_at_all():
    async def scenario() -> Counts:
        meter = Counts()

        async def answer(request: web.BaseRequest) -> web.Response:
            return web.Response(body=bytes(5000))

        async with serve(answer) as base, client(meter=meter) as fetch:
            with pytest.raises(BodyTooLargeError):
                await fetch.get(base, max_bytes=4999)
            assert len((await fetch.get(base, max_bytes=5000)).body) == 5000
        return meter

    assert run(scenario()) == Counts(requests=2, bytes=5000)


def test_a_gzip_bomb_is_stopped_with_little_memory():
    packed = bomb(512 << 20)

    async def scenario() -> int:
        async def answer(request: web.BaseRequest) -> web.Response:
            return web.Response(body=packed, headers={"Content-Encoding": "gzip"})

        async with serve(answer) as base, client() as fetch:
            tracemalloc.start()
            try:
                with pytest.raises(BodyTooLargeError):
                    await fetch.get(base, max_bytes=8 << 20)
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

    assert run(scenario()) < 20 << 20


def test_packed_data_that_unpacks_to_nothing_has_an_end_too():
    head = HEAD + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"")

    refused(endless(head, bytes(1 << 16)), BodyTooLargeError, body_limit_bytes=1 << 20)


def test_a_server_that_falls_silent_is_left():
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Content-Length: 10\r\n\r\nhalf")
        await asyncio.Event().wait()

    error = refused(talk, FetchTimeoutError, idle_limit_s=0.1)

    assert "stopped responding" in str(error)
    assert error.retryable
    assert error.trips_circuit


def test_a_server_that_never_answers_is_left():
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    refused(talk, FetchTimeoutError, idle_limit_s=0.1)


def test_a_server_that_may_think_for_long_is_waited_for():
    async def scenario() -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(0.3)
            writer.write(HEAD + b"Content-Length: 4\r\n\r\nsaid")

        async with serve_raw(talk) as base, client(fetch_tries=1, idle_limit_s=0.1) as fetch:
            assert (await fetch.get(f"{base}/", idle_s=30)).body == b"said"

    run(scenario())


@pytest.mark.parametrize("head", [HEAD + b"Content-Length: 100000\r\n\r\n", HEAD + b"X-Slow: "])
def test_a_slow_drip_is_bounded_by_the_total_time(head: bytes):
    error = refused(dripping(head, 0.02), FetchTimeoutError, idle_limit_s=5, total_limit_s=0.3)

    assert "not complete in time" in str(error)


def test_the_total_time_holds_over_all_redirects_of_a_request():
    async def scenario() -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(0.15)
            number = next(numbers)
            writer.write(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: /%d\r\n\r\n" % number)

        numbers = iter(range(1, 100))
        loop = asyncio.get_running_loop()
        async with serve_raw(talk) as base, client(fetch_tries=1, total_limit_s=0.4) as fetch:
            fetch._clock = loop.time
            with pytest.raises(FetchTimeoutError):
                await fetch.get(base)
        assert next(numbers) <= 4

    run(scenario())


@pytest.mark.parametrize(
    "answer",
    [
        HEAD + b"Content-Length: 100\r\n\r\nonly this",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n64\r\nonly this",
        HEAD + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"word " * 100, mtime=0)[:-10],
    ],
)
def test_a_body_that_ends_early_is_an_error(answer: bytes):
    error = refused(saying(answer, close=True), TruncatedError)

    assert error.retryable


def test_a_body_longer_than_declared_is_an_error():
    answer = HEAD + b"Content-Length: 4\r\n\r\ngood, and then some rubbish"

    assert not refused(saying(answer), BadAnswerError).retryable


def test_a_connection_closed_without_an_answer_is_an_error():
    error = refused(saying(b"", close=True), ConnectError)

    assert error.retryable


def test_a_body_packed_in_an_unknown_way_is_an_error():
    answer = HEAD + b"Content-Encoding: rot13\r\nContent-Length: 5\r\n\r\nuryyb"

    assert not refused(saying(answer), BadAnswerError).retryable


@pytest.mark.parametrize(
    "talk",
    [
        endless(b"HTTP/1.1 404 Not Found\r\n\r\n", bytes(1 << 16)),
        saying(b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\ngone", close=True),
        saying(b"HTTP/1.1 404 Not Found\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\ngone"),
    ],
)
def test_a_strange_error_page_does_not_hide_its_status(talk: Talk):
    async def scenario() -> Response:
        async with serve_raw(talk) as base, client(body_limit_bytes=1 << 20) as fetch:
            return await fetch.get(base)

    page = run(scenario())
    assert page.status == 404
    assert len(page.body) <= 1 << 20


def test_a_host_that_does_not_listen_is_an_error():
    async def scenario() -> None:
        async with serve_raw(saying(b"")) as base:
            pass
        async with client(fetch_tries=1) as fetch:
            with pytest.raises(ConnectError, match=r"No connection to 127\.0\.0\.1"):
                await fetch.get(base)

    run(scenario())


def test_a_name_that_does_not_resolve_is_an_error():
    async def scenario() -> None:
        async with client(resolver=Names(), fetch_tries=1) as fetch:
            with pytest.raises(ConnectError, match=r"name nowhere\.example could not be resolved"):
                await fetch.get("http://nowhere.example/")

    run(scenario())


def test_a_large_body_is_streamed_in_pieces():
    async def scenario() -> tuple[Response, int, int, Counts]:
        meter = Counts()

        async def answer(request: web.BaseRequest) -> web.Response:
            return web.Response(body=bomb(64 << 20), headers={"Content-Encoding": "gzip", "ETag": '"s"'})

        async with serve(answer) as base, client(meter=meter) as fetch:
            async with fetch.stream(base) as stream:
                sizes = [len(piece) async for piece in stream]
            return stream.head, max(sizes), sum(sizes), meter

    head, largest, total, meter = run(scenario())
    assert (head.status, head.etag, head.body) == (200, '"s"', b"")
    assert (largest <= 1 << 16, total) == (True, 64 << 20)
    assert meter.bytes < 1 << 20


def test_a_stream_has_the_same_limits():
    async def scenario() -> int:
        got = 0

        async def consume(pieces: AsyncIterator[bytes]) -> None:
            nonlocal got
            async for piece in pieces:
                got += len(piece)

        async with (
            serve_raw(endless(HEAD + b"\r\n", bytes(1000))) as base,
            client() as fetch,
            fetch.stream(base, max_bytes=1 << 20) as stream,
        ):
            with pytest.raises(BodyTooLargeError):
                await consume(stream.pieces)
        return got

    assert 0 < run(scenario()) <= 1 << 20


def test_a_stream_that_is_left_early_frees_its_host():
    async def scenario() -> None:
        async with serve_raw(endless(HEAD + b"\r\n", bytes(1000))) as base, client(host_concurrency=1) as fetch:
            for _ in range(3):
                async with fetch.stream(base) as stream:
                    async for _ in stream:
                        break

    run(scenario())


def test_a_streamed_error_page_has_its_status_and_body():
    async def scenario() -> tuple[int, bytes]:
        async def answer(request: web.BaseRequest) -> web.Response:
            return web.Response(status=404, text="gone")

        async with serve(answer) as base, client() as fetch, fetch.stream(base) as stream:
            return stream.head.status, b"".join([piece async for piece in stream])

    assert run(scenario()) == (404, b"gone")
