"""What Google's two APIs have in common: their address, and models that are named in the path."""

import re

from rowen.errors import ConfigurationError

__all__ = ["HOME", "model_name"]

HOME = "https://generativelanguage.googleapis.com/v1beta"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def model_name(given: str) -> str:
    """Return the name of a model without `models/`; refuse what could lead to another path of the API."""
    name = given.removeprefix("models/")
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{given[:200]!r} is not the name of a Gemini model. Nothing was sent.",
            hint="A name has letters, digits, dots, hyphens and underscores, such as gemini-2.5-flash-lite.",
        )
    return name
