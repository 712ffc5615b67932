"""Reads a repository through its mirror: nothing where the commit is the same, else the blobs that are new."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from rowen.connectors.git.listing import Proof, RepositoryScope, TreeComparison
from rowen.connectors.git.mirror import Mirror, Tip
from rowen.connectors.git.options import RepositoryOptions
from rowen.model.item import Checkpoint, Observation

__all__ = ["RepositoryPull"]


class RepositoryPull:
    """One pass over what a ref stands for; ends with a checkpoint, unless the repository is empty."""

    def __init__(self, mirror: Mirror, options: RepositoryOptions, url_of: Callable[[str], str]) -> None:
        self._mirror = mirror
        self._options = options
        self._url_of = url_of

    async def pull(self, held: dict[str, str | None], cursor: Any) -> AsyncGenerator[Observation]:
        """Ask for the commit, and read the files whose blobs are others."""
        tip = await self._mirror.tip(self._options.ref)
        if tip is None:
            return
        before = Proof.from_json(cursor)
        if before is not None and before.commit == tip.commit and before.covers(held):
            self._mirror.meter.not_modified += 1
            for observation in before.observations(held):
                yield observation
            yield Checkpoint(before.to_json())
            return
        async with aclosing(self._changes(tip, held, before)) as changes:
            async for observation in changes:
                yield observation

    async def _changes(
        self, tip: Tip, held: dict[str, str | None], before: Proof | None
    ) -> AsyncGenerator[Observation]:
        options = self._options
        await self._mirror.fetch(tip)
        found = RepositoryScope(options, options.path, self._url_of).find(await self._mirror.entries(tip.commit))
        look = TreeComparison(found, held, before=before, options=options, ref=options.ref or "HEAD")
        for observation in look.settled():
            yield observation
        async with aclosing(self._mirror.bodies(look.stale, max_bytes=options.max_bytes)) as bodies:
            async for one, body in bodies:
                yield look.too_large(one) if body is None else look.take(one, body)
        yield Checkpoint(look.proof(tip.commit).to_json())
