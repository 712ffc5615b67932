"""`--since` as a type of option."""

from datetime import datetime, timedelta
from typing import Any

import click

from rowen.model.dates import parse_since

__all__ = ["SinceParam"]


class SinceParam(click.ParamType[int | timedelta | datetime]):
    """A number of the change log, a time that has passed, or a date."""

    name = "N|1d|DATE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | timedelta | datetime:
        """Read it."""
        try:
            return parse_since(value) if isinstance(value, str) else value
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is no change number (42), time passed (30min, 2h, 1d) or date (2026-01-31).")
