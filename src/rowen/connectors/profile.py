"""The application profile of a source whose pages state something: read when it is declared, and kept with it."""

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import unquote

from pydantic import AfterValidator, BeforeValidator

from rowen.formats.rdf.profile import MOST_CHARS, profile_in
from rowen.model.hashes import body_hash
from rowen.model.statements import StatementProfile

__all__ = ["ProfileAction", "ProfileShapes", "profile_read_by", "statement_profile"]

_FILE = "file:"


def _shapes(value: Any) -> Any:
    """The shapes in a file that is named; what is no such name are shapes."""
    if not isinstance(value, str) or not value.startswith(_FILE):
        return value
    path = Path(unquote(value.removeprefix("file://").removeprefix(_FILE)))
    try:
        with path.expanduser().open(encoding="utf-8") as file:
            return file.read(MOST_CHARS + 1)
    except (OSError, RuntimeError, ValueError) as problem:
        raise ValueError(f"the file {path} cannot be read: {problem}") from None


def _understood(shapes: str | None) -> str | None:
    if shapes is not None:
        profile_in(shapes)
    return shapes


# The text is stored, not the name of its file: other machines have no such file, and if it changed unnoticed, pages
# would have been judged by different shapes.
ProfileShapes = Annotated[str | None, BeforeValidator(_shapes), AfterValidator(_understood)]
ProfileAction: TypeAlias = Literal["drop", "report"]


def statement_profile(shapes: str | None, action: ProfileAction) -> StatementProfile | None:
    """The profile that a page is read with."""
    return None if shapes is None else StatementProfile(shapes, drop=action == "drop")


def profile_read_by(shapes: str | None, action: ProfileAction) -> dict[str, Any]:
    """What of it decides how a page is read: nothing where there is none, so that pages stay as they were read."""
    return {} if shapes is None else {"profile": [body_hash(shapes.encode()).hex(), action]}
