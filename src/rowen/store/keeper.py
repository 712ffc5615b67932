"""The process that stops an idle embedded server: it waits for as long as nobody comes back.

It is left behind by the last who leaves. What it knows of others is the lock that it holds, and the time of that file:
each who leaves while there is a keeper sets it anew, and the keeper begins to wait again.

All that it needs is imported before it waits, which takes 35 MB instead of 11: the program may be removed or replaced
meanwhile.
"""

import os
import time
from pathlib import Path

from rowen.store.embedded import EmbeddedServer

__all__ = ["keep"]


def keep(home: str, descriptor: int, linger_s: float) -> None:
    """Wait until nobody has left for a while, and stop the server unless somebody uses it."""
    server = EmbeddedServer(Path(home))
    left_at = None
    while left_at != (left_at := os.fstat(descriptor).st_mtime):
        # The clock may be set meanwhile: never less than at once, nor more than the whole time.
        time.sleep(min(max(left_at + linger_s - time.time(), 0.0), linger_s))
    server.stop_idle(descriptor)
