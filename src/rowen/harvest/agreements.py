"""What this machine's user agreed to send where; kept on this machine, since others may write to the database.

A source refers to secrets by name (`env:TOKEN`) and says where they go, by its address and its options. Who can write
to a shared database could name any variable of every machine that syncs it. Each machine therefore remembers which
sources its own user gave their references, as hashes in a file of the data folder; any other is refused.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from rowen.connectors.registry import sendings, steering
from rowen.errors import Hint, RefusedError, action
from rowen.model.hashes import canonical_json
from rowen.model.sources import Source
from rowen.net.credentials import destinations, references
from rowen.settings import Settings

__all__ = ["agree", "agree_again", "is_agreed", "refuse_strange"]

_FILE = "agreed"


def agree(settings: Settings, kind: str, url: str, options: Mapping[str, Any]) -> None:
    """Remember that the user himself gave these options; nothing is written where they refer to no secret."""
    if any(references(options)) and not _is_known(settings.home, {mark := _mark(kind, url, options)}):
        settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(settings.home / _FILE, flags, 0o600), "a") as file:
            file.write(f"{mark}\n")


def agree_again(settings: Settings, source: Source, wanted: Mapping[str, Any], *, given: Collection[str]) -> None:
    """The same after an edit: only if the user gave all that matters, or agreed to what was there and gave the rest."""
    known = set(_reach(source.kind, source.options)) if is_agreed(settings, source) else set()
    said = {name: wanted[name] for name in given if name in wanted}
    if set(_reach(source.kind, wanted)) <= known | set(_reach(source.kind, said)):
        agree(settings, source.kind, source.url, wanted)


def is_agreed(settings: Settings, source: Source) -> bool:
    """Whether a source may have the secrets that it refers to."""
    if settings.database_url is None or settings.trust_database or not any(references(source.options)):
        return True
    marks = {_mark(source.kind, source.url, source.options)}
    # What was agreed to before marks counted more than addresses still holds where there is nothing more.
    if set(steering(source.kind, source.options)) <= set(destinations(source.options)):
        marks.add(_mark_of_addresses(source.kind, source.url, source.options))
    return _is_known(settings.home, marks)


def refuse_strange(settings: Settings, source: Source) -> None:
    """Refuse a source that refers to secrets which nobody on this machine gave it."""
    if is_agreed(settings, source):
        return
    wanted = ", ".join(dict.fromkeys(reference for _, reference in references(source.options)))
    raise RefusedError(
        f"Source {source.name!r} refers to {wanted}, for {source.url}. That was not agreed to on this machine, and "
        "others may write to the database. Nothing was sent.",
        hint=Hint(
            action("edit", source.name, option="KEY=VALUE"),
            " with the same values agrees to them; ROWEN_TRUST_DATABASE=true agrees to whatever the database says.",
        ),
    )


def _reach(kind: str, options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what decides which secret goes where, and in which way."""
    yield from references(options)
    yield from steering(kind, options)


def _mark(kind: str, url: str, options: Mapping[str, Any]) -> str:
    """Return the second version of the mark: all that `sendings` compares."""
    sent = sorted([one.secret, one.option, one.value, sorted(map(list, one.route))] for one in sendings(kind, options))
    return sha256(canonical_json([2, kind, url, sent])).hexdigest()


def _mark_of_addresses(kind: str, url: str, options: Mapping[str, Any]) -> str:
    """Return the first version of the mark, which counts references and addresses only."""
    reached = sorted(map(list, [*references(options), *destinations(options)]))
    return sha256(canonical_json([kind, url, reached])).hexdigest()


def _is_known(home: Path, marks: Collection[str]) -> bool:
    with suppress(FileNotFoundError, NotADirectoryError):
        return not set((home / _FILE).read_text().split()).isdisjoint(marks)
    return False
