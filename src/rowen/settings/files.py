"""Read files with settings: the user's own and the current folder's; and parse TOML in linear time."""

import os
import re
import stat
from pathlib import Path
from typing import Any

from rowen.errors import ConfigurationError

# Rowen's own keys have three parts at most. The parser's time and memory grow with the square of the parts of a key: a
# key of 40 kB took 16 s, one of 400 kB took 17 GB. At 16 parts, no text costs more than twice as much as plain keys.
_MOST_KEY_PARTS = 16
_ENDS = frozenset("\n=,[]{}")
_TOKEN = re.compile(
    r'"""(?:\\.|(?!""")[^\\])*+(?:"""|\\?\Z)'
    r"|'''(?:(?!''').)*+(?:'''|\Z)"
    r'|"(?:\\.|[^"\\\n])*+"?'
    r"|'[^'\n]*+'?"
    r"|#[^\n]*+"
    r"|[.\n=,\[\]{}]",
    re.DOTALL,
)
"""A string, a comment, a dot, or the end of a key. The parser reports strings that are never closed."""


def read_toml(text: str) -> dict[str, Any]:
    """Parse TOML; raise `ValueError` if it is invalid, nested too deeply, or has a key of too many parts."""
    dots = 0
    for token in _TOKEN.finditer(text):
        if token[0] != ".":
            dots = 0 if token[0] in _ENDS else dots
            continue
        dots += 1
        if dots >= _MOST_KEY_PARTS:
            line = text.count("\n", 0, token.start()) + 1
            raise ValueError(f"a key has more than {_MOST_KEY_PARTS} parts (at line {line})")
    if not text:
        return {}
    # Most commands read no file, and the parser takes 5 ms to import.
    import tomllib

    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


FILE = "rowen.toml"
# All settings, each with a comment, take 10 kB. A file of ten times that size is not a list of settings.
_FILE_BYTES = 100_000


def own_file(named: Any) -> Path:
    """Return the path of the user's own file; a file named by a flag or ROWEN_CONFIG must exist."""
    named = named or next((value for key, value in os.environ.items() if key.upper() == "ROWEN_CONFIG" and value), None)
    if named is None:
        import platformdirs

        return Path(platformdirs.user_config_dir("rowen", appauthor=False), FILE)
    path = Path(named).expanduser()
    if not path.exists():
        raise ConfigurationError(f"There is no file {path}, which ROWEN_CONFIG names.")
    return path


def folder_file() -> Path:
    """Return the path of the settings file in the current folder."""
    try:
        return Path(FILE).absolute()
    except FileNotFoundError:
        # The current folder was deleted.
        return Path(FILE)


def same(first: Path, second: Path) -> bool:
    """Return whether two paths lead to the same file."""
    try:
        return first.samefile(second)
    except OSError:
        return False


def read(path: Path) -> dict[str, Any]:
    """Return the content of a file, empty if it does not exist; untrusted files cannot block or exceed a size limit."""
    try:
        # A pipe would block until another process writes.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            mode = os.fstat(descriptor).st_mode
            if not (stat.S_ISREG(mode) or path == Path(os.devnull)):
                raise ConfigurationError(f"{path} cannot be read: it is not a regular file.")
            text = file.read(_FILE_BYTES + 1)
        if len(text) > _FILE_BYTES:
            raise ConfigurationError(f"{path} cannot be read: it is larger than {_FILE_BYTES:,} bytes.")
        return read_toml(text.decode("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as problem:
        raise ConfigurationError(f"{path} cannot be read: {problem}") from None
