"""The demo's catalog: the open data portal of the valley, which speaks CKAN's API on loopback."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

__all__ = ["WEEK", "DemoPortal", "open_portal"]

_BEGINNING = datetime(2026, 4, 1, 8, 0)  # noqa: DTZ001 (CKAN writes its dates without a zone)
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

WEEK = (
    "The gates of Yarrow are described anew.",
    "The bee hives of Mill Row get another licence, and nothing else.",
    "The footpaths of Lower Wick are withdrawn: no listing says so, only the count is one less.",
    "Vetchley publishes its scarecrows.",
)


class DemoPortal:
    """Datasets by identifier, as CKAN keeps them."""

    def __init__(self) -> None:
        self.records: dict[str, dict[str, Any]] = {}
        self._clock = _BEGINNING
        for thing, words in _THINGS.items():
            for village in _VILLAGES:
                self._put(thing, village, words)

    def now(self) -> datetime:
        """The portal's time."""
        return self._clock.replace(tzinfo=UTC)

    def let_a_week_pass(self) -> None:
        """Do what `WEEK` says."""
        self._clock += timedelta(days=7)
        self._put("gates", "Yarrow", "All three gates of Yarrow, with the sound that each one makes.")
        self._put("bee-hives", "Mill Row", _THINGS["bee-hives"], licence="Open Data Commons Attribution License")
        del self.records["footpaths-lower-wick"]
        self._put("scarecrows", "Vetchley", "Scarecrows by field, dress and success.")

    def search(self, *, start: int, rows: int, since: str | None, ids: bool) -> dict[str, Any]:
        """CKAN's `package_search`."""
        found = [self.records[name] for name in sorted(self.records)]
        if since:
            found = [one for one in found if f"{one['metadata_modified']}Z" >= since]
        page = found[start : start + rows]
        return {"count": len(found), "results": [{"id": one["id"]} for one in page] if ids else page}

    def _put(self, thing: str, village: str, words: str, *, licence: str = "Creative Commons Attribution") -> None:
        name = f"{thing}-{village.lower().replace(' ', '-')}"
        self._clock += timedelta(hours=2)
        self.records[name] = {
            "id": name,
            "name": name,
            "title": f"{thing.replace('-', ' ').capitalize()} of {village}",
            "notes": words,
            "license_title": licence,
            "metadata_modified": self._clock.isoformat(timespec="microseconds"),
            "organization": {"name": "valley", "title": "The valley council"},
            "tags": [{"name": thing.replace("-", " ")}, {"name": village}],
            "resources": [{"name": "Table", "format": "CSV", "url": f"https://valley.example/{name}.csv"}],
        }


@contextmanager
def open_portal(portal: DemoPortal) -> Iterator[str]:
    """Serve the portal on loopback; gives its address."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """One question of the action API, or nothing."""
            parts = urlsplit(self.path)
            asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
            if not parts.path.endswith("/package_search"):
                self.send_error(404)
                return
            since = _SINCE.search(asked.get("fq", ""))
            result = portal.search(
                start=int(asked.get("start", 0)),
                rows=int(asked.get("rows", 10)),
                since=since[1] if since else None,
                ids=asked.get("fl") == "id",
            )
            body = json.dumps({"success": True, "result": result}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def date_time_string(self, timestamp: float | None = None) -> str:
            """The time on the portal's own clock, which the demo sets."""
            return portal.now().strftime("%a, %d %b %Y %H:%M:%S GMT")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name that the base class gives it)
            """Say nothing: the demo speaks."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
