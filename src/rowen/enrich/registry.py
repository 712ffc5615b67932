"""Which embedders there are: built-in ones and those of other packages, by the same entry point."""

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from rowen.enrich.base import Embedder, EmbedderTools, Spec
from rowen.errors import ConfigurationError, EmbeddingError

__all__ = ["NONE", "kinds", "make", "register"]

GROUP = "rowen.embedders"
NONE = "none"
"""The kind that embeds nothing."""

# Vectors of these may still be in a database, which says so when it is searched or synced.
_REMOVED = {
    "local-fast": "The embedder local-fast is no longer part of Rowen; search goes by words alone."
    " `rowen embed --embedder local` makes vectors of the local model beside the old ones, and then switches."
}
_registered: dict[str, type[Embedder]] = {}


def register(embedder: type[Embedder]) -> None:
    """Add a kind in this process; packages declare theirs by the entry point `rowen.embedders` instead."""
    _registered[embedder.kind] = embedder


def kinds() -> tuple[str, ...]:
    """The names of all kinds, sorted."""
    return tuple(sorted({NONE, *_registered, *_installed()} - _REMOVED.keys()))


def make(spec: Spec, tools: EmbedderTools) -> Embedder:
    """The embedder that is meant."""
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
