"""The database, as interfaces show it."""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["DatabaseStatus", "ServerStatus", "Tidied"]


@dataclass(frozen=True, slots=True)
class DatabaseStatus:
    """The open database.

    Of the connections that the server allows, `connections_in_use` were others' when it was opened, and
    `connections_taken` is the most that this process opens: enough for `runs_at_once`.
    """

    place: str
    embedded: bool
    server_version: str
    schema: int
    last_change: int
    connections_allowed: int
    connections_in_use: int
    connections_taken: int
    runs_at_once: int


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """What can be told of the embedded server without starting it; `version` is the major one that made the cluster."""

    running: bool
    data_folder: Path
    pid: int | None = None
    socket_folder: Path | None = None
    port: int | None = None
    address: str | None = None
    version: str | None = None
    log_path: Path | None = None


@dataclass(frozen=True, slots=True)
class Tidied:
    """Vectors that no passage needs: how many were dropped, and how many are kept for a while.

    Beside them, how many runs, answers of models and news of saved searches were forgotten since they were too old.
    """

    dropped: int
    kept: int
    runs: int = 0
    answers: int = 0
    news: int = 0
