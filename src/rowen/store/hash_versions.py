"""By which versions of the program's functions the stored hashes of a database were computed."""

from rowen.store.database import Connection
from rowen.store.rows import scalar

__all__ = ["PASSAGES", "get", "put"]

PASSAGES = "passages"
"""The cuts and text hashes of passages: `CHUNKER_VERSION`."""


async def get(c: Connection, name: str) -> int:
    """Return the version by which all stored hashes of this name were computed, 0 if it is unknown."""
    return int(await scalar(c, "select version from hash_version where name = %s", [name]) or 0)


async def put(c: Connection, name: str, version: int) -> None:
    """Note that all stored hashes of this name were computed by this version or a later one."""
    await c.execute(
        "insert into hash_version (name, version) values (%s, %s)"
        " on conflict (name) do update set version = greatest(hash_version.version, excluded.version)",
        [name, version],
    )
