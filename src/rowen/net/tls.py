"""aiohttp, imported without the machine's certificate authorities: they are read before the first handshake.

aiohttp makes two contexts as it is imported, and reads the authorities for each: 30 ms apiece, a sixth of a sync that
finds nothing new, and all of it in vain where a source is asked over plain HTTP. Everything here that speaks HTTP
takes aiohttp from this module.
"""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["aiohttp"]


class _LateAuthorities(ssl.SSLContext):
    """A context that reads the authorities when it is first used, and is a usual one from then on."""

    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        return self._read().wrap_bio(*arguments, **named)

    def wrap_socket(self, *arguments: Any, **named: Any) -> ssl.SSLSocket:
        return self._read().wrap_socket(*arguments, **named)

    def _read(self) -> ssl.SSLContext:
        self.__class__ = ssl.SSLContext  # type: ignore[assignment] # the same layout, without these methods
        self.set_default_verify_paths()
        return self


@contextmanager
def _authorities_put_off() -> Iterator[None]:
    """Let contexts that are made inside, in this thread, read their authorities late."""
    read, here = ssl.SSLContext.set_default_verify_paths, threading.get_ident()

    def put_off(context: ssl.SSLContext) -> None:
        if threading.get_ident() == here:
            context.__class__ = _LateAuthorities
        else:
            read(context)

    ssl.SSLContext.set_default_verify_paths = put_off  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        del ssl.SSLContext.set_default_verify_paths


with _authorities_put_off():
    import aiohttp
