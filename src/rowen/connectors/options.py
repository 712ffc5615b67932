"""Options of a source, declared with pydantic: the default, unless start-up time matters (see `plain_options`)."""

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict


def split_commas(value: Any) -> Any:
    """Return the parts of a text between commas; a list of parts stays as it is."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


class Options(BaseModel):
    """Options of a source, validated when it is added."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    secret_neutral: ClassVar[frozenset[str]] = frozenset({"language"})
    """Options that decide neither where a secret of the source is sent nor how.

    A caller who may not name secrets may change these. Numbers and times need not be listed; all others are guarded.
    """

    text_or_file: ClassVar[frozenset[str]] = frozenset()
    """Options whose text may be given as `file:PATH`.

    The file is read once, after the caller was found to be allowed to name it; a validator sees its text only.
    """

    language: str | None = None

    def reading(self) -> dict[str, Any]:
        """Return the options that decide how an item is read: when they change, every item is read anew."""
        return self.model_dump(mode="json")

    def chosen(self, *names: str) -> dict[str, Any]:
        """Return those of these options that are not at their defaults."""
        return self.model_dump(mode="json", include=set(names), exclude_defaults=True)

    def listing(self) -> dict[str, Any]:
        """Return the options under which a cursor holds: when they change, the source is read from its beginning."""
        return self.model_dump(mode="json")
