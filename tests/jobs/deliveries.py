"""Twelve folders, two workers and a receiver: does each change arrive, while sources and deliveries run side by side?

`python -m tests.jobs.deliveries --changes 2000 --times 10` repeats it and prints what was missing.
"""

import argparse
import base64
import collections
import itertools
import os
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from tests.conftest import ScratchDatabase, migrated, started
from tests.jobs.processes import Nursery, until
from tests.publish.test_webhooks import Receiver

__all__ = ["Delivered", "deliver_all"]

SOURCES = 12
WORKERS = 2
_AT_ONCE = 5  # files that a folder gets at a time: the log grows in many small commits
_SECRET = "whsec_" + base64.b64encode(b"s" * 24).decode()


class Delivered(NamedTuple):
    """What became of the changes of the log: never told, and told more than once."""

    changes: int
    missing: list[int]
    repeated: list[int]
    after: int


def deliver_all(database: ScratchDatabase, folder: Path, *, changes: int) -> Delivered:
    """Let so many changes happen in twelve folders, and wait until workers have told the receiver all of them."""
    places = [folder / f"field{number:02}" for number in range(SOURCES)]
    secret = folder / "secret"
    secret.write_text(_SECRET)
    for place in places:
        place.mkdir()
        values = f"'{place.name}', 'files', '{place.as_uri()}', 'every 1d'"
        database.execute(f"insert into source (name, kind, url, schedule) values ({values})")
    database.execute("insert into source_due (source_id, due_at) select id, now() + interval '1 day' from source")
    with closing(Receiver()) as receiver, Nursery(database.conninfo, trust_database=True, lease_s=2) as nursery:
        columns = f"'hook', '{receiver.url}/hook', '{{file:{secret}}}', 0"
        database.execute(f"insert into webhook (name, url, secrets, after) values ({columns})")
        for _ in range(WORKERS):
            nursery.start()
        made = 0
        while made < changes:
            for place in places:
                for number in range(made, min(made + _AT_ONCE, changes)):
                    (place / f"{number}.md").write_text(f"# {place.name} {number}\n\nHere grows row {number}.\n")
                made = min(made + _AT_ONCE, changes)
            looks = itertools.count()
            until(lambda made=made, looks=looks: _last(database) >= made or _make_due(database, next(looks)))
        until(lambda: database.query("select after from webhook") == [(changes,)])
        counts = collections.Counter(receiver.accepted)
    missing = [number for number in range(1, changes + 1) if number not in counts]
    [(after,)] = database.query("select after from webhook")
    return Delivered(_last(database), missing, [number for number, times in counts.items() if times > 1], after)


# A tick holds the rows of several sources: waiting for some of them while holding others would end in a deadlock.
_MAKE_DUE = """
update source_due set due_at = now()
 where source_id in (select source_id from source_due for update skip locked)
"""


def _make_due(database: ScratchDatabase, look: int) -> None:
    """Make all folders due, once and then twice a second: a job that ends just now sets the time of the next one."""
    if look % 25 == 0:
        database.execute(_MAKE_DUE)
        database.execute("select pg_notify('rowen_due', '')")


def _last(database: ScratchDatabase) -> int:
    [(last,)] = database.query("select coalesce(max(number), 0) from change")
    return int(last)


def main() -> int:
    """Repeat it; the exit code says whether anything was missing."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--changes", type=int, default=2_000)
    parser.add_argument("--times", type=int, default=10)
    asked = parser.parse_args()
    os.environ["ROWEN_EMBEDDER"] = "none"
    lost = 0
    with started() as server:
        template = migrated(server)
        for time_number in range(1, asked.times + 1):
            began = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                database = ScratchDatabase(server.conninfo(server.create(template)), Path(folder) / "home")
                told = deliver_all(database, Path(folder), changes=asked.changes)
            lost += len(told.missing)
            print(
                f"{time_number}: {told.changes} changes, {len(told.missing)} missing {told.missing[:10]},"
                f" {len(told.repeated)} repeated, {time.monotonic() - began:.1f} s",
                flush=True,
            )
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
