"""Store agreements: the secrets that the user of this machine allows to be sent, and where.

A source refers to secrets by name (`env:TOKEN`); its address and options decide where they are sent. Anyone who can
write to a shared database could name any variable of every machine that syncs it. Each machine therefore stores the
references that its own user entered, as hashes in a file of the data folder, and refuses all others.
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

_FILE = "agreed"


def agree(settings: Settings, kind: str, url: str, options: Mapping[str, Any]) -> None:
    """Store that the user entered these options; write nothing if they refer to no secret."""
    if any(references(options)) and not _is_known(settings.home, {mark := _mark(kind, url, options)}):
        settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(settings.home / _FILE, flags, 0o600), "a") as file:
            file.write(f"{mark}\n")


def agree_again(settings: Settings, source: Source, options: Mapping[str, Any], *, entered: Collection[str]) -> None:
    """Renew the agreement to a source after an edit, if the user entered or agreed to each option that affects it."""
    agreed = set(_reach(source.kind, source.options)) if is_agreed(settings, source) else set()
    by_user = {name: options[name] for name in entered if name in options}
    if set(_reach(source.kind, options)) <= agreed | set(_reach(source.kind, by_user)):
        agree(settings, source.kind, source.url, options)


def is_agreed(settings: Settings, source: Source) -> bool:
    """Return whether a source may use the secrets that it refers to."""
    if settings.database_url is None or settings.trust_database or not any(references(source.options)):
        return True
    marks = {_mark(source.kind, source.url, source.options)}
    # Agreements of the first version, which cover addresses only, are valid for sources without other relevant options.
    if set(steering(source.kind, source.options)) <= set(destinations(source.options)):
        marks.add(_mark_of_addresses(source.kind, source.url, source.options))
    return _is_known(settings.home, marks)


def refuse_strange(settings: Settings, source: Source) -> None:
    """Raise `RefusedError` if a source refers to secrets that the user of this machine has not agreed to."""
    if is_agreed(settings, source):
        return
    secrets = ", ".join(dict.fromkeys(reference for _, reference in references(source.options)))
    raise RefusedError(
        f"Source {source.name!r} refers to {secrets}, for {source.url}. That was not agreed to on this machine, and "
        "others may write to the database. Nothing was sent.",
        hint=Hint(
            action("edit", source.name, option="KEY=VALUE"),
            " with the same values agrees to them; ROWEN_TRUST_DATABASE=true agrees to whatever the database says.",
        ),
    )


def _reach(kind: str, options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the options that decide which secret is sent where, and how."""
    yield from references(options)
    yield from steering(kind, options)


def _mark(kind: str, url: str, options: Mapping[str, Any]) -> str:
    """Return the hash of an agreement, in its second version, over everything that `sendings` compares."""
    sent = sorted(
        [sending.secret, sending.option, sending.value, sorted(map(list, sending.route))]
        for sending in sendings(kind, options)
    )
    return sha256(canonical_json([2, kind, url, sent])).hexdigest()


def _mark_of_addresses(kind: str, url: str, options: Mapping[str, Any]) -> str:
    """Return the hash of an agreement, in its first version, over references and addresses only."""
    reached = sorted(map(list, [*references(options), *destinations(options)]))
    return sha256(canonical_json([kind, url, reached])).hexdigest()


def _is_known(home: Path, marks: Collection[str]) -> bool:
    with suppress(FileNotFoundError, NotADirectoryError):
        return not set((home / _FILE).read_text().split()).isdisjoint(marks)
    return False
