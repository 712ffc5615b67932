"""Every error that Rowen raises on purpose, in one tree.

    RowenError
    ├── UsageError             a wrong option, kind, name or address        exit 2
    │   └── ConfigurationError settings that cannot be read
    ├── NotFoundError          no such source, run or item                  exit 4
    ├── RefusedError           allowed to nobody, or not without asking     exit 5
    │   ├── BusyError          another live run has the source
    │   └── NewerDatabaseError the database was made by a later program
    ├── StoreError             the database                                 exit 1
    │   ├── StoreUnavailableError   cannot be reached or started
    │   ├── StoreUnfitError         reached, but lacks what we need
    │   └── StoreFullError          no space left
    ├── SourceError            the whole source could not be read           exit 1
    │   ├── FetchError         an HTTP exchange failed
    │   └── SourceGoneError    its root is not there
    └── ItemError              one item could not be read                   exit 3

A class knows whether trying again can help (`retryable`), whether it counts against a circuit
(`trips_circuit`), the exit code of the CLI, and, in `hint`, what to do next.
"""

from typing import ClassVar

__all__ = [
    "BusyError",
    "ConfigurationError",
    "FetchError",
    "ItemError",
    "NewerDatabaseError",
    "NotFoundError",
    "RefusedError",
    "RowenError",
    "SourceError",
    "SourceGoneError",
    "StoreError",
    "StoreFullError",
    "StoreUnavailableError",
    "StoreUnfitError",
    "UsageError",
]


class RowenError(Exception):
    """Something went wrong that Rowen can name."""

    retryable: ClassVar[bool] = False
    trips_circuit: ClassVar[bool] = False
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str = "", *, hint: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").partition("\n")[0])
        self.hint = hint


class UsageError(RowenError):
    """The call does not make sense as given."""

    exit_code = 2


class ConfigurationError(UsageError):
    """The settings cannot be read."""


class NotFoundError(RowenError):
    """There is nothing of that name."""

    exit_code = 4


class RefusedError(RowenError):
    """Rowen will not do this as asked."""

    exit_code = 5


class BusyError(RefusedError):
    """Another live run has the source."""

    retryable = True


class NewerDatabaseError(RefusedError):
    """The database was made by a later version of Rowen."""


class StoreError(RowenError):
    """The database failed."""


class StoreUnavailableError(StoreError):
    """The database cannot be reached."""

    retryable = True


class StoreUnfitError(StoreError):
    """The database lacks something that Rowen needs."""


class StoreFullError(StoreError):
    """The database has no space left."""


class SourceError(RowenError):
    """A source could not be read as a whole; what is stored of it was left untouched."""

    retryable = True


class FetchError(SourceError):
    """An HTTP exchange failed."""

    trips_circuit = True


class SourceGoneError(SourceError):
    """The root of a source is not there."""


class ItemError(RowenError):
    """One item could not be read; the others were."""

    exit_code = 3
