"""What embedders share that hold their model in this process: it is loaded once, and asked in threads."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import ClassVar, Protocol

from rowen.enrich.base import Embedded, Limits, Spec

__all__ = ["Inside", "Model"]


class Model(Protocol):
    """A model in memory; shared by threads."""

    def embed(self, texts: list[str]) -> Embedded:
        """The vectors of texts."""
        ...


class Inside:
    """An embedder that needs no network. `load` is called when the first text comes."""

    kind: ClassVar[str]
    limits: Limits

    def __init__(self, spec: Spec, *, threads: int) -> None:
        spec.refuse_model()
        self.price: float | None = 0.0
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="rowen-embed")
        self._loading = Lock()
        self._model: Model | None = None

    @property
    def spec(self) -> Spec:
        """There is but one."""
        return Spec(self.kind)

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Embedded:
        """The vectors of texts, worked out in threads that leave the event loop alone."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._embed, list(texts))

    async def close(self) -> None:
        """End the threads; what they are at is of no use to anybody."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._model = None

    def _load(self) -> Model:
        raise NotImplementedError

    def _embed(self, texts: list[str]) -> Embedded:
        with self._loading:
            model = self._model = self._model or self._load()
        return model.embed(texts)
