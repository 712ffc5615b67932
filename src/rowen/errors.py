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
    │   ├── StoreFullError          no space left
    │   └── StoreRejectedError      refused a value
    ├── SourceError            the whole source could not be read           exit 1
    │   ├── FetchError         an HTTP exchange failed
    │   │   ├── AddressRefusedError  leads to a private address             exit 5
    │   │   ├── BadAnswerError       the answer breaks the rules of HTTP
    │   │   ├── BadUrlError          nothing that HTTP can fetch
    │   │   ├── BodyTooLargeError    more bytes than allowed
    │   │   ├── CircuitOpenError     not tried: failed too often of late
    │   │   ├── ConnectError         no connection, or it broke
    │   │   ├── FetchTimeoutError    took too long
    │   │   ├── RedirectError        redirects that lead nowhere
    │   │   ├── TlsError             no trusted encryption
    │   │   └── TruncatedError       the body ended early
    │   └── SourceGoneError    its root is not there
    ├── EmbeddingError         texts could not be turned into vectors       exit 1
    │   ├── BadVectorsError         the embedder's answer is no use
    │   ├── EmbedderDownError       it cannot be reached, or asks to wait
    │   └── TextsRefusedError       it will not take these texts
    ├── ExportError            a snapshot could not be written or read      exit 1
    └── ItemError              one item could not be read                   exit 3

A class knows whether trying again can help (`retryable`), whether it counts against a circuit
(`trips_circuit`), the exit code of the CLI, and, in `hint`, what to do next.
"""

from typing import ClassVar

__all__ = [
    "AddressRefusedError",
    "BadAnswerError",
    "BadUrlError",
    "BadVectorsError",
    "BodyTooLargeError",
    "BusyError",
    "CircuitOpenError",
    "ConfigurationError",
    "ConnectError",
    "EmbedderDownError",
    "EmbeddingError",
    "ExportError",
    "FetchError",
    "FetchTimeoutError",
    "ItemError",
    "NewerDatabaseError",
    "NotFoundError",
    "RedirectError",
    "RefusedError",
    "RowenError",
    "SourceError",
    "SourceGoneError",
    "StoreError",
    "StoreFullError",
    "StoreRejectedError",
    "StoreUnavailableError",
    "StoreUnfitError",
    "TextsRefusedError",
    "TlsError",
    "TruncatedError",
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


class StoreRejectedError(StoreError):
    """The database refused a value."""


class SourceError(RowenError):
    """A source could not be read as a whole; what is stored of it was left untouched."""

    retryable = True


class FetchError(SourceError):
    """An HTTP exchange failed."""

    trips_circuit = True


class AddressRefusedError(FetchError):
    """A host leads to an address that is not public."""

    retryable = False
    trips_circuit = False
    exit_code = 5


class BadAnswerError(FetchError):
    """A server's answer breaks the rules of HTTP."""

    retryable = False
    trips_circuit = False


class BadUrlError(FetchError):
    """An address is nothing that can be fetched over HTTP."""

    retryable = False
    trips_circuit = False


class BodyTooLargeError(FetchError):
    """A body is larger than allowed."""

    retryable = False
    trips_circuit = False


class CircuitOpenError(FetchError):
    """Not tried, because it failed too often of late; `retry_in_s` says when it may be tried again."""

    retryable = False
    trips_circuit = False

    def __init__(self, message: str = "", *, retry_in_s: float = 0.0, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_in_s = retry_in_s


class ConnectError(FetchError):
    """A host could not be reached, or broke the connection."""


class FetchTimeoutError(FetchError):
    """A server took too long."""


class RedirectError(FetchError):
    """Redirects lead nowhere."""

    retryable = False
    trips_circuit = False


class TlsError(FetchError):
    """An encrypted connection could not be trusted."""

    retryable = False


class TruncatedError(FetchError):
    """A body ended before it was whole."""


class SourceGoneError(SourceError):
    """The root of a source is not there."""


class EmbeddingError(RowenError):
    """Texts could not be turned into vectors; they are stored, found by their words, and wait for their turn."""


class BadVectorsError(EmbeddingError):
    """An embedder's answer is no use; nothing of it was stored."""


class EmbedderDownError(EmbeddingError):
    """An embedder cannot be reached, or asks to wait (`busy`); `retry_in_s` says when it may be tried again."""

    retryable = True

    def __init__(
        self, message: str = "", *, retry_in_s: float = 0.0, busy: bool = False, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.retry_in_s = retry_in_s
        self.busy = busy


class TextsRefusedError(EmbeddingError):
    """An embedder will not take these texts."""


class ExportError(RowenError):
    """A snapshot could not be written, or an earlier one not be read; nothing half-written was kept."""


class ItemError(RowenError):
    """One item could not be read; the others were."""

    exit_code = 3
