"""Validation before anything is opened, created or requested, and the parts of this machine that a caller may name.

Every interface passes the reach of its caller, and everything outside this reach is rejected here. Values are checked
as they were sent: nothing is opened, looked up or resolved, and no other validator has processed them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from rowen.connectors import registry
from rowen.connectors.opening import read_regular
from rowen.connectors.registry import sendings
from rowen.errors import Hint, NotFoundError, RefusedError, UsageError, action
from rowen.model.access import Reach
from rowen.model.url import Address
from rowen.net.credentials import leaves, references
from rowen.settings import Settings
from rowen.store.server.site import site_folder

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_HOST = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::[0-9]+)?(?:[/?#].*)?")
# A text that a validator checks further has at most this number of characters, each at most four bytes in UTF-8.
_MOST_TEXT_BYTES = 4 << 20
_WHO = "Who runs the machine can do it: at its command line, or with a token of the scope admin."


def within(reach: Reach, address: str) -> str:
    """Return the address if the caller may name it; raise `RefusedError` otherwise.

    A caller who may not name files does not learn whether a file exists: a path is rejected without a check, and a
    host without a scheme is treated as a web address. An unknown scheme is rejected.
    """
    if reach is not Reach.OUTSIDE:
        return address
    place = Address.of(address.strip())
    if not place.scheme and _HOST.fullmatch(place.text):
        return f"https://{place.text}"
    is_known = place.is_network or place.scheme in registry.kinds()
    if not is_known or ".." in place.text.split("/"):
        raise _not_outside(address)
    return place.text


def refuse_local(reach: Reach, url: str) -> Address:
    """Return the parsed URL of a source or page; raise an error if the caller may name network addresses only."""
    place = Address.of(url)
    if reach is Reach.OUTSIDE and not place.is_network:
        raise _not_outside(url)
    return place


def refuse_named(
    reach: Reach, kind: str, options: Mapping[str, Any], *, before: Mapping[str, Any] | None = None
) -> None:
    """Raise an error if options name secrets, files or folders that `before` did not; options are not validated yet."""
    if reach is not Reach.ALL and (named := newly_named(kind, options, before or {})):
        raise _beyond(named)


def refuse_options(
    reach: Reach, kind: str, url: str, options: Mapping[str, Any], *, before: Mapping[str, Any] | None = None
) -> None:
    """Raise an error if the options of a source reach more of this machine than the options `before`."""
    if reach is not Reach.ALL and (reached := newly_reached(kind, options, before or {})):
        raise _beyond(reached)
    if reach is Reach.OUTSIDE and before is not None and not Address.of(url).is_network and options != before:
        raise RefusedError(
            "The options of this source decide which files of this machine are read. Nothing was changed.", hint=_WHO
        )


def newly_reached(kind: str, options: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """Return the parts of this machine that the options reach and the options `before` did not.

    These are named secrets, files and folders, and each option that changes where or how a secret is sent: an address,
    a header, or the default of either.
    """
    reached = set(newly_named(kind, options, before))
    now, then = sendings(kind, options), sendings(kind, before)
    if now - then:
        route, old_route = ({part for sending in sent for part in sending.route} for sent in (now, then))
        names, known = {name for name, _ in route}, {sending[:3] for sending in then}
        reached |= {f"{sending.option} = {sending.secret}" for sending in now if sending[:3] not in known}
        reached |= {f"{name} = {value}" for name, value in route - old_route}
        reached |= {f"{name} = its default" for name, _ in old_route - route if name not in names}
    return sorted(reached)


def newly_named(kind: str, options: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """Return the secrets, files and folders that the options name and the options `before` did not."""

    def named(options: Mapping[str, Any]) -> set[str]:
        fields = registry.connector(kind).Options.model_fields
        folders = [(name, value) for name, value in options.items() if name in fields and _is_path(fields[name])]
        # A `file:` URL in any notation; another value is a path only if the option is declared as a path.
        files = [
            (name, value)
            for name, value in leaves(options)
            if isinstance(value, str) and Address.of(value).scheme in ("file", "git+file")
            if not any(references({"": value}))
        ]
        return {f"{name} = {value}" for name, value in (*references(options), *folders, *files) if value is not None}

    return sorted(named(options) - named(before))


def named_texts(kind: str, options: Mapping[str, Any]) -> dict[str, Address]:
    """Return the options whose text is read from a file, with the address of that file."""
    declared = registry.connector(kind).Options.text_or_file
    places = {name: Address.of(value) for name, value in options.items() if name in declared and isinstance(value, str)}
    return {name: place for name, place in places.items() if place.scheme == "file"}


def with_texts(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with the contents of files in place of `file:PATH`.

    This reads files, so the options must have been checked. The text is stored instead of the file name: other
    machines have no such file, and a later change of the file would change the option unnoticed. No error quotes the
    file.
    """
    places = named_texts(kind, options)
    for name in registry.connector(kind).Options.text_or_file & options.keys() - places.keys():
        # Checking a text may take long, so a thread does it here; the result is cached.
        registry.check_options(kind, {name: options[name]})
    read = {name: _text(kind, name, place) for name, place in places.items()}
    for name, text in read.items():
        try:
            registry.check_options(kind, {name: text})
        except UsageError:
            raise UsageError(
                f"Option {name!r} of kind {kind!r}: the file {options[name]} holds nothing that this option can be. "
                "Nothing was changed.",
                hint=f'No error quotes a file. To see what is wrong, give its text: --option {name}="$(cat FILE)"',
            ) from None
    return {**options, **read}


def _text(kind: str, name: str, place: Address) -> str:
    try:
        body = read_regular(Path(place.path), limit_bytes=_MOST_TEXT_BYTES + 1)
        if len(body) > _MOST_TEXT_BYTES:
            raise ValueError(f"it has more than {_MOST_TEXT_BYTES:,} bytes")
        return body.decode("utf-8")
    except UnicodeDecodeError:
        why = "it is not UTF-8"
    except OSError as problem:
        why = problem.strerror or "it cannot be opened"
    except ValueError as problem:
        why = str(problem)
    raise UsageError(
        f"Option {name!r} of kind {kind!r}: the file {place.text} cannot be read: {why}. Nothing was changed.",
        hint="Give the path of a text file as file:PATH.",
    )


def _is_path(field: FieldInfo) -> bool:
    return Path in (field.annotation, *get_args(field.annotation))


def _beyond(reached: list[str]) -> RefusedError:
    return RefusedError(
        f"The options refer to secrets, files or folders of this machine, or change where a secret goes "
        f"({', '.join(reached)}). Nothing was changed.",
        hint=_WHO,
    )


def _not_outside(address: str) -> RefusedError:
    return RefusedError(
        f"{address} is no address on the web: it may be a folder or a file of this machine. Nothing was done.",
        hint=_WHO,
    )


kinds = registry.kinds
"""The kinds of sources that there are."""


def options_of(kind: str | None) -> list[str]:
    """Return the names of the options of a kind, or of all kinds."""
    chosen = [kind] if kind in kinds() else kinds()
    return sorted({option for name in chosen for option in registry.connector(name).Options.model_fields})


def has_database(settings: Settings) -> bool:
    """Return whether a database exists, as far as is known without opening one."""
    return settings.database_url is not None or site_folder(settings.home).exists()


def looks_like_an_address(target: str) -> bool:
    """Return whether a word may be an address; any other word is the name of a source."""
    return any(mark in target for mark in "/\\:~.")


def check_new_targets(settings: Settings, targets: Sequence[str]) -> None:
    """Raise an error for unreadable targets if there is no database yet: a misspelt path must not create one."""
    if has_database(settings):
        return
    for target in targets:
        if not looks_like_an_address(target):
            here = Hint(action("sync", f"./{target}"), " reads the folder or file of that name.")
            hint = here if Path(target).exists() else "There are no sources yet."
            raise NotFoundError(f"There is no source named {target!r}.", hint=hint)
        registry.recognise(target)


def check_options(address: str, kind: str | None, options: Mapping[str, Any], *, probes: bool) -> None:
    """Raise an error if an address cannot be read, or its kind does not have one of the options.

    Files that options name are read, so the caller must be allowed to name them. If only a probe can detect the kind,
    each option must exist in some kind.
    """
    formal = registry.recognise(address, kind)[0]
    if kind is None and formal == "web" and probes:
        registry.refuse_unknown_options(options)
    else:
        registry.check_options(formal, with_texts(formal, options))
