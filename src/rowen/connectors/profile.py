"""The application profile of a source whose pages state something: read when it is declared, and kept with it."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator

from rowen.formats.rdf.profile import profile_in
from rowen.model.address import Address
from rowen.model.hashes import body_hash
from rowen.model.statements import StatementProfile

__all__ = ["ProfileAction", "ProfileShapes", "profile_read_by", "statement_profile"]


def _understood(shapes: str | None) -> str | None:
    if shapes is not None and Address.of(shapes).scheme == "file":
        raise ValueError("the file was not read: only its text can be checked")
    if shapes is not None:
        profile_in(shapes)
    return shapes


# Of a file that is named, the text is read before: a validator opens nothing (see `Options.text_or_file`).
ProfileShapes = Annotated[str | None, AfterValidator(_understood)]
ProfileAction: TypeAlias = Literal["drop", "report"]


def statement_profile(shapes: str | None, action: ProfileAction) -> StatementProfile | None:
    """The profile that a page is read with."""
    return None if shapes is None else StatementProfile(shapes, drop=action == "drop")


def profile_read_by(shapes: str | None, action: ProfileAction) -> dict[str, Any]:
    """What of it decides how a page is read: nothing where there is none, so that pages stay as they were read."""
    return {} if shapes is None else {"profile": [body_hash(shapes.encode()).hex(), action]}
