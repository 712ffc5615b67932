"""What is installed: the version of the program, read by the build as well, and how its optional parts are added."""

__all__ = ["__version__", "how_to_install"]

__version__ = "0.2.0"


def how_to_install(extra: str) -> str:
    """The command that adds an extra to this installation, by the names of its packages: Rowen is on no index."""
    import sys
    from importlib.util import find_spec
    from pathlib import Path
    from shlex import quote

    packages = " ".join(quote(package) for package in _packages(extra))
    if (Path(sys.prefix) / "pipx_metadata.json").exists():
        return f"pipx inject rowen {packages}"
    python = quote(sys.executable)
    if find_spec("pip") is None:
        return f"uv pip install --python {python} {packages}"
    return f"{python} -m pip install {packages}"


def _packages(extra: str) -> list[str]:
    from importlib.metadata import PackageNotFoundError, requires

    try:
        declared = requires("rowen") or []
    except PackageNotFoundError:
        return [f"rowen[{extra}]"]
    marked = (one.partition(";") for one in declared)
    # Builders write the marker with either kind of quotes.
    return [name.strip() for name, _, marker in marked if f"extra == '{extra}'" in marker.replace('"', "'")]
