"""Declare settings, and parse their values.

This is written by hand, since every command starts here: importing a validation library takes longer than the command.
"""

import math
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar, Union, get_args, get_origin

T = TypeVar("T")
_HARMLESS = "may stand in the file of the current folder"
Harmless = Annotated[T, _HARMLESS]

Network: TypeAlias = IPv4Network | IPv6Network
Networks: TypeAlias = tuple[Network, ...]

_LOOPBACK: Networks = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))
_MAY = ("read", "write", "admin")
_TRUE = {"1", "true", "t", "yes", "y", "on"}
_FALSE = {"0", "false", "f", "no", "n", "off"}


class SecretStr:
    """A text that is hidden when printed."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def get_secret_value(self) -> str:
        """Return the text itself."""
        return self._value

    def __repr__(self) -> str:
        return "SecretStr('**********')" if self._value else "SecretStr('')"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretStr) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingField:
    """One setting: its default, its limits, and the environment variables that set it, unless named after it."""

    description: str
    default: Any = None
    default_factory: Callable[[], Any] | None = None
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    pattern: "re.Pattern[str] | None" = None
    names: tuple[str, ...] = ()
    type: Any = None
    optional: bool = False
    harmless: bool = False

    def usual(self) -> Any:
        """Return the default value."""
        return self.default_factory() if self.default_factory else self.default


def Field(description: str, **how: Any) -> Any:  # noqa: N802 (it declares, as it does in the options of kinds)
    """Declare a setting."""
    return SettingField(description=description, **how)


def declared(field: SettingField, annotation: Any) -> SettingField:
    """Return a field with its type, and whether it is harmless, from its annotation."""
    how = {name: getattr(field, name) for name in SettingField.__dataclass_fields__}
    if get_origin(annotation) is Annotated:
        annotation, *marks = get_args(annotation)
        how["harmless"] = _HARMLESS in marks
    if get_origin(annotation) in (Union, types.UnionType):
        kinds = [kind for kind in get_args(annotation) if kind is not types.NoneType]
        how["optional"], annotation = len(kinds) < len(get_args(annotation)), kinds[0]
    how["type"] = annotation
    return SettingField(**how)


def parse(field: SettingField, value: Any) -> Any:
    """Parse the value of a setting; raise `ValueError` with a description of the error."""
    if value is None and field.optional:
        return None
    value = _PARSERS[field.type](value)
    if field.ge is not None and value < field.ge:
        raise ValueError(f"{value} is too small; it must be {field.ge} or more")
    if field.gt is not None and value <= field.gt:
        raise ValueError(f"{value} is too small; it must be more than {field.gt}")
    if field.le is not None and value > field.le:
        raise ValueError(f"{value} is too large; it must be {field.le} or less")
    if field.pattern is not None and not field.pattern.search(value):
        raise ValueError(f"{value!r} does not have the form {field.pattern.pattern}")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, bool):
        try:
            if int(value) == float(value):
                return int(value)
        except (TypeError, ValueError, OverflowError):
            pass
    raise ValueError(f"{value!r} is not a whole number")


def _number(value: Any) -> float:
    if not isinstance(value, bool):
        try:
            if not math.isnan(number := float(value)):
                return number
        except (TypeError, ValueError, OverflowError):
            pass
    raise ValueError(f"{value!r} is not a number")


def _flag(value: Any) -> bool:
    word = str(value).strip().lower()
    if word in _TRUE | _FALSE:
        return word in _TRUE
    raise ValueError(f"{value!r} is neither true nor false")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    return value


def _path(value: Any) -> Path:
    return value if isinstance(value, Path) else Path(_text(value))


def _secret(value: Any) -> SecretStr:
    if isinstance(value, SecretStr):
        return value
    if not isinstance(value, str):
        raise ValueError("it is not text")
    return SecretStr(value)


def _list(value: Any) -> list[Any]:
    """Parse several values, given as a list or separated by commas."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, list | tuple):
        return list(value)
    raise ValueError(f"{value!r} is not a list")


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(_text, _list(value)))


def _networks(value: Any) -> Networks:
    """Parse networks; `localhost` stands for the loopback networks, other names are not resolved."""
    networks: list[Network] = []
    for item in _list(value):
        if isinstance(item, IPv4Network | IPv6Network):
            networks.append(item)
        elif _text(item).casefold().rstrip(".") == "localhost":
            networks.extend(_LOOPBACK)
        else:
            try:
                networks.append(ip_network(item))
            except ValueError:
                raise ValueError(f"{item!r} is not a network, such as 127.0.0.0/8, 192.168.1.20 or localhost") from None
    return tuple(networks)


def _networks_of_hosts(value: Any) -> dict[str, Networks]:
    if isinstance(value, str):
        by_host: dict[str, list[str]] = {}
        host = ""
        for part in _list(value):
            name, equals, network = part.rpartition("=")
            # A further network of the same host needs no name again.
            host = name.strip().lower().rstrip(".") if equals else host
            if not host or not network:
                raise ValueError(f"{part!r} is not of the form host=network")
            by_host.setdefault(host, []).append(network.strip())
        value = by_host
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r} is not of the form host=network")
    return {_text(host): _networks(networks) for host, networks in value.items()}


def _roles(value: Any) -> dict[str, str]:
    """Parse a mapping of roles to scopes."""
    if isinstance(value, Mapping):
        pairs = [(_text(role), _text(may)) for role, may in value.items()]
    else:
        pairs = [(role.strip(), may.strip()) for role, _, may in (_text(part).rpartition("=") for part in _list(value))]
    for role, may in pairs:
        if not role or may not in _MAY:
            raise ValueError(f"{may!r} is not a scope: {', '.join(_MAY)}")
    return dict(pairs)


_PARSERS: dict[Any, Callable[[Any], Any]] = {
    int: _whole,
    float: _number,
    bool: _flag,
    str: _text,
    Path: _path,
    SecretStr: _secret,
    tuple[str, ...]: _texts,
    Networks: _networks,
    dict[str, Networks]: _networks_of_hosts,
    dict[str, str]: _roles,
}
