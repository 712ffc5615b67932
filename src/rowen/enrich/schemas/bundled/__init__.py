"""Schemas that come with the program, as files: `<name>/<version>.json`."""

import json
from functools import cache
from importlib.resources import files

from rowen.model.schemas import Schema

__all__ = ["bundled_schemas"]


@cache
def bundled_schemas() -> tuple[Schema, ...]:
    """All of them, by name and version."""
    folders = sorted((one for one in files(__name__).iterdir() if one.is_dir()), key=lambda one: one.name)
    return tuple(
        Schema(folder.name, file.name.removesuffix(".json"), json.loads(file.read_text("utf-8")), bundled=True)
        for folder in folders
        for file in sorted(folder.iterdir(), key=lambda one: one.name)
        if file.name.endswith(".json")
    )
