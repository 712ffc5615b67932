"""Which registry this machine uses: what pip and npm are set up with, asked when it is needed and never kept."""

import asyncio
import re
import subprocess

from rowen.connectors.packages.address import PackageAddress
from rowen.errors import ConfigurationError
from rowen.model.url import Address
from rowen.programs import environment, find, isolated_python, run

__all__ = ["registry_of"]

# pip and npm only print a setting; a program that takes longer hangs.
PATIENCE_S = 30.0
_LINE = re.compile(r"^(?P<key>\S*index-url)='(?P<url>[^']*)'$", re.MULTILINE)
_PIP = "from pip._internal.cli.main import main; main(['--disable-pip-version-check', 'config', 'list'])"
_PIP_DEFAULT = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
# What pip and npm are set up with; npm's programs need the rest to start.
_KEPT = ("APPDATA", "HOME", "XDG_CONFIG_DIRS", "XDG_CONFIG_HOME")
_PREFIXES = ("PIP_", "npm_config_", "NPM_CONFIG_")
# pip heeds the environment first, then what stands for one command, then what stands for all.
_PIP_KEYS = (":env:.index-url", "install.index-url", "global.index-url")


async def registry_of(address: PackageAddress) -> str:
    """The URL of the registry; it may hold a login."""
    look = _pip_index if address.ecosystem == "pypi" else _npm_registry
    url = await asyncio.to_thread(look, address.name)
    if url is not None and Address.of(url).is_web:
        return url
    program = "pip" if address.ecosystem == "pypi" else "npm"
    raise ConfigurationError(
        f"It is not known where packages such as {address.name!r} are to be asked for: {program} does not tell.",
        hint="Name the registry with --option registry=URL.",
    )


def _pip_index(name: str) -> str | None:
    told = dict(_LINE.findall(_said(*isolated_python(_PIP)) or ""))
    return next((told[key] for key in _PIP_KEYS if key in told), None) or _said(*isolated_python(_PIP_DEFAULT))


def _npm_registry(name: str) -> str | None:
    npm = find("npm")
    if npm is None:
        return None
    scope = name.partition("/")[0] if name.startswith("@") else None
    own = _said(npm, "config", "get", f"{scope}:registry") if scope else None
    return own if own and own != "undefined" else _said(npm, "config", "get", "registry")


def _said(*command: str) -> str | None:
    """What a program prints; None if it is not there, fails or takes too long.

    It runs in a neutral folder: npm reads the `.npmrc` of the folder that it stands in.
    """
    try:
        done = run(
            command,
            environment=environment(*_KEPT, prefixes=_PREFIXES),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return (done.stdout.strip() or None) if done.returncode == 0 else None
