"""Regular expressions that others wrote: how large they become when they are compiled.

The engines that match them do not backtrack. They take time and memory in proportion to the number of states, which a
few characters can multiply: `((a{99}){99}){99}`.
"""

import re

__all__ = ["pattern_states"]

_TOKEN = re.compile(r"\\[pP]\{[^{}]*\}|\\.|\[\^?\]?|\{(?P<least>\d{1,9})(?:,(?P<most>\d{0,9}))?\}|.", re.DOTALL)
_KEEPS_ATOM = frozenset("*+?|^$")
# Compiling `\p{L}` takes 130 microseconds, a letter 1 to 3.
_CLASS_STATES = 50
_SET_STATES = 8
_LARGEST = 1_000_000_000


def pattern_states(pattern: str) -> int:
    """Estimate the number of states of a regular expression, in linear time."""
    groups = [0]
    atom = 0
    in_set = widest = 0
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        if in_set or text[0] == "[":
            widest = max(widest, _states(text), _SET_STATES)
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
            atom = _states(text)
            groups[-1] += atom
    return min(_LARGEST, sum(groups) + widest)


def _states(token: str) -> int:
    if token.startswith(("\\p", "\\P")):
        return _CLASS_STATES
    return _SET_STATES if token in ("\\w", "\\W", "\\s", "\\S", "\\d", "\\D", ".") else 1
