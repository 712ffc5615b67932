"""Which facts are wanted of a page beside its text: names of fields, and rules that say where single ones stand."""

import re
from typing import NamedTuple

__all__ = ["FactsWanted", "plain_name"]

_VOCABULARY = re.compile(r"https?://(?:www\.)?schema\.org/")


class FactsWanted(NamedTuple):
    """What a reader of pages keeps of their markup: fields of these names, and what rules find, by schema and field."""

    names: tuple[str, ...] = ()
    rules: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.names or self.rules)

    @property
    def is_linear(self) -> bool:
        """Whether its rules take a few steps per element of a page; XPaths and nested selectors can be exponential."""
        return not any("(" in at or at.lstrip().startswith("/") for _, at in self.rules)


def plain_name(name: str) -> str:
    """A name as names are compared: datePublished, date_published and https://schema.org/datePublished are one."""
    return re.sub(r"[^a-z0-9@]", "", _VOCABULARY.sub("", name).lower())
