"""Redaction: records without contact details and possible credentials."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["redacted", "redacted_at"]

_HIDDEN = "(hidden)"
# Where catalogs name a person to write to, such as `vcard:fn`, `maintainer` of CKAN, `individualName` of ISO 19115.
# Authors and publishers stay: a dataset is cited by them.
_PEOPLE = frozenset(
    {"contactname", "contactperson", "familyname", "firstname", "fn", "givenname", "hasfn", "individualname"}
    | {"lastname", "maintainer", "maintainername", "surname"}
)


def redacted(value: Any, keys: Sequence[str]) -> Any:
    """Return a record without contact details and credentials, at any depth.

    Values of keys with one of these parts in their names are hidden, and the names of contacts.
    """
    return _shown(value, keys, of_contact=False) if keys else value


def redacted_at(path: str, value: Any, keys: Sequence[str]) -> Any:
    """Return the value at a path (JSON Pointer) of a record, redacted as within the whole record."""
    parts = path.split("/")
    for part in reversed(parts):
        value = {part: value}
    shown = redacted(value, keys)
    for part in parts:
        shown = shown[part] if isinstance(shown, Mapping) else shown
    return shown


def _shown(value: Any, keys: Sequence[str], *, of_contact: bool) -> Any:
    match value:
        case Mapping():
            return {name: _field(name, one, keys, of_contact=of_contact) for name, one in value.items()}
        case list() | tuple():
            return [_shown(one, keys, of_contact=of_contact) for one in value]
    return value


def _field(name: str, value: Any, keys: Sequence[str], *, of_contact: bool) -> Any:
    plain, last = _letters(name), _letters(re.split(r"[:#/]", name)[-1])
    is_person = last in _PEOPLE or (last == "contact" and isinstance(value, str)) or (of_contact and last == "name")
    if not is_person and not any(key in plain for key in keys):
        return _shown(value, keys, of_contact=of_contact or "contact" in last)
    # What is not there cannot be hidden; that it is there may be known.
    return value if value in (None, "", [], {}) else _HIDDEN


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
