"""All errors that Rowen raises deliberately, in one tree.

    RowenError
    ├── UsageError             a wrong option, kind, name or address        exit 2
    │   └── ConfigurationError settings that cannot be read
    ├── NotFoundError          no such source, run or item                  exit 4
    ├── RefusedError           forbidden, or it needs a confirmation        exit 5
    │   ├── BusyError          another live run has the source
    │   ├── NewerDatabaseError the database was made by a later version
    │   ├── RequestTooLargeError    more bytes than an interface accepts
    │   ├── TooManyRequestsError    one client exceeds its rate limit
    │   │   └── OverloadedError     all clients exceed the limit
    │   └── UnauthenticatedError    an interface does not know the caller
    ├── StoreError             the database                                 exit 1
    │   ├── StoreUnavailableError   cannot be reached or started
    │   ├── StoreUnfitError         it lacks a required feature
    │   ├── StoreFullError          no space left
    │   └── StoreRejectedError      refused a value
    ├── SourceError            the whole source could not be read           exit 1
    │   ├── FetchError         an HTTP exchange failed
    │   │   ├── AddressRefusedError  leads to a private address             exit 5
    │   │   ├── BadAnswerError       the answer breaks the rules of HTTP
    │   │   ├── BadUrlError          nothing that HTTP can fetch
    │   │   ├── BodyTooLargeError    more bytes than allowed
    │   │   ├── CircuitOpenError     not tried: it failed too often recently
    │   │   ├── ConnectError         no connection, or it broke
    │   │   ├── FetchTimeoutError    took too long
    │   │   ├── RedirectError        redirects that lead nowhere
    │   │   ├── TlsError             the connection is not trusted
    │   │   └── TruncatedError       the body ended early
    │   └── SourceGoneError    its root does not exist
    ├── ProviderError          a paid service could not be called           exit 1
    │   ├── BudgetExceededError     the call would exceed a budget          exit 5
    │   ├── ProviderAnswerError     its answer cannot be read
    │   ├── ProviderDownError       it cannot be reached, or asks to wait
    │   ├── ProviderKeyError        it does not accept the key
    │   └── ProviderRefusedError    it refuses this input
    ├── EmbeddingError         texts could not be turned into vectors       exit 1
    │   ├── BadVectorsError         the embedder's answer is unusable
    │   ├── EmbedderDownError       it cannot be reached, or asks to wait
    │   └── TextsRefusedError       it refuses these texts
    ├── ExtractionError        facts could not be extracted from an item    exit 1
    │   ├── AnswerInvalidError      the model's answer is no JSON
    │   ├── AnswerMismatchError     it breaks the schema
    │   ├── AnswerRefusedError      the model refuses to answer
    │   ├── AnswerTruncatedError    the answer was cut off
    │   ├── ContextOverflowError    the text is longer than the model reads
    │   └── UngroundedError         it has values that are not in the text
    ├── ExportError            a snapshot could not be written or read      exit 1
    ├── JobError               a job could not be done                      exit 1
    │   ├── JobLimitError           it took too much memory
    │   ├── JobSilentError          it showed no progress for too long
    │   └── PortionReadError        it read its part; the next one continues
    └── ItemError              one item could not be read                   exit 3

A class defines its stable name (`code`), whether a retry can help (`retryable`), whether the error counts for a circuit
(`trips_circuit`), the exit code of the CLI and the HTTP status. The `hint` of an error names the next step; the actions
in it are values, so that each interface can present them in its own way.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

__all__ = [
    "Action",
    "AddressRefusedError",
    "AnswerInvalidError",
    "AnswerMismatchError",
    "AnswerRefusedError",
    "AnswerTruncatedError",
    "BadAnswerError",
    "BadUrlError",
    "BadVectorsError",
    "BodyTooLargeError",
    "BudgetExceededError",
    "BusyError",
    "CircuitOpenError",
    "ConfigurationError",
    "ConnectError",
    "ContextOverflowError",
    "EmbedderDownError",
    "EmbeddingError",
    "ExportError",
    "ExtractionError",
    "FetchError",
    "FetchTimeoutError",
    "Hint",
    "ItemError",
    "JobError",
    "JobLimitError",
    "JobSilentError",
    "NewerDatabaseError",
    "NotFoundError",
    "OverloadedError",
    "PortionReadError",
    "ProviderAnswerError",
    "ProviderDownError",
    "ProviderError",
    "ProviderKeyError",
    "ProviderRefusedError",
    "RedirectError",
    "RefusedError",
    "RequestTooLargeError",
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
    "TooManyRequestsError",
    "TruncatedError",
    "UnauthenticatedError",
    "UngroundedError",
    "UsageError",
    "action",
    "class_of",
]


@dataclass(frozen=True, slots=True)
class Action:
    """A suggested next step: the name of the operation, its target, and its options."""

    name: str
    target: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """The action as a command line."""
        options = (
            f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}")
            for name, value in self.options.items()
        )
        return " ".join(["rowen", self.name, *([self.target] if self.target else []), *options])

    def to_json(self) -> dict[str, Any]:
        """Return the action as plain values."""
        return {"action": self.name, "target": self.target, "options": dict(self.options)}


def action(name: str, target: str | None = None, **options: Any) -> Action:
    """Return an action: `action("sync", "docs", accept_deletions=True)`."""
    return Action(name, target, options)


class Hint(str):
    """A hint at the next step: text and actions, as in `Hint("Down; ", action("sync", "docs"), " tries again.")`.

    As plain text, the hint shows each action as a command. Other interfaces format the actions with `worded`.
    """

    parts: tuple[str | Action, ...]

    def __new__(cls, *parts: str | Action) -> Self:
        """Create the hint; its text shows each action as a command."""
        hint = super().__new__(cls, _worded(parts, lambda part: f"`{part.command}`"))
        hint.parts = parts
        return hint

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.parts

    @property
    def actions(self) -> tuple[Action, ...]:
        """The actions that the hint names, in order."""
        return tuple(part for part in self.parts if isinstance(part, Action))

    def worded(self, word: Callable[[Action], str]) -> str:
        """Return the text with each action as formatted by `word`."""
        return _worded(self.parts, word)


def _worded(parts: Iterable[str | Action], word: Callable[[Action], str]) -> str:
    return "".join(word(part) if isinstance(part, Action) else part for part in parts)


class RowenError(Exception):
    """An error with a known cause."""

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False
    trips_circuit: ClassVar[bool] = False
    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500

    def __init_subclass__(cls) -> None:
        """Derive the error code from the class name: `NotFoundError` has `not_found`. A test pins all codes."""
        super().__init_subclass__()
        cls.code = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__.removesuffix("Error")).lower()

    def __init__(self, message: str = "", *, hint: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").partition("\n")[0])
        self.hint = hint

    def to_json(self) -> dict[str, Any]:
        """Return the error as plain values; all interfaces use the same form."""
        actions = self.hint.actions if isinstance(self.hint, Hint) else ()
        return {
            "error": str(self),
            "code": self.code,
            "hint": self.hint,
            "actions": [action.to_json() for action in actions],
            "retryable": self.retryable,
            "exit_code": self.exit_code,
        }


class UsageError(RowenError):
    """The call is not valid."""

    exit_code = 2
    http_status = 400


class ConfigurationError(UsageError):
    """The settings cannot be read."""

    http_status = 500


class NotFoundError(RowenError):
    """There is nothing of that name."""

    exit_code = 4
    http_status = 404


class RefusedError(RowenError):
    """Rowen refuses the request."""

    exit_code = 5
    http_status = 403


class BusyError(RefusedError):
    """Another live run has the source."""

    retryable = True
    http_status = 409


class NewerDatabaseError(RefusedError):
    """The database was made by a later version of Rowen."""

    http_status = 503


class RequestTooLargeError(RefusedError):
    """A request is larger than a server takes."""

    http_status = 413


class TooManyRequestsError(RefusedError):
    """One client sent too many requests; `retry_in_s` is when it may send the next one."""

    retryable = True
    http_status = 429

    def __init__(self, message: str = "", *, retry_in_s: float = 0.0, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_in_s = retry_in_s


class OverloadedError(TooManyRequestsError):
    """All clients together sent too many requests; `retry_in_s` is when one may send the next."""

    http_status = 503


class UnauthenticatedError(RefusedError):
    """A server does not know the caller."""

    http_status = 401


class StoreError(RowenError):
    """The database failed."""


class StoreUnavailableError(StoreError):
    """The database cannot be reached."""

    retryable = True
    http_status = 503


class StoreUnfitError(StoreError):
    """The database lacks something that Rowen needs."""


class StoreFullError(StoreError):
    """The database has no space left."""

    http_status = 507


class StoreRejectedError(StoreError):
    """The database refused a value."""

    http_status = 422


class SourceError(RowenError):
    """A source could not be read as a whole; its stored items were not changed."""

    retryable = True
    http_status = 502


class FetchError(SourceError):
    """An HTTP exchange failed."""

    trips_circuit = True


class AddressRefusedError(FetchError):
    """A host leads to an address that is not public."""

    retryable = False
    trips_circuit = False
    exit_code = 5
    http_status = 403


class BadAnswerError(FetchError):
    """A server's answer breaks the rules of HTTP."""

    retryable = False
    trips_circuit = False


class BadUrlError(FetchError):
    """An address is nothing that can be fetched over HTTP."""

    retryable = False
    trips_circuit = False
    http_status = 400


class BodyTooLargeError(FetchError):
    """A body is larger than allowed."""

    retryable = False
    trips_circuit = False


class CircuitOpenError(FetchError):
    """Not tried, because it failed too often recently; `retry_in_s` is when it may be tried again."""

    retryable = False
    trips_circuit = False
    http_status = 503

    def __init__(self, message: str = "", *, retry_in_s: float = 0.0, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_in_s = retry_in_s


class ConnectError(FetchError):
    """A host could not be reached, or broke the connection."""


class FetchTimeoutError(FetchError):
    """A server took too long."""

    http_status = 504


class RedirectError(FetchError):
    """Redirects lead nowhere."""

    retryable = False
    trips_circuit = False


class TlsError(FetchError):
    """An encrypted connection could not be trusted."""

    retryable = False


class TruncatedError(FetchError):
    """A body ended early."""


class SourceGoneError(SourceError):
    """The root of a source is gone (404 or 410). A second try within the hour would not help."""

    retryable = False


class _DownError(RowenError):
    """A service cannot be reached, or asks to wait (`busy`); `retry_in_s` is when it may be tried again."""

    http_status = 503
    retryable = True

    def __init__(
        self, message: str = "", *, retry_in_s: float = 0.0, busy: bool = False, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.retry_in_s, self.busy = retry_in_s, busy


class ProviderError(RowenError):
    """A paid service could not be called."""

    http_status = 502


class BudgetExceededError(ProviderError):
    """A call would cost more than a budget allows; `scope` is whose: `run`, `source`, `day`, or `price` if unknown."""

    http_status = 402
    exit_code = 5

    def __init__(self, message: str = "", *, scope: str = "day", hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.scope = scope


class ProviderAnswerError(ProviderError):
    """A provider's answer cannot be read."""


class ProviderDownError(_DownError, ProviderError):
    """A provider cannot be reached, or asks to wait (`busy`); `retry_in_s` is when it may be called again."""


class ProviderKeyError(ProviderError):
    """A provider does not accept the key."""


class ProviderRefusedError(ProviderError):
    """A provider does not accept this input; `reason` is its own code, `about` the parameter, if known."""

    http_status = 422

    def __init__(
        self, message: str = "", *, reason: str | None = None, about: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.reason, self.about = reason, about


class EmbeddingError(RowenError):
    """Texts could not be turned into vectors; they are stored, found by their words, and wait for their turn."""

    http_status = 502


class BadVectorsError(EmbeddingError):
    """An embedder's answer is no use; nothing of it was stored."""


class EmbedderDownError(_DownError, EmbeddingError):
    """An embedder cannot be reached, or asks to wait (`busy`); `retry_in_s` is when it may be tried again."""


class TextsRefusedError(EmbeddingError):
    """An embedder will not take these texts."""


class ExtractionError(RowenError):
    """Facts could not be extracted; earlier ones are kept."""

    http_status = 422


class AnswerInvalidError(ExtractionError):
    """A model's answer is no JSON."""


class AnswerMismatchError(ExtractionError):
    """A model's answer breaks the schema, even after a correction."""


class AnswerRefusedError(ExtractionError):
    """A model will not answer."""


class AnswerTruncatedError(ExtractionError):
    """A model's answer was cut off before it was whole."""


class ContextOverflowError(ExtractionError):
    """A text is longer than a model reads."""


class UngroundedError(ExtractionError):
    """A model's answer contains values that do not occur in the text."""

    answer_key: bytes | None = None
    """The key of the refused answer, which was paid for and is cached."""


class ExportError(RowenError):
    """A snapshot could not be written, or an earlier one not be read; nothing half-written was kept."""


class JobError(RowenError):
    """A job could not be done."""


class JobLimitError(JobError):
    """A job took more memory than a worker may have."""


class JobSilentError(JobError):
    """A job showed no progress for too long."""

    retryable = True


class PortionReadError(JobError):
    """A job read its share of new items; the next one continues from there."""


class ItemError(RowenError):
    """One item could not be read; the others were."""

    exit_code = 3
    http_status = 422


def class_of(code: str | None) -> type[RowenError]:
    """Return the class of an error code; `RowenError` if the code is unknown."""
    tree: list[type[RowenError]] = [RowenError]
    for error in tree:
        if error.code == code:
            return error
        tree += error.__subclasses__()
    return RowenError
