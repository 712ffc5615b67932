"""Whether a sitemap's dates may be believed, and which pages they spare us.

A date older than our last walk claims that a page has not changed since. For a first time all such claims are
checked; when they held, most pages are spared the request and a sample is still asked for. One false claim ends
the trust for some runs.
"""

import zlib
from collections.abc import Mapping
from datetime import datetime, timedelta

from rowen.model.url import canonical

__all__ = ["Dates"]

# Clocks of a site's machines differ, and a page may be published a while after the date that it is given: without an
# overlap it would be missed. At twice as much, each changed page is asked for once more in the hour after.
OVERLAP = timedelta(hours=1)
# One page in so many is asked for although its date spares it: lies show after a few runs, at a price of 5 %.
SAMPLED = 20
# On sites of a few pages the sample above would often be empty.
ALWAYS_ASKED = 3
# After a lie every page is asked for in so many runs. With one, a site that lies in every other run would be believed
# again before each lie.
DISTRUST_RUNS = 3


class Dates:
    """The claims of one run. `trust` above zero spares requests; below zero it grows back by one a run."""

    def __init__(self, modified: Mapping[str, datetime], *, as_of: datetime | None, trust: int) -> None:
        self._modified = modified
        self._as_of = as_of
        self._trust = trust
        self._claims = 0
        self._true = 0
        self.lies = 0

    def claims(self, url: str) -> bool:
        """Whether a page is said not to have changed since our last walk."""
        if self._as_of is None or not self._modified:
            return False
        moment = self._modified.get(canonical(url))
        return moment is not None and moment < self._as_of - OVERLAP

    def spares(self, url: str) -> bool:
        """Whether a claim is believed without asking."""
        if self._trust <= 0 or self.lies:
            return False
        self._claims += 1
        return self._claims > ALWAYS_ASKED and zlib.crc32(f"{url}{self._as_of}".encode()) % SAMPLED != 0

    def check(self, *, held_true: bool) -> None:
        """Note how a claim turned out that was asked about."""
        if held_true:
            self._true += 1
        else:
            self.lies += 1

    @property
    def trust(self) -> int:
        """The trust that the next run may have."""
        if self.lies:
            return -DISTRUST_RUNS
        if self._trust < 0:
            return self._trust + 1
        return 1 if self._true or self._claims else self._trust
