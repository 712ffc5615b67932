"""The contract of an embedder: texts go in, as many vectors come out, in the same order.

A kind is a class of this shape, declared by the entry point `rowen.embedders`. It checks nothing twice: whether the
vectors are of the right number and length, and numbers at all, is the flow's business (`vectors.py`).
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
"""What to do about an embedder that cannot be had now."""
GROUP = "rowen.embedders"
NONE = "none"
"""The kind that embeds nothing."""
# Vectors of these may still be in a database, which says so when it is searched or synced.
_REMOVED = {
    "local-fast": "The embedder local-fast is no longer part of Rowen; search goes by words alone."
    " `rowen embed --embedder local` makes vectors of the local model beside the old ones, and then switches."
}


@dataclass(frozen=True, slots=True)
class Spec:
    """Which embedder: enough to call it again. What is None is left to the kind."""

    kind: str
    model: str | None = None
    dimensions: int | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may hold, how many may run at a time, and how much of a text is read.

    What is `heavy` uses this machine's processors, and leaves them to the harvest while there is one.
    """

    texts: int
    tokens: int
    chars_per_text: int
    concurrency: int = 1
    heavy: bool = False

    def within(self, settings: Settings) -> "Limits":
        """These limits with what the settings override."""
        return replace(
            self,
            texts=settings.embedder_batch or self.texts,
            concurrency=settings.embedder_concurrency or self.concurrency,
        )


class Embedded(NamedTuple):
    """One answer: vectors in the order of the texts, tokens spent, and how many texts were cut.

    A text that is too long to be read at once may have several vectors, one a part: `parts` says how many each has.
    """

    vectors: Sequence[Any]
    tokens: int
    truncated: int = 0
    parts: Sequence[int] = ()


class EmbedderTools(NamedTuple):
    """What the flow lends to an embedder: the HTTP client, opened when first asked for, settings, and the ledger."""

    client: "Callable[[], Awaitable[Client]]"
    settings: Settings
    ledger: Ledger = NoLedger()


class Embedder(Protocol):
    """Turns texts into vectors.

    `name` tells two ways of embedding apart: model, quantisation, token limit, dimensions. `weight` is what its
    ranking counts beside that of the words, `price` what a million tokens cost in US dollars, None if nobody knows.
    """

    kind: ClassVar[str]
    name: str
    limits: Limits
    weight: float
    price: float | None

    def __init__(self, spec: Spec, tools: EmbedderTools) -> None: ...

    @property
    def spec(self) -> Spec:
        """Return how to make it again, defaults filled in."""
        ...

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Embedded:
        """Return the vectors of texts, none of them blank; some models read a question otherwise than a passage."""
        ...

    async def close(self) -> None:
        """Release threads and memory."""
        ...


_registered: dict[str, type[Embedder]] = {}


def register(embedder: type[Embedder]) -> None:
    """Add a kind in this process; packages declare theirs by the entry point `rowen.embedders` instead."""
    _registered[embedder.kind] = embedder


def kinds() -> tuple[str, ...]:
    """Return the names of all kinds, sorted."""
    return tuple(sorted({NONE, *_registered, *_installed()} - _REMOVED.keys()))


def make(spec: Spec, tools: EmbedderTools) -> Embedder:
    """Return the embedder that is meant."""
    return _class(spec.kind)(spec, tools)


def _class(kind: str) -> type[Embedder]:
    if kind in _REMOVED and kind not in _registered:
        raise ConfigurationError(_REMOVED[kind], hint=f"The embedders are: {', '.join(kinds())}.")
    if kind not in _registered and kind in _installed():
        try:
            _registered[kind] = _installed()[kind].load()
        except ImportError as problem:
            raise EmbeddingError(
                f"The embedder {kind!r} cannot be loaded: {problem}.", hint="Reinstall the package that brings it."
            ) from problem
    if kind in _registered:
        return _registered[kind]
    raise ConfigurationError(f"There is no embedder {kind!r}.", hint=f"The embedders are: {', '.join(kinds())}.")


@cache
def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
