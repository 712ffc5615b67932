"""What a record of a catalog describes: a dataset, or something else that portals list beside datasets."""

from collections.abc import Mapping, Sequence
from typing import Any

from rowen.errors import UsageError
from rowen.model.twins import DATASET

__all__ = ["RECORD_KINDS", "USUAL", "check_record_kinds", "record_kind_of"]

RECORD_KINDS = ("dataset", "series", "service", "map", "application", "document", "other")
"""`series` are datasets that are described together (also called collections), `service` is an interface to data, `map`
a picture of data, `application` something to use, `document` something to read; `other` is all else, or not told."""

USUAL = "dataset"
"""What most records are. It is not written into them, so that those of older databases need not be written again."""


def record_kind_of(facts: Mapping[str, Any], media_type: str | None) -> str | None:
    """What an item describes by its record; None for what comes from no catalog."""
    if media_type != DATASET:
        return None
    told = facts.get("record_kind")
    return told if isinstance(told, str) and told else USUAL


def check_record_kinds(kinds: Sequence[str]) -> None:
    """Refuse a kind of records that no record can have."""
    for kind in kinds:
        if kind not in RECORD_KINDS:
            raise UsageError(f"There is no record kind {kind!r}.", hint=f"There are: {', '.join(RECORD_KINDS)}.")
