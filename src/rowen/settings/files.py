"""The files that settings stand in: the user's own, and that of the current folder."""

import os
import stat
from pathlib import Path
from typing import Any

from rowen.errors import ConfigurationError
from rowen.settings.toml import read_toml

__all__ = ["FILE", "folder_file", "own_file", "read", "same"]

FILE = "rowen.toml"
# All settings with a comment each fill 10 kB. Ten times that is no list of settings.
_FILE_BYTES = 100_000


def own_file(named: Any) -> Path:
    """The user's own file. One that is named, by flag or by ROWEN_CONFIG, must be there."""
    named = named or next((value for key, value in os.environ.items() if key.upper() == "ROWEN_CONFIG" and value), None)
    if named is None:
        import platformdirs

        return Path(platformdirs.user_config_dir("rowen", appauthor=False), FILE)
    path = Path(named).expanduser()
    if not path.exists():
        raise ConfigurationError(f"There is no file {path}, which ROWEN_CONFIG names.")
    return path


def folder_file() -> Path:
    """The file of the folder in which a command happens to run."""
    try:
        return Path(FILE).absolute()
    except FileNotFoundError:
        # The folder in which we stand was deleted.
        return Path(FILE)


def same(one: Path, other: Path) -> bool:
    """Whether two names are of one file."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def read(path: Path) -> dict[str, Any]:
    """What stands in a file, if there is one. It may be anybody's: it is neither waited for nor read for ever."""
    try:
        # A pipe would keep a reader waiting until somebody writes.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            mode = os.fstat(descriptor).st_mode
            if not (stat.S_ISREG(mode) or path == Path(os.devnull)):
                raise ConfigurationError(f"{path} cannot be read: it is no ordinary file.")
            text = file.read(_FILE_BYTES + 1)
        if len(text) > _FILE_BYTES:
            raise ConfigurationError(f"{path} cannot be read: it is larger than {_FILE_BYTES:,} bytes.")
        return read_toml(text.decode("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as problem:
        raise ConfigurationError(f"{path} cannot be read: {problem}") from None
