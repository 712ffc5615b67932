"""The demo's website: a farm shop on loopback that changes overnight."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

__all__ = ["OVERNIGHT", "open_shop", "overnight", "set_up"]

_GOODS = {
    "eggs": ("Eggs", "Laid by nine hens, one of whom has a name. Six for two coins."),
    "honey": ("Honey", "Linden and clover. The angry hive's is sold separately, in smaller jars, with a warning."),
    "hay": ("Hay", "First cut and second cut. The second is finer, and costs you nothing but the looking again."),
    "quinces": ("Quinces", "Hard, sour, and worth the wait. Not for eating raw, whatever the goat says."),
    "cider": ("Cider", "Pressed in October. The barrel by the call is spoken for."),
    "walnuts": ("Walnuts", "As many as the squirrels leave, which some years is none."),
    "goat": ("About the goat", "Bartleby is not for sale. He would prefer not to."),
}
OVERNIGHT = (
    "The price of eggs goes up, on one page.",
    "The walnuts are sold out: their page is gone, and nothing links to it.",
    "Peaches arrive, on a page of their own.",
    "And a new version number appears on every single page.",
)


def set_up(shop: Path) -> int:
    """Write the site; returns how many pages it has."""
    shop.mkdir(parents=True)
    _write(shop, dict(_GOODS), version=1, at=time.time() - 86_400)
    return len(_GOODS) + 1


def overnight(shop: Path) -> None:
    """Let a night pass."""
    goods = dict(_GOODS)
    goods["eggs"] = ("Eggs", goods["eggs"][1].replace("two coins", "three coins"))
    goods["peaches"] = ("Peaches", "The first of the year. They do not travel, so neither should you.")
    del goods["walnuts"]
    (shop / "walnuts.html").unlink()
    _write(shop, goods, version=2, at=time.time() - 3600)


def _write(shop: Path, goods: dict[str, tuple[str, str]], *, version: int, at: float) -> None:
    links = "".join(f'<li><a href="{name}.html">{title}</a></li>' for name, (title, _) in goods.items())
    pages = {"index": ("The farm shop", "Open when the gate is open.")} | goods
    for name, (title, text) in pages.items():
        path = shop / f"{name}.html"
        menu = f"<ul>{links}</ul>" if name == "index" else '<a href="index.html">The shop</a>'
        path.write_text(
            f"<!doctype html><html lang=en><title>{title}</title><body>"
            f"<div>Rowen Hill farm shop, version {version}</div>"
            f"<h1>{title}</h1><p>{text}</p>{menu}<div>Page made by the shop, version {version}</div></body></html>"
        )
        os.utime(path, (at, at))


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name that the base class gives it)
        """Say nothing: the demo speaks."""


@contextmanager
def open_shop(shop: Path) -> Iterator[str]:
    """Serve the site on loopback; gives its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(shop))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
