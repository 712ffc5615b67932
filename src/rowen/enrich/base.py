"""The contract of an embedder, which returns a vector for each text, in the same order.

A kind is a class with this interface, declared by the entry point `rowen.embedders`. Vectors are validated in
`vectors.py`.
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
"""The kind that embeds nothing."""
# A database may still have vectors of these kinds; a search or sync then shows the message.
_REMOVED = {
    "local-fast": "The embedder local-fast is no longer part of Rowen; search goes by words alone."
    " `rowen embed --embedder local` makes vectors of the local model beside the old ones, and then switches."
}


@dataclass(frozen=True, slots=True)
class Spec:
    """The specification of an embedder; the kind has a default for each field that is None."""

    kind: str
    model: str | None = None
    dimensions: int | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a request, of concurrent requests, and of the part of a text that is read.

    A `heavy` embedder uses this machine's processors, and waits while there is a harvest.
    """

    texts: int
    tokens: int
    chars_per_text: int
    concurrency: int = 1
    heavy: bool = False

    def within(self, settings: Settings) -> "Limits":
        """Return the limits with those of the settings."""
        return replace(
            self,
            texts=settings.embedder_batch or self.texts,
            concurrency=settings.embedder_concurrency or self.concurrency,
        )


class Embedded(NamedTuple):
    """One answer: vectors in the order of the texts, the tokens, and the number of truncated texts.

    A long text may have one vector per part: `parts` lists the number of vectors of each text.
    """

    vectors: Sequence[Any]
    tokens: int
    truncated: int = 0
    parts: Sequence[int] = ()


class EmbedderTools(NamedTuple):
    """The HTTP client, which is opened at first use, the settings, and the ledger."""

    client: "Callable[[], Awaitable[Client]]"
    settings: Settings
    ledger: Ledger = NoLedger()


class Embedder(Protocol):
    """Turns texts into vectors.

    `name` identifies model, quantisation, token limit and dimensions. `weight` is the weight of its ranking relative to
    that by words, `price` the price of a million tokens in US dollars, None if unknown.
    """

    kind: ClassVar[str]
    name: str
    limits: Limits
    weight: float
    price: float | None

    def __init__(self, spec: Spec, tools: EmbedderTools) -> None: ...

    @property
    def spec(self) -> Spec:
        """The specification, with defaults."""
        ...

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Embedded:
        """Return the vectors of texts that are not blank; some models distinguish questions from passages."""
        ...

    async def close(self) -> None:
        """Release threads and memory."""
        ...


_registered: dict[str, type[Embedder]] = {}


def register(embedder: type[Embedder]) -> None:
    """Add a kind in this process; packages use the entry point `rowen.embedders` instead."""
    _registered[embedder.kind] = embedder


def kinds() -> tuple[str, ...]:
    """Return the names of all kinds, sorted."""
    return tuple(sorted({NONE, *_registered, *_installed()} - _REMOVED.keys()))


def make(spec: Spec, tools: EmbedderTools) -> Embedder:
    """Return a new embedder; raise `ConfigurationError` for an unknown kind."""
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
