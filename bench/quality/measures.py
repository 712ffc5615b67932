"""Measures of a ranked answer, each between 0 and 1."""

import math
from collections.abc import Mapping, Sequence

__all__ = ["ndcg", "recall", "reciprocal_rank"]


def ndcg(found: Sequence[str], grades: Mapping[str, float], *, depth: int = 10) -> float:
    """Discounted gain of the first answers, over that of the best possible order."""
    best = _gain(sorted(grades.values(), reverse=True)[:depth])
    return _gain([grades.get(name, 0.0) for name in found[:depth]]) / best if best else 0.0


def reciprocal_rank(found: Sequence[str], grades: Mapping[str, float], *, depth: int = 10) -> float:
    """One over the place of the first good answer; 0 if there is none."""
    return next((1 / place for place, name in enumerate(found[:depth], 1) if grades.get(name, 0) > 0), 0.0)


def recall(found: Sequence[str], grades: Mapping[str, float], *, depth: int = 10) -> float:
    """The share of the good answers that were found."""
    good = {name for name, grade in grades.items() if grade > 0}
    return len(good & set(found[:depth])) / len(good) if good else 0.0


def _gain(grades: Sequence[float]) -> float:
    return sum(grade / math.log2(place + 1) for place, grade in enumerate(grades, 1))
