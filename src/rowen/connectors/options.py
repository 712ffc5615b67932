"""Options of a source, declared with pydantic. Use `plain_options` instead where start-up time matters."""

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict


def split_commas(value: Any) -> Any:
    """Split a text at its commas; return any other value unchanged."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


class Options(BaseModel):
    """Options of a source, validated when it is added."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    secret_neutral: ClassVar[frozenset[str]] = frozenset({"language"})
    """Options that affect neither where nor how a secret of the source is sent.

    A caller who may not name secrets may change these. Numbers and times need not be listed; the rest is guarded.
    """

    text_or_file: ClassVar[frozenset[str]] = frozenset()
    """Options whose text may be given as `file:PATH`.

    The file is read once, after checking that the caller may name it; a validator gets only its text.
    """

    language: str | None = None

    def reading(self) -> dict[str, Any]:
        """Return the options that decide how an item is read; when they change, every item is read again."""
        return self.model_dump(mode="json")

    def chosen(self, *names: str) -> dict[str, Any]:
        """Return the named options whose value differs from the default."""
        return self.model_dump(mode="json", include=set(names), exclude_defaults=True)

    def listing(self) -> dict[str, Any]:
        """Return the options that a cursor depends on; when they change, the source is read from the beginning."""
        return self.model_dump(mode="json")
