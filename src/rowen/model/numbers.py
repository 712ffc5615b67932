"""Numbers from outside, which may be of any size: Python reads integers that no float and no column can hold."""

import math

__all__ = ["finite", "tokens"]

# No call has so many; the database holds numbers of 19 digits.
_MOST_TOKENS = 10**12


def finite(value: float) -> float | None:
    """Return a number as a float; None for NaN, infinity, and an integer that is too large for a float."""
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def tokens(value: object) -> int:
    """Return a count of tokens as a provider tells it; 0 for what is none."""
    return value if type(value) is int and 0 < value < _MOST_TOKENS else 0
