"""What somebody typed into a form."""

import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from rowen.errors import UsageError
from rowen.model.text import UNSTORABLE, is_storable

__all__ = ["Form", "read_form"]

# A form has a dozen fields; a file is never sent.
_MOST_FIELDS = 1_000


class Form:
    """The fields of a form, by name; text only."""

    def __init__(self, fields: Mapping[str, list[str]]) -> None:
        self._fields = fields

    def text(self, name: str) -> str | None:
        """What was typed, without white space around it; None for nothing."""
        return next((one.strip() for one in self._fields.get(name, ()) if one.strip()), None)

    def need(self, name: str) -> str:
        """What was typed; raises `UsageError` for nothing."""
        found = self.text(name)
        if found is None:
            raise UsageError(f"The field {name!r} is empty. Nothing was changed.")
        return found

    def many(self, name: str) -> list[str]:
        """All that was chosen under one name."""
        return [one for one in self._fields.get(name, ()) if one]

    def pairs(self, name: str) -> dict[str, str]:
        """Lines such as `max_pages=100`, by what stands before the sign."""
        lines = [line.strip() for line in (self.text(name) or "").splitlines() if line.strip()]
        if wrong := next((line for line in lines if "=" not in line), None):
            raise UsageError(f"{wrong!r} is no option.", hint="One in each line, such as max_pages=100.")
        return {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines)}

    def options(self, name: str) -> dict[str, Any]:
        """The same, where a value that is JSON is taken as such, and anything else as text; as in the terminal."""
        return {key: _value(value) for key, value in self.pairs(name).items()}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


async def read_form(request: Request) -> Form:
    """The form that was sent."""
    async with request.form(max_files=0, max_fields=_MOST_FIELDS) as sent:
        fields: dict[str, list[str]] = {}
        for name, value in sent.multi_items():
            if isinstance(value, str):
                fields.setdefault(name, []).append(value)
    if not is_storable(fields):
        raise UsageError(f"Nothing was changed: {UNSTORABLE}")
    return Form(fields)
