"""Imports all of Rowen at once: what is imported when it is first used takes time, which some tests must not pay."""

import importlib
import pkgutil

import rowen

__all__ = ["import_everything"]


def import_everything() -> None:
    """Import every module but those that are programs."""
    for module in pkgutil.walk_packages(rowen.__path__, "rowen."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
