"""The data of the demo: the folder, website and open data portal of a farm, on loopback, with changes to each."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from rowen.errors import RefusedError
from rowen.interfaces.cli.invocation import Invocation

if TYPE_CHECKING:
    from rowen.operations import Rowen
    from rowen.settings import Settings

_FIELD = "rowen-hill"


@contextmanager
def demo_place(call: Invocation, *, keep: bool) -> Iterator[tuple[Path, Path]]:
    """Yield the demo's data folder and the farm's folder; delete both at the end unless the user named a folder."""
    if call.home is not None:
        field = call.home / _FIELD
        if field.exists():
            raise RefusedError(f"{call.home} has the data of an earlier demo.", hint="Choose another --home, or none.")
        yield call.home, field
        return
    folder = Path(tempfile.mkdtemp(prefix="rowen-demo-"))
    # If the user is root, the server runs under another account, which must be able to pass through this folder.
    folder.chmod(0o755)
    try:
        yield folder / "home", folder / _FIELD
    finally:
        if keep:
            call.out.say(f"Kept: `rowen --home {folder / 'home'} search goat` searches it.")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def demo_settings(call: Invocation, home: Path, **more: Any) -> Settings:
    """Return settings with a separate database for the demo, and without providers that cost anything."""
    return call.settings.model_copy(
        update={
            "home": home,
            # Only a database that the user named for the demo is written to.
            "database_url": call.settings.database_url if call.database_url else None,
            # The folder of the server is deleted at the end.
            "embedded_linger_s": 0.0,
            "allow_addresses": (IPv4Network("127.0.0.0/8"),),
            "host_delay_s": 0.0,
            "embedder": "none" if call.settings.embedder == "none" else "local",
            **more,
        }
    )


@asynccontextmanager
async def demo_world(rowen: Rowen, field: Path) -> AsyncIterator[None]:
    """Sync all three sources, change them, sync them again, and serve them until the context ends."""
    shop, portal = field.parent / "shop", DemoPortal()
    lay_out(field)
    set_up(shop)
    with open_shop(shop) as shop_address, open_portal(portal) as portal_address:
        await rowen.sources.add(str(field), name="farm", every="1h")
        await rowen.sources.add(shop_address, name="shop", every="1h")
        await rowen.sources.add(portal_address, name="valley", kind="ckan", every="1h")
        await rowen.runs.sync_all()
        next_day(field)
        overnight(shop)
        portal.let_a_week_pass()
        await rowen.runs.sync_all()
        yield


# The folder: the almanac of Rowen Hill.

WORLD = Path(__file__).parent / "demo_world"
CHANGES = (
    "Number Nine gets a name: one paragraph in animals/hens.md.",
    "The goat incident is plural now: animals/the-goat-incident.txt becomes the-goat-incidents.txt.",
    "The chutney recipe is eaten, by whom is known: kitchen/plum-chutney.md is gone.",
    "Peace is made: kitchen/treaty.md is new.",
    "And a draught goes through the folder: every single file is touched.",
)
_TICK_SECONDS = 0.05
_HOUR_NS = 3_600 * 10**9
_BEFORE = "She came over the wall in the storm of the year before last, ate, slept, and stayed."
_AFTER = "She came over the wall in the storm of the year before last, and since this morning she is called Thunder."
_TREATY = """# The treaty of the gate

Signed this morning by Edda, Joss and, with a hoof, Bartleby.

1. The gate is closed by whoever opened it.
2. In return the roof of the barn is out of bounds on Sundays.
3. Green paint is not food. The goat's objection to this article is noted.
"""


def lay_out(field: Path) -> int:
    """Copy the folder with the date of yesterday, so that a touched file is noticed; return its number of files."""
    shutil.copytree(WORLD, field, ignore=shutil.ignore_patterns("__pycache__"))
    return _touch(field, time.time_ns() - 24 * _HOUR_NS)


def next_day(field: Path) -> None:
    """Make the changes in `CHANGES`."""
    hens = field / "animals" / "hens.md"
    hens.write_text(hens.read_text("utf-8").replace(_BEFORE, _AFTER), "utf-8")
    incident = field / "animals" / "the-goat-incident.txt"
    incident.rename(incident.with_name("the-goat-incidents.txt"))
    (field / "kitchen" / "plum-chutney.md").unlink()
    (field / "kitchen" / "treaty.md").write_text(_TREATY, "utf-8")
    _touch(field, time.time_ns() - _HOUR_NS)


def _touch(field: Path, at_ns: int) -> int:
    files = [path for path in field.rglob("*") if path.is_file()]
    for path in files:
        os.utime(path, ns=(at_ns, at_ns))
    # The next sync would read files again that changed within the last clock tick.
    time.sleep(_TICK_SECONDS)
    return len(files)


# The website: a farm shop.

OVERNIGHT = (
    "The price of eggs goes up, on one page.",
    "The walnuts are sold out: their page is gone, and nothing links to it.",
    "Peaches arrive, on a page of their own.",
    "And a new version number appears on every single page.",
)
_GOODS = {
    "eggs": ("Eggs", "Laid by nine hens, one of whom has a name. Six for two coins."),
    "honey": ("Honey", "Linden and clover. The angry hive's is sold separately, in smaller jars, with a warning."),
    "hay": ("Hay", "First cut and second cut. The second is finer, and costs you nothing but the looking again."),
    "quinces": ("Quinces", "Hard, sour, and worth the wait. Not for eating raw, whatever the goat says."),
    "cider": ("Cider", "Pressed in October. The barrel by the door is spoken for."),
    "walnuts": ("Walnuts", "As many as the squirrels leave, which some years is none."),
    "goat": ("About the goat", "Bartleby is not for sale. He would prefer not to."),
}


def set_up(shop: Path) -> int:
    """Write the site; return its number of pages."""
    shop.mkdir(parents=True)
    _write_shop(shop, dict(_GOODS), version=1, at=time.time() - 86_400)
    return len(_GOODS) + 1


def overnight(shop: Path) -> None:
    """Make the changes in `OVERNIGHT`."""
    goods = dict(_GOODS)
    goods["eggs"] = ("Eggs", goods["eggs"][1].replace("two coins", "three coins"))
    goods["peaches"] = ("Peaches", "The first of the year. They do not travel, so neither should you.")
    del goods["walnuts"]
    (shop / "walnuts.html").unlink()
    _write_shop(shop, goods, version=2, at=time.time() - 3600)


def _write_shop(shop: Path, goods: dict[str, tuple[str, str]], *, version: int, at: float) -> None:
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


@contextmanager
def open_shop(shop: Path) -> Iterator[str]:
    """Serve the site on loopback; yield its address."""

    class Page(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name of the base class)
            """Suppress the log of requests."""

    with _serve(partial(Page, directory=str(shop))) as address:
        yield f"{address}/"


# The catalog: the open data portal of the valley, with the API of CKAN.

WEEK = (
    "The gates of Yarrow are described anew.",
    "The bee hives of Mill Row get another licence, and nothing else.",
    "The footpaths of Lower Wick are withdrawn: no listing says so, only the count is one less.",
    "Vetchley publishes its scarecrows.",
)
_THINGS = {
    "rainfall": "How much rain fell, by day, in a jar on the fence that Bartleby has not found yet.",
    "gates": "Where the gates are, which of them close, and which only look as if they did.",
    "bee-hives": "Position and temper of every hive. Temper is measured in steps that the keeper ran.",
    "footpaths": "Paths that may be walked, with mud depth in centimetres by month.",
    "apple-trees": "Trees in common land by kind and age, and who may pick under them.",
    "goat-sightings": "Times and places at which a goat was seen on a roof. Complete since records began.",
}
_VILLAGES = ("Rowen Hill", "Lower Wick", "Upper Wick", "Quince End", "Thistle Cross", "Yarrow", "Mill Row", "Vetchley")
_SINCE = re.compile(r"metadata_modified:\[([^\s\[\]]+) TO \*\]")


class DemoPortal:
    """Datasets by identifier, as in CKAN."""

    def __init__(self) -> None:
        self.records: dict[str, dict[str, Any]] = {}
        self.clock = datetime(2026, 4, 1, 8, 0)  # noqa: DTZ001 (CKAN writes its dates without a zone)
        for thing, words in _THINGS.items():
            for village in _VILLAGES:
                self._put(thing, village, words)

    def let_a_week_pass(self) -> None:
        """Make the changes in `WEEK`."""
        self.clock += timedelta(days=7)
        self._put("gates", "Yarrow", "All three gates of Yarrow, with the sound that each one makes.")
        self._put("bee-hives", "Mill Row", _THINGS["bee-hives"], licence="Open Data Commons Attribution License")
        del self.records["footpaths-lower-wick"]
        self._put("scarecrows", "Vetchley", "Scarecrows by field, dress and success.")

    def search(self, *, start: int, rows: int, since: str | None, ids: bool) -> dict[str, Any]:
        """Answer a `package_search`."""
        records = [self.records[name] for name in sorted(self.records)]
        if since:
            records = [record for record in records if f"{record['metadata_modified']}Z" >= since]
        page = records[start : start + rows]
        return {"count": len(records), "results": [{"id": record["id"]} for record in page] if ids else page}

    def _put(self, thing: str, village: str, words: str, *, licence: str = "Creative Commons Attribution") -> None:
        name = f"{thing}-{village.lower().replace(' ', '-')}"
        self.clock += timedelta(hours=2)
        self.records[name] = {
            "id": name,
            "name": name,
            "title": f"{thing.replace('-', ' ').capitalize()} of {village}",
            "notes": words,
            "license_title": licence,
            "metadata_modified": self.clock.isoformat(timespec="microseconds"),
            "organization": {"name": "valley", "title": "The valley council"},
            "tags": [{"name": thing.replace("-", " ")}, {"name": village}],
            "resources": [{"name": "Table", "format": "CSV", "url": f"https://valley.example/{name}.csv"}],
        }


@contextmanager
def open_portal(portal: DemoPortal) -> Iterator[str]:
    """Serve the portal on loopback; yield its address."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer a search of the action API."""
            url = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            if not url.path.endswith("/package_search"):
                self.send_error(404)
                return
            since = _SINCE.search(query.get("fq", ""))
            result = portal.search(
                start=int(query.get("start", 0)),
                rows=int(query.get("rows", 10)),
                since=since[1] if since else None,
                ids=query.get("fl") == "id",
            )
            body = json.dumps({"success": True, "result": result}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def date_time_string(self, timestamp: float | None = None) -> str:
            """Return the time of the portal's clock, which the demo sets."""
            return portal.clock.replace(tzinfo=UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name of the base class)
            """Suppress the log of requests."""

    with _serve(Answer) as address:
        yield address


@contextmanager
def _serve(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
