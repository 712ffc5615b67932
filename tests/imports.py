"""Imports all of Rowen at once, for tests that must not pay for what is imported when it is first used."""

import importlib
import pkgutil

import rowen

__all__ = ["import_everything"]


def import_everything() -> None:
    """Import every module but those that are programs."""
    for module in pkgutil.walk_packages(rowen.__path__, "rowen."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
