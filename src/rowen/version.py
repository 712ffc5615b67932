"""The version of Rowen, which the build reads too, and the installation of optional packages."""

import sys
from importlib.util import find_spec
from pathlib import Path
from shlex import quote

__version__ = "0.2.0"


def how_to_install(extra: str) -> str:
    """Return the command that installs the packages of an extra; Rowen is on no package index."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        requirements = [requirement.partition(";") for requirement in requires("rowen") or []]
        # Build tools write the marker with either kind of quotes.
        names = [name.strip() for name, _, marker in requirements if f"extra == '{extra}'" in marker.replace('"', "'")]
    except PackageNotFoundError:
        names = [f"rowen[{extra}]"]
    packages = " ".join(map(quote, names))
    if (Path(sys.prefix) / "pipx_metadata.json").exists():
        return f"pipx inject rowen {packages}"
    if find_spec("pip") is None:
        return f"uv pip install --python {quote(sys.executable)} {packages}"
    return f"{quote(sys.executable)} -m pip install {packages}"
