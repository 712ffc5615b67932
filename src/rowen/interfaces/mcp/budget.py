"""How much of a model's attention an answer takes, and cutting it to that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from pydantic import Field

__all__ = ["Budget", "cut", "fitting", "tokens"]

T = TypeVar("T")

DEFAULT_TOKENS = 2_000
"""Three pages of a book: enough for five passages with their addresses. Twice as much costs every question; at half,
the best passage crowds out the rest."""

# A hundredth of what the largest models read: a whole chapter.
MOST_TOKENS = 50_000
# Less has no room for a passage beside its address.
LEAST_TOKENS = 200
# Prose has four to five characters a token, code and addresses three: who counts three promises too little.
_CHARS_PER_TOKEN = 3

Budget = Annotated[
    int,
    Field(
        ge=LEAST_TOKENS,
        le=MOST_TOKENS,
        description="At most so many tokens in the answer. Raise it when you need whole texts.",
    ),
]


def tokens(text: str) -> int:
    """About how many tokens a text has, rather too many than too few: letters beyond ASCII are one each."""
    plain = len(text.encode("ascii", "ignore"))
    return -(-plain // _CHARS_PER_TOKEN) + len(text) - plain


def cut(text: str, budget: int) -> str:
    """The beginning of a text, as many whole lines as fit; of one long line, words."""
    if tokens(text) <= budget:
        return text
    end = min(len(text), budget * _CHARS_PER_TOKEN)
    while end and (over := tokens(text[:end]) - budget) > 0:
        end -= max(1, over)
    whole = text[:end]
    # A line or a word is given up only if that leaves most of what fits.
    for gaps in ("\n", " \t\n"):
        if (last := max(map(whole.rfind, gaps))) > len(whole) // 2:
            return whole[:last]
    return whole


def fitting(things: Sequence[T], shown: Callable[[Sequence[T]], str], budget: int) -> Sequence[T]:
    """As many things from the first on as can be shown within the budget; always one, if there is any."""
    low, high = 1, len(things)
    while low < high:
        middle = (low + high + 1) // 2
        if tokens(shown(things[:middle])) <= budget:
            low = middle
        else:
            high = middle - 1
    return things[:low]
