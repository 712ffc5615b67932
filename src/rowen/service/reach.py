"""What leads into the machine that Rowen runs on: its folders, its files and its secrets.

Every door says how far who is asking may reach; what is beyond is refused here and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from rowen.connectors import registry
from rowen.errors import RefusedError
from rowen.fetch.credentials import destinations, references
from rowen.model.access import Reach

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

__all__ = ["newly_reached", "refuse_local", "refuse_options", "within"]

# What is asked over the network, without the keys of whoever runs this: those of ssh are left out.
_OUTSIDE = ("http://", "https://", "git+http://", "git+https://", "pkg:")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_LOCAL_SCHEMES = ("file:", "git+file:", "git+ssh:", "ssh:")
_HOST = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+(?::\d+)?(?:[/?#].*)?", re.IGNORECASE)


def within(reach: Reach, address: str) -> str:
    """The address that somebody means, if they may name it.

    Who may not name files gets no answer that tells whether there is one: what may be a path is not looked at, and a
    host without a scheme is one on the web.
    """
    if reach is not Reach.OUTSIDE:
        return address
    given = address.strip()
    if _HOST.fullmatch(given):
        return f"https://{given}"
    # `x:/../../etc` is a path as well, and a kind that reads files would look whether it is there.
    if not _SCHEME.match(given) or given.lower().startswith(_LOCAL_SCHEMES) or ".." in given.split("/"):
        raise _not_outside(address)
    return given


def refuse_local(reach: Reach, url: str) -> None:
    """Refuse the URL of a source, or of a page, that is not asked for over the network."""
    if reach is Reach.OUTSIDE and not url.lower().startswith(_OUTSIDE):
        raise _not_outside(url)


def refuse_options(
    reach: Reach, kind: str, options: Mapping[str, Any], *, before: Mapping[str, Any] | None = None
) -> None:
    """Refuse options that take more from this machine than those before did."""
    if reach is not Reach.ALL and (found := newly_reached(kind, options, before or {})):
        raise RefusedError(
            f"The options refer to secrets or folders of this machine, or change where a secret goes "
            f"({', '.join(found)}). Nothing was changed.",
            hint="Who runs the machine can do it: at its command line, or with a token of the scope admin.",
        )


def newly_reached(kind: str, options: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """Return what options take from this machine and did not before: secrets, where those go, folders to write to.

    An address that is left out counts as well: the secret would go to a default instead.
    """
    reached = set(_reached(kind, options)) - set(_reached(kind, before))
    if any(references(options)):
        kept = {name for name, _ in destinations(options)}
        reached |= {f"{name} = its default" for name, _ in destinations(before) if name not in kept}
    return sorted(reached)


def _reached(kind: str, options: Mapping[str, Any]) -> Iterator[str]:
    fields = registry.connector(kind).Options.model_fields
    secrets = list(references(options))
    # An address decides where a secret goes; where there is none, it is an option like others.
    named = destinations(options) if secrets else ()
    folders = ((name, value) for name, value in options.items() if name in fields and _is_path(fields[name]))
    yield from (f"{name} = {value}" for name, value in (*secrets, *named, *folders) if value is not None)


def _is_path(field: FieldInfo) -> bool:
    return Path in (field.annotation, *get_args(field.annotation))


def _not_outside(address: str) -> RefusedError:
    return RefusedError(
        f"{address} is no address on the web: it may be a folder or a file of this machine. Nothing was done.",
        hint="Who runs the machine can name it: at its command line, or with a token of the scope admin.",
    )
