"""What pages state in RDFa: looked at, dumped, as deltas in files, and put into a SPARQL endpoint."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from rowen.connectors.base import Meter
from rowen.connectors.registry import refuse_secrets
from rowen.errors import ExportError, RefusedError
from rowen.fetch.credentials import Credentials
from rowen.fetch.target import parse, redact
from rowen.harvest.engine import Engine
from rowen.model.source import Source
from rowen.model.statements import StatementChange, StatementReport, StatementSummary
from rowen.store import changes, sources, statements
from rowen.store.database import Database

if TYPE_CHECKING:
    from rowen.fetch.client import Client

__all__ = ["PageStatementFiles"]

# Changes that are held at a time: a page of 1,865 statements, as the largest recorded one has, is 300 kB.
_CHANGES_AT_ONCE = 100


class PageStatementFiles:
    """Taking what pages state elsewhere."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._database = engine.database

    async def summary(self, name: str) -> StatementSummary:
        """How many pages of each type there are, what they state, and what was repaired or left out, by reason."""
        types: Counter[str] = Counter()
        counts: dict[str, Counter[str]] = {"repaired": Counter(), "dropped": Counter()}
        stated = unread = 0
        async with (
            self._database.connection() as c,
            aclosing(statements.current(c, (await sources.get(c, name)).id)) as found,
        ):
            async for batch in found:
                for page in batch:
                    types[str(page.told.get("type"))] += 1
                    stated += len(page.lines)
                    unread += "unread" in page.told
                    for reason, counter in counts.items():
                        counter.update(page.told.get(reason) or {})
        return StatementSummary(name, dict(types), stated, dict(counts["repaired"]), dict(counts["dropped"]), unread)

    async def dump(self, name: str, to: Path, *, graph: str | None = None) -> StatementReport:
        """Write all that pages state now as N-Quads; deltas after `last_change` lead on from there."""
        from rowen.publish.statements import checked_graph, quad_lines, whole_file

        graph = checked_graph(graph)
        pages = written = 0
        async with self._database.connection() as c:
            source = await sources.get(c, name)
            last = await changes.last_number(c)
            with whole_file(to) as file:
                async with aclosing(statements.current(c, source.id)) as found:
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
        """Write how statements changed into a folder, a file for each run, from where the files in it end."""
        from rowen.publish.statements import DELTA, change_set, checked_graph, json_array, last_delta, whole_file

        graph = checked_graph(graph)
        last = since if since is not None else last_delta(to)
        files = added = removed = 0
        async with aclosing(_since(self._database, name, last)) as runs:
            async for of_run in runs:
                last = of_run[-1].number
                kept = await _kept_elsewhere(self._database, name, of_run, graph)
                with whole_file(to / DELTA.format(last)) as file:
                    write = json_array(file)
                    for change in of_run:
                        told = change_set(change, graph, kept)
                        added, removed = added + len(told["inserts"]), removed + len(told["deletes"])
                        write(told)
                    file.write("\n]\n")
                files += 1
        return StatementReport(str(to), files, added, removed, last)

    async def push(
        self,
        name: str,
        endpoint: str,
        *,
        graph: str | None = None,
        headers: Mapping[str, str] | None = None,
        again: bool = False,
    ) -> StatementReport:
        """Bring a SPARQL endpoint up to date by updates, from where it was left; `again` from the beginning.

        Updates can be repeated without harm. What the endpoint has accepted is noted after each page.
        """
        from rowen.publish.statements import checked_graph

        graph = checked_graph(graph)
        refuse_secrets({"headers": dict(headers or {})})
        if parse(endpoint).login:
            raise RefusedError(
                "The address of the endpoint holds a password, which would be stored. Nothing was sent.",
                hint="Give it as a header, by reference: --header 'Authorization: Basic env:NAME'.",
            )
        async with self._database.connection() as c:
            source = await sources.get(c, name)
            told = 0 if again else await statements.told_to(c, source.id, endpoint, graph or "")
        sending = _Sending(self._engine, source, endpoint, graph, Credentials.of(endpoint, headers or {}))
        return await sending.send(after=told)


class _Sending:
    """One endpoint that is brought up to date."""

    def __init__(
        self, engine: Engine, source: Source, endpoint: str, graph: str | None, credentials: Credentials | None
    ) -> None:
        self._engine = engine
        self._source = source
        self._endpoint = endpoint
        self._graph = graph
        self._credentials = credentials
        self._counts: Counter[str] = Counter()

    async def send(self, *, after: int) -> StatementReport:
        """Send the present state to an endpoint that knows nothing, then what changed."""
        async with self._engine.client(Meter(), self._engine.settings) as client:
            if after == 0:
                async with aclosing(_now(self._engine.database, self._source)) as now:
                    async for change in now:
                        await self._send(client, change, set())
                        after = change.number
                await self._advance(after)
            async with aclosing(_since(self._engine.database, self._source.name, after)) as changed:
                async for found in changed:
                    kept = await _kept_elsewhere(self._engine.database, self._source.name, found, self._graph)
                    for one in found:
                        await self._send(client, one, kept)
                        await self._advance(after := one.number)
        counts = self._counts
        return StatementReport(redact(self._endpoint), counts["pages"], counts["added"], counts["removed"], after)

    async def _send(self, client: Client, change: StatementChange, kept: set[str]) -> None:
        from rowen.publish.statements import updates

        for update in updates(change, self._graph, kept):
            await self._post(client, update)
        self._counts["pages"] += 1
        self._counts["added"] += len(change.added)
        self._counts["removed"] += sum(line not in kept for line in change.removed)

    async def _post(self, client: Client, update: str) -> None:
        response = await client.request(
            "POST",
            self._endpoint,
            headers={"Content-Type": "application/sparql-update; charset=utf-8"},
            credentials=self._credentials,
            body=update.encode(),
            follow=False,
        )
        if not response.ok:
            raise ExportError(
                f"{redact(self._endpoint)} did not take an update (status {response.status}). "
                "What it took before is noted, and not sent again.",
                hint="If it wants a key, name where that is found: --header 'Authorization: Bearer env:NAME'.",
            )

    async def _advance(self, number: int) -> None:
        async with self._engine.database.transaction() as c:
            await statements.advance(c, self._source.id, self._endpoint, self._graph or "", number)


async def _now(database: Database, source: Source) -> AsyncGenerator[StatementChange]:
    """All that pages state now, as if it were new."""
    async with database.connection() as c:
        last = await changes.last_number(c)
        async with aclosing(statements.current(c, source.id)) as found:
            async for batch in found:
                for page in batch:
                    yield StatementChange(last, None, page.page, None, page.lines, ())


async def _since(database: Database, name: str, after: int) -> AsyncGenerator[list[StatementChange]]:
    """How statements changed after a number: the changes of each run, those of a large one in several parts."""
    while True:
        async with database.connection() as c:
            found = await statements.changed(c, name, after=after, limit=_CHANGES_AT_ONCE)
        if not found:
            return
        for _, of_run in groupby(found, lambda change: change.run):
            yield list(of_run)
        after = found[-1].number


async def _kept_elsewhere(
    database: Database, name: str, gone: Iterable[StatementChange], graph: str | None
) -> set[str]:
    """What one page no longer states and another still does: in a graph of all pages it stays."""
    if graph is None:
        return set()
    async with database.connection() as c:
        return await statements.still_stated(c, name, sorted({line for one in gone for line in one.removed}))
