"""What can be told to be wrong before anything is opened, made or asked."""

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
    """The names of a kind's options, or of all kinds'."""
    asked = [kind] if kind in kinds() else kinds()
    return sorted({name for one in asked for name in registry.connector(one).Options.model_fields})


def has_database(settings: Settings) -> bool:
    """Whether there is a database already, as far as this can be told without opening one."""
    return settings.database_url is not None or site_folder(settings.home).exists()


def looks_like_an_address(target: str) -> bool:
    """Whether it may be an address; the name of a source is any other word."""
    return any(mark in target for mark in "/\\:~.")


def check_new_targets(settings: Settings, targets: Sequence[str]) -> None:
    """Refuse what cannot be read, where no database is there that could hold it: none is made for a misspelt path."""
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

    A file that an option names is read, so the caller has to be one who may name it. Where only probing will tell the
    kind, an option is refused that none of them has.
    """
    formal = registry.recognise(address, kind)[0]
    if kind is None and formal == "web" and probes:
        registry.refuse_unknown_options(options)
    else:
        registry.check_options(formal, with_texts(formal, options))
