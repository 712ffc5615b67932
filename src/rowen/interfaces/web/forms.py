"""Forms: fields derived from the declarations of operations, and the values that browsers send."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from markupsafe import Markup, escape
from starlette.requests import Request

from rowen.errors import UsageError
from rowen.model.text import UNSTORABLE, is_storable
from rowen.operations.registry import signature_of, validated

# A form has a dozen fields; files are not accepted.
_MOST_FIELDS = 1_000
_CODE = re.compile("`([^`]*)`")
_BOUNDS = {
    "minimum": "min",
    "maximum": "max",
    "minLength": "minlength",
    "maxLength": "maxlength",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One input: the name and bounds of a parameter, with its help text as HTML."""

    name: str
    label: str
    help: Markup
    attributes: Mapping[str, str | int | bool]
    choices: Sequence[str]
    is_repeated: bool


@cache
def field_of(operation: str, name: str) -> Field:
    """Return the input for a parameter of an operation."""
    parameter = signature_of(operation).parameters[name]
    schema = msgspec.json.schema(parameter.type)
    declared = {key: value for part in (schema, *schema.get("anyOf", ())) for key, value in part.items()}
    items = declared.get("items", {})
    is_repeated = bool(items)
    attributes: dict[str, str | int | bool] = {
        attribute: declared[bound] for bound, attribute in _BOUNDS.items() if bound in declared and not is_repeated
    }
    if declared.get("type") in ("integer", "number"):
        attributes["type"] = "number"
    if parameter.is_required:
        attributes["required"] = True
    # The text is escaped before code marks become elements.
    help_html = Markup(_CODE.sub(r"<code>\1</code>", str(escape(parameter.help))))  # noqa: S704
    choices = items.get("enum") or declared.get("enum") or ()
    label = parameter.flag.replace("_", " ").capitalize()
    return Field(parameter.flag, label, help_html, attributes, choices, is_repeated)


def values_of(operation: str, sent: Mapping[str, Sequence[str]], names: Sequence[str]) -> dict[str, Any]:
    """Return text from a form or a query as arguments of an operation; empty fields are omitted.

    Raise `UsageError` if a value is out of its bounds or a required value is missing.
    """
    parameters = signature_of(operation).parameters
    values: dict[str, Any] = {}
    for name in names:
        field = field_of(operation, name)
        texts = [text.strip() for text in sent.get(field.name, ()) if text.strip()]
        if texts:
            values[name] = texts if field.is_repeated else texts[-1]
        elif parameters[name].is_required:
            raise UsageError(f"The field {field.name!r} is empty. Nothing was changed.")
    checked = validated(operation, values, names=names, strict=False)
    return {name: parameters[name].convert(value) for name, value in checked.items()}


class Form:
    """The fields of a form by name, as text."""

    def __init__(self, fields: Mapping[str, list[str]]) -> None:
        self._fields = fields

    def text(self, name: str) -> str | None:
        """Return a field without surrounding white space; None if it is empty."""
        return next((text.strip() for text in self._fields.get(name, ()) if text.strip()), None)

    def need(self, name: str) -> str:
        """Return a field; raise `UsageError` if it is empty."""
        text = self.text(name)
        if text is None:
            raise UsageError(f"The field {name!r} is empty. Nothing was changed.")
        return text

    def many(self, name: str) -> list[str]:
        """Return all values of a field."""
        return [text for text in self._fields.get(name, ()) if text]

    def values(self, operation: str, *names: str) -> dict[str, Any]:
        """Return fields as arguments of an operation, by the names of its parameters."""
        return values_of(operation, self._fields, names)

    def pairs(self, name: str) -> dict[str, str]:
        """Return lines such as `max_pages=100` as a mapping."""
        lines = [line.strip() for line in (self.text(name) or "").splitlines() if line.strip()]
        if wrong := next((line for line in lines if "=" not in line), None):
            raise UsageError(f"{wrong!r} is not an option.", hint="Write one on each line, such as max_pages=100.")
        return {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines)}

    def options(self, name: str) -> dict[str, Any]:
        """Return lines such as `max_pages=100` as a mapping with values parsed as JSON; other values are text."""
        options: dict[str, Any] = {}
        for key, text in self.pairs(name).items():
            try:
                options[key] = json.loads(text)
            except ValueError:
                options[key] = text
        return options


async def read_form(request: Request) -> Form:
    """Read the form of a request."""
    async with request.form(max_files=0, max_fields=_MOST_FIELDS) as sent:
        fields: dict[str, list[str]] = {}
        for name, value in sent.multi_items():
            if isinstance(value, str):
                fields.setdefault(name, []).append(value)
    if not is_storable(fields):
        raise UsageError(f"Nothing was changed: {UNSTORABLE}")
    return Form(fields)
