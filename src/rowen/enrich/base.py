"""The contract of an embedder, which returns one vector or several for each text, in the order of the texts.

A kind of embedder is a class with this interface, declared by the entry point `rowen.embedders`. Vectors are validated
in `vectors.py`.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from rowen.enrich.ledger import Ledger, NoLedger
from rowen.errors import ConfigurationError, EmbeddingError, Hint, action
from rowen.settings import Settings

if TYPE_CHECKING:
    from rowen.net.client import Client

WAITING = Hint("The texts keep waiting; ", action("embed"), " goes on where this ended.")
"""The hint for an unavailable embedder."""
GROUP = "rowen.embedders"
NONE = "none"
"""The kind of embedder that computes no vectors."""
# A database may still contain vectors of these kinds; a search or sync then shows the message.
_REMOVED = {
    "local-fast": "The embedder local-fast is no longer part of Rowen; search goes by words alone."
    " `rowen embed --embedder local` makes vectors of the local model beside the old ones, and then switches."
}


@dataclass(frozen=True, slots=True)
class Spec:
    """The specification of an embedder; each field that is None takes the default of the kind."""

    kind: str
    model: str | None = None
    dimensions: int | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of an embedder: size of a request, concurrent requests, and the part of a text that is read.

    A `heavy` embedder uses the processors of this machine, and waits while a harvest is running.
    """

    texts: int
    tokens: int
    chars_per_text: int
    concurrency: int = 1
    heavy: bool = False

    def within(self, settings: Settings) -> "Limits":
        """Return the limits after applying the limits in the settings."""
        return replace(
            self,
            texts=settings.embedder_batch or self.texts,
            concurrency=settings.embedder_concurrency or self.concurrency,
        )


class Embedded(NamedTuple):
    """The answer to one request: vectors in the order of the texts, the tokens, and the number of truncated texts.

    A long text may have several vectors: `parts` lists the number of vectors of each text.
    """

    vectors: Sequence[Any]
    tokens: int
    truncated: int = 0
    parts: Sequence[int] = ()


class EmbedderTools(NamedTuple):
    """Tools for an embedder: the HTTP client, which is opened at first use, the settings, and the ledger."""

    client: "Callable[[], Awaitable[Client]]"
    settings: Settings
    ledger: Ledger = NoLedger()


class Embedder(Protocol):
    """Computes vectors of texts.

    `name` identifies model, quantisation, token limit and dimensions. `weight` is the weight of its ranking relative
    to the ranking by words. `price` is the price of a million tokens in US dollars, None if unknown.
    """

    kind: ClassVar[str]
    name: str
    limits: Limits
    weight: float
    price: float | None

    def __init__(self, spec: Spec, tools: EmbedderTools) -> None: ...

    @property
    def spec(self) -> Spec:
        """The specification, with defaults filled in."""
        ...

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Embedded:
        """Return the vectors of texts that are not blank; some models treat a `question` and a passage differently."""
        ...

    async def close(self) -> None:
        """Release threads and memory."""
        ...


_registered: dict[str, type[Embedder]] = {}


def register(embedder: type[Embedder]) -> None:
    """Register a kind in this process; packages use the entry point `rowen.embedders` instead."""
    _registered[embedder.kind] = embedder


def kinds() -> tuple[str, ...]:
    """Return the names of all kinds of embedders, sorted."""
    return tuple(sorted({NONE, *_registered, *_installed()} - _REMOVED.keys()))


def make(spec: Spec, tools: EmbedderTools) -> Embedder:
    """Create an embedder; raise `ConfigurationError` if its kind is unknown."""
    kind = spec.kind
    if kind in _REMOVED and kind not in _registered:
        raise ConfigurationError(_REMOVED[kind], hint=f"The embedders are: {', '.join(kinds())}.")
    if kind not in _registered and kind in _installed():
        try:
            _registered[kind] = _installed()[kind].load()
        except ImportError as problem:
            raise EmbeddingError(
                f"The embedder {kind!r} cannot be loaded: {problem}.", hint="Reinstall the package that provides it."
            ) from problem
    if kind not in _registered:
        raise ConfigurationError(f"There is no embedder {kind!r}.", hint=f"The embedders are: {', '.join(kinds())}.")
    return _registered[kind](spec, tools)


@cache
def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
