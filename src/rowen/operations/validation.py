"""Validation before anything is opened, created or requested."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rowen.connectors import registry
from rowen.errors import Hint, NotFoundError, action
from rowen.operations.reach import with_texts
from rowen.settings import Settings
from rowen.store.server.site import site_folder

__all__ = ["check_new_targets", "check_options", "has_database", "kinds", "looks_like_an_address", "options_of"]

kinds = registry.kinds
"""The kinds of sources that there are."""


def options_of(kind: str | None) -> list[str]:
    """Return the names of a kind's options, or of all kinds'."""
    asked = [kind] if kind in kinds() else kinds()
    return sorted({name for one in asked for name in registry.connector(one).Options.model_fields})


def has_database(settings: Settings) -> bool:
    """Return whether a database exists, as far as that is known without opening one."""
    return settings.database_url is not None or site_folder(settings.home).exists()


def looks_like_an_address(target: str) -> bool:
    """Return whether a word may be an address; the name of a source is any other word."""
    return any(mark in target for mark in "/\\:~.")


def check_new_targets(settings: Settings, targets: Sequence[str]) -> None:
    """Refuse targets that cannot be read while there is no database: none is created for a misspelt path."""
    if has_database(settings):
        return
    for target in targets:
        if not looks_like_an_address(target):
            here = Hint(action("sync", f"./{target}"), " reads the folder or file of that name.")
            hint = here if Path(target).exists() else "There are no sources yet."
            raise NotFoundError(f"There is no source named {target!r}.", hint=hint)
        registry.recognise(target)


def check_options(address: str, kind: str | None, options: Mapping[str, Any], *, probes: bool) -> None:
    """Refuse an address that cannot be read, and options that its kind does not have.

    Files that options name are read, so the caller must be allowed to name them. If only a probe can find the kind,
    options are refused that no kind has.
    """
    formal = registry.recognise(address, kind)[0]
    if kind is None and formal == "web" and probes:
        registry.refuse_unknown_options(options)
    else:
        registry.check_options(formal, with_texts(formal, options))
