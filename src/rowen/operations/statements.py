"""What pages state in RDFa: looked at, dumped, and as deltas in files."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import aclosing
from datetime import datetime
from pathlib import Path

from rowen.errors import Hint, NotFoundError, action
from rowen.harvest.engine import Engine
from rowen.model.changes import Publication
from rowen.model.rdf import DELTA, StatementChange, StatementFile, StatementReport, StatementSummary
from rowen.store import changes, rdf, sources

__all__ = ["PageStatementFiles"]


class PageStatementFiles:
    """Taking what pages state elsewhere."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._database = engine.database

    async def summary(self, name: str) -> StatementSummary:
        """How many pages of each type there are, what they state, and what was repaired or left out, by reason."""
        types: Counter[str] = Counter()
        counts: dict[str, Counter[str]] = {"repaired": Counter(), "dropped": Counter(), "violations": Counter()}
        stated = unread = 0
        async with (
            self._database.connection() as c,
            aclosing(rdf.current(c, (await sources.get(c, name)).id)) as found,
        ):
            async for batch in found:
                for page in batch:
                    types[str(page.told.get("type"))] += 1
                    stated += len(page.lines)
                    unread += "unread" in page.told
                    for reason, counter in counts.items():
                        counter.update(page.told.get(reason) or {})
        repaired, dropped, violations = map(dict, counts.values())
        return StatementSummary(name, dict(types), stated, repaired, dropped, unread, violations)

    async def dump(self, name: str, to: Path, *, graph: str | None = None) -> StatementReport:
        """Write all that pages state now as N-Quads; deltas after `last_change` lead on from there."""
        from rowen.publish.statements import checked_graph, quad_lines, whole_file

        graph = checked_graph(graph)
        pages = written = 0
        async with self._database.connection() as c:
            source = await sources.get(c, name)
            last = await changes.last_number(c)
            with whole_file(to) as file:
                async with aclosing(rdf.current(c, source.id)) as found:
                    async for batch in found:
                        for page in batch:
                            lines = page.lines
                            pages += bool(lines)
                            written += len(lines)
                            await asyncio.to_thread(file.writelines, quad_lines(page.page, lines, graph))
        return StatementReport(str(to), pages, written, 0, last)

    async def deltas(
        self, name: str, to: Path, *, since: int | None = None, graph: str | None = None
    ) -> StatementReport:
        """Write how statements changed into a folder, a file for what was stored together, from where its files end."""
        from rowen.publish.statements import checked_graph, delta_file, last_delta, whole_file

        graph = checked_graph(graph)
        last = since if since is not None else last_delta(to)
        files = added = removed = 0
        while changed := await self._next_file(name, last):
            last = changed[-1].number
            with whole_file(to / DELTA.format(last)) as file:
                file.write(delta_file(changed, graph).decode())
            files += 1
            added += sum(len(change.added) for change in changed)
            removed += sum(len(change.gone(graph)) for change in changed)
        return StatementReport(str(to), files, added, removed, last)

    async def _next_file(self, name: str, after: int) -> list[StatementChange]:
        """The file after a number, or the rest of one; nothing if there is none."""
        async with self._database.connection() as c:
            found = await rdf.changed(c, name, after=after, limit=rdf.MOST_IN_A_FILE)
        return [change for change in found if change.file == found[0].file]

    async def files(self, name: str, *, since: datetime | None = None, limit: int = 1000) -> list[StatementFile]:
        """The delta files that were made after a moment, the oldest first: the order in which they are to be taken."""
        async with self._database.connection() as c:
            await sources.get(c, name)
            return await rdf.files(c, name, since=since, limit=limit)

    async def file(self, name: str, number: int, *, graph: str | None = None) -> Publication:
        """One delta file, in the shape of the mu-semtech stack; it never changes."""
        from rowen.publish.statements import checked_graph, delta_file

        graph = checked_graph(graph)
        async with self._database.connection() as c:
            await sources.get(c, name)
            found = await rdf.of_file(c, name, number)
        if not found:
            raise NotFoundError(
                f"There is no delta file {number} of {name!r}; files are kept for 90 days.",
                hint=Hint(action("statements dump", name), " writes all that is stated now."),
            )
        return Publication(delta_file(found, graph), "application/json", immutable=True)
