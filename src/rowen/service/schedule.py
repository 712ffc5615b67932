"""How often a source is to be looked at, as a file declares it: checked and kept, for the queue that will run it."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from cronsim import CronSim, CronSimError

from rowen.errors import UsageError

__all__ = ["schedule_of"]

_EVERY = re.compile(r"auto|[1-9][0-9]*(?:s|min|h|d|w)")
_CRON_HINT = (
    "Five fields: minute (0-59), hour (0-23), day of the month (1-31), month (1-12), day of the week (0-7);"
    " such as '0 3 * * *' for every night at three."
)
# Any moment will do: the library wants one to count from.
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


def schedule_of(entry: Mapping[str, Any]) -> str | None:
    """The schedule that an entry declares by `every` or by `cron`, if any; raises `UsageError` for what is none."""
    if "every" in entry:
        every = "".join(entry["every"].split())
        if not _EVERY.fullmatch(every):
            raise UsageError(
                f"every = {entry['every']!r} is no length of time.", hint="Such as 30min, 6h, 1d, 1w or auto."
            )
        return f"every {every}"
    if "cron" in entry:
        cron = " ".join(entry["cron"].split())
        if problem := _problem(cron):
            raise UsageError(f"cron = {entry['cron']!r} is no schedule: {problem}.", hint=_CRON_HINT)
        return f"cron {cron}"
    return None


def _problem(cron: str) -> str | None:
    """What is wrong with a cron expression; the library would take a sixth field, of seconds."""
    if len(cron.split()) != 5:
        return "it does not have five fields"
    try:
        CronSim(cron, _EPOCH)
    except CronSimError as problem:
        return str(problem).lower()
    return None
