"""Conditions on fields: `price<100`, `status = cancelled`, `plans/0/price >= 9`, `name ~ lamp`, `price`."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from rowen.errors import UsageError
from rowen.model.numbers import finite

__all__ = ["Condition", "ConditionSign"]

ConditionSign: TypeAlias = Literal["<", "<=", ">", ">=", "=", "!=", "~", "exists"]

_SIGN = re.compile(r"<=|>=|!=|==|[=<>~]")
_PATH = re.compile(r"[A-Za-z_@/][\w@.:/-]*")
# A schema has no longer names, and nobody compares with a longer text.
_LONGEST = 500
# What the database takes to plan a search grows with more than the square of their number: 10 take 0.2 s, 100 took 20 s
# and 200 took 19 GB.
_MOST = 10


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison of a field with a value; texts are compared without case, `~` looks for a part."""

    path: tuple[str, ...]
    sign: ConditionSign
    value: str | float = ""

    @classmethod
    def parse(cls, text: str) -> "Condition":
        """Read a condition; raises `UsageError` for what is none."""
        found = _SIGN.search(text[:_LONGEST])
        field, value = (text[: found.start()], text[found.end() :].strip()) if found else (text, "")
        path = tuple(part for part in field.strip().split("/") if part)
        if not path or not _PATH.fullmatch(field.strip()) or len(text) > _LONGEST or (found and not value):
            raise UsageError(f"{text!r} is no condition.", hint="Such as 'price<100', 'status=cancelled', 'name~lamp'.")
        if found is None:
            return cls(path, "exists")
        sign: Any = "=" if found[0] == "==" else found[0]
        return cls(path, sign, _value(value))

    @classmethod
    def parse_all(cls, texts: Iterable[str]) -> "list[Condition]":
        """Read conditions that must all hold; raises `UsageError` for what is none, and for too many."""
        listed = list(texts)
        if len(listed) > _MOST:
            raise UsageError(f"{len(listed):,} conditions were given, and at most {_MOST} can be combined.")
        return [cls.parse(text) for text in listed]

    def holds(self, data: Any) -> bool:
        """Whether data satisfies it; what is not there satisfies nothing."""
        for step in self.path:
            if isinstance(data, list) and step.isdecimal() and int(step) < len(data):
                data = data[int(step)]
            else:
                data = data.get(step) if isinstance(data, dict) else None
        if isinstance(data, list):
            return any(self._compared(one) for one in data)
        return self._compared(data)

    def _compared(self, value: Any) -> bool:
        if value is None:
            return False
        if self.sign == "exists":
            return True
        if isinstance(self.value, float) and isinstance(value, int | float) and not isinstance(value, bool):
            number = finite(value)
            return number is not None and _ordered(self.sign, number, self.value)
        told, wanted = str(value).casefold(), _words(self.value).casefold()
        return wanted in told if self.sign == "~" else _ordered(self.sign, told, wanted)

    def __str__(self) -> str:
        path = "/".join(self.path)
        return path if self.sign == "exists" else f"{path} {self.sign} {_words(self.value)}"


def _value(text: str) -> str | float:
    bare = text.strip()
    if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "'\"":
        return bare[1:-1]
    try:
        number = float(bare)
    except ValueError:
        return bare
    return bare if finite(number) is None else number


def _words(value: str | float) -> str:
    return f"{value:g}" if isinstance(value, float) else value


def _ordered(sign: str, one: Any, other: Any) -> bool:
    match sign:
        case "<":
            return bool(one < other)
        case "<=":
            return bool(one <= other)
        case ">":
            return bool(one > other)
        case ">=":
            return bool(one >= other)
        case "!=":
            return bool(one != other)
    return bool(one == other)
