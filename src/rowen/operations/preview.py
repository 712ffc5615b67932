"""What a source would bring: its kind and its first items, before anything is kept."""

import asyncio
from collections.abc import Mapping
from typing import Any

from rowen.connectors import registry
from rowen.errors import RowenError
from rowen.harvest.engine import Engine
from rowen.model.access import Reach
from rowen.model.sources import Preview, Source
from rowen.operations.reach import refuse_local, refuse_options, with_texts, within
from rowen.operations.sources import Sources

__all__ = ["Previews"]

# A screenful. Twice as many would double what is asked of somebody who only tries an address.
FIRST_ITEMS = 5


class Previews:
    """Looking before keeping."""

    def __init__(self, engine: Engine, sources: Sources) -> None:
        self._engine = engine
        self._sources = sources

    async def preview(
        self,
        address: str,
        *,
        kind: str | None = None,
        options: Mapping[str, Any] | None = None,
        limit: int = FIRST_ITEMS,
        reach: Reach = Reach.ALL,
    ) -> Preview:
        """What is at an address, with its first items; nothing is kept.

        Raises where no kind can read the address. Where it cannot be read at the moment, `trouble` says why. `reach`
        says what of this machine the address may name.
        """
        chosen = dict(options or {})
        registry.refuse_unfit(chosen)
        address = within(reach, address)
        formal, named = registry.recognise(address, kind)
        refuse_local(reach, named)
        refuse_options(reach, formal, named, chosen)
        kind, url, name, kept_as = await self._sources.recognised(address, kind)
        refuse_options(reach, kind, url, chosen)
        chosen = await asyncio.to_thread(with_texts, kind, chosen)
        told = Preview(address, kind, url, name, kept_as=kept_as)
        source = Source(0, name, kind, url, options=chosen)
        try:
            items, more = await self._engine.sample(source, limit)
        except RowenError as problem:
            hint = f" {problem.hint}" if problem.hint else ""
            return Preview(address, kind, url, name, kept_as=kept_as, trouble=f"{problem}{hint}")
        return Preview(address, kind, told.url, name, tuple(items), more, kept_as)
