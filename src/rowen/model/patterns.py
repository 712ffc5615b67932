"""Regular expressions that others wrote, matched in linear time.

The engine does not backtrack. It takes time and memory in proportion to the number of states, which a few characters
can multiply: `((a{99}){99}){99}`.
"""

import re
from collections.abc import Callable

__all__ = ["linear_search", "pattern_states"]

_TOKEN = re.compile(r"\\[pP]\{[^{}]*\}|\\.|\[\^?\]?|\{(?P<least>\d{1,9})(?:,(?P<most>\d{0,9}))?\}|.", re.DOTALL)
_KEEPS_ATOM = frozenset("*+?|^$")
# Compiling `\p{L}` takes 130 microseconds, a letter 1 to 3.
_CLASS_STATES = 50
_SET_STATES = 8
# Compiling the word characters of all scripts takes 250 microseconds.
_WORD_STATES = 80
_LARGEST = 1_000_000_000


def linear_search(pattern: str, *, most_states: int) -> Callable[[str], bool]:
    """Return a function that tells whether a text has a pattern somewhere.

    Raises `ValueError` for a pattern that is too large or that the engine does not know, such as one that looks around.
    """
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    if pattern_states(pattern) > most_states:
        raise ValueError("it repeats too much")
    try:
        validator = SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError as problem:
        # The engine repeats the pattern before it tells what is wrong with it.
        reason = str(problem).rpartition("error: ")[2].partition("\n")[0]
        raise ValueError(f"it cannot be matched in linear time: {reason[:200]}") from None
    return validator.isinstance_python


def pattern_states(pattern: str, *, ascii_words: bool = False) -> int:
    """Estimate the number of states of a regular expression, in linear time."""
    word_states = _SET_STATES if ascii_words else _WORD_STATES
    groups = [0]
    atom = 0
    in_set = widest = 0
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        if in_set or text[0] == "[":
            widest = max(widest, _states(text, word_states), _SET_STATES)
            in_set += (text[0] == "[") - (text == "]")
            if in_set:
                continue
            atom, widest = widest, 0
            groups[-1] += atom
        elif text == "(":
            groups.append(2)
            atom = 0
        elif text == ")" and len(groups) > 1:
            atom = groups.pop()
            groups[-1] += atom
        elif token["least"] is not None:
            times = max(1, int(token["least"]), int(token["most"] or 0))
            groups[-1] = min(_LARGEST, groups[-1] + atom * (times - 1))
            atom = min(_LARGEST, atom * times)
        elif text in _KEEPS_ATOM or text.isspace():
            groups[-1] += 1
            atom = max(atom, 1)
        else:
            atom = _states(text, word_states)
            groups[-1] += atom
    return min(_LARGEST, sum(groups) + widest)


def _states(token: str, word_states: int) -> int:
    if token.startswith(("\\p", "\\P")):
        return _CLASS_STATES
    if token in ("\\w", "\\W"):
        return word_states
    return _SET_STATES if token in ("\\s", "\\S", "\\d", "\\D", ".") else 1
