"""A server on loopback that sends exactly the bytes it is told to, as no library would."""

import asyncio
import threading
from collections.abc import Callable

__all__ = ["RawSite", "answer"]


def answer(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    """An answer on the wire; the headers are taken as they are."""
    lines = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), b"Connection: close", *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


class RawSite:
    """Answers by path, each the bytes of a whole answer or a function of the request that gives them."""

    def __init__(self) -> None:
        self.answers: dict[str, bytes | Callable[[bytes], bytes]] = {}
        self.log: list[bytes] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._talk, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def page(self, path: str, title: str, *headers: bytes, links: tuple[str, ...] = ()) -> None:
        """A page of HTML with these headers."""
        anchors = "".join(f'<a href="{link}">on</a> ' for link in links)
        body = f"<!doctype html><title>{title}</title><main><h1>{title}</h1><p>About {title}. {anchors}</p></main>"
        self.answers[path] = answer(body.encode(), b"Content-Type: text/html", *headers)

    def close(self) -> None:
        self._server.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, coroutine):  # type: ignore[no-untyped-def]
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        self.log.append(request)
        path = request.split(b" ", 2)[1].decode("latin-1")
        found = self.answers.get(path, answer(b"Nothing here.", status=b"404 Not Found"))
        writer.write(found(request) if callable(found) else found)
        await writer.drain()
        writer.close()
