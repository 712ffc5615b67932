"""Tells whether the hay may be mown: three dry days, and the goat's opinion."""

__all__ = ["may_mow"]

DRY_DAYS_NEEDED = 3


def may_mow(rain_mm: list[float], *, goat_is_lying_down: bool) -> bool:
    """Whether the next days are dry enough; a goat that lies down outvotes any forecast."""
    dry = all(rain == 0 for rain in rain_mm[:DRY_DAYS_NEEDED])
    return dry and len(rain_mm) >= DRY_DAYS_NEEDED and not goat_is_lying_down
