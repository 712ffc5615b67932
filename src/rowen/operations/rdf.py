"""RDF statements of pages: summaries, dumps, deltas, and SPARQL endpoints that are kept up to date."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rowen.connectors.registry import refuse_unfit
from rowen.errors import Hint, NotFoundError, RefusedError, action
from rowen.harvest import agreements
from rowen.jobs.rdf import StatementPush, endpoint_as_source
from rowen.model.access import Scope
from rowen.model.changes import Publication
from rowen.model.rdf import DELTA, StatementChange, StatementFile, StatementReport, StatementSummary, StatementTarget
from rowen.model.sources import Source
from rowen.net.credentials import exposed_in
from rowen.net.target import parse, redact
from rowen.operations.operation import ResourceGroup, operation
from rowen.publish.rdf import checked_graph, delta_file, last_delta, quad_lines, whole_file
from rowen.store import changes, rdf, schedules, sources
from rowen.store.database import Connection

if TYPE_CHECKING:
    from typing import Annotated

    from msgspec import Meta

    from rowen.model.dates import moment_of
    from rowen.operations.parameters import Endpoint, Graph, Limit, OnlySource, SinceNumber, SourceName


class Rdf(ResourceGroup):
    """RDF statements of pages."""

    @operation(scope=Scope.READ)
    async def summary(self, name: SourceName) -> StatementSummary:
        """Return how many pages of each type exist, their RDF statements, and what was repaired or left out."""
        types: Counter[str] = Counter()
        counts: dict[str, Counter[str]] = {"repaired": Counter(), "dropped": Counter(), "violations": Counter()}
        stated = unread = 0
        async with (
            self._database.connection() as c,
            aclosing(rdf.current(c, (await sources.get(c, name)).id)) as batches,
        ):
            async for batch in batches:
                for page in batch:
                    types[str(page.told.get("type"))] += 1
                    stated += len(page.lines)
                    unread += "unread" in page.told
                    for reason, counter in counts.items():
                        counter.update(page.told.get(reason) or {})
        repaired, dropped, violations = map(dict, counts.values())
        return StatementSummary(name, dict(types), stated, repaired, dropped, unread, violations)

    @operation(scope=Scope.READ)
    async def dump(self, name: SourceName, to: Path, *, graph: Graph | None = None) -> StatementReport:
        """Write all current RDF statements as N-Quads; deltas after `last_change` continue from there."""
        graph = checked_graph(graph)
        pages = written = 0
        async with self._database.connection() as c:
            source = await sources.get(c, name)
            last = await changes.last_number(c)
            with whole_file(to) as file:
                async with aclosing(rdf.current(c, source.id)) as batches:
                    async for batch in batches:
                        for page in batch:
                            lines = page.lines
                            pages += bool(lines)
                            written += len(lines)
                            await asyncio.to_thread(file.writelines, quad_lines(page.page, lines, graph))
        return StatementReport(str(to), pages, written, 0, last)

    @operation(scope=None)
    async def write_deltas(
        self, name: SourceName, to: Path, *, since: SinceNumber | None = None, graph: Graph | None = None
    ) -> StatementReport:
        """Write the changes of RDF statements into a folder, one file per transaction, after the files that exist."""
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
        """Return the first delta file after a number; if the number is inside a file, return the rest of that file."""
        async with self._database.connection() as c:
            changed = await rdf.changes_after(c, name, after=after, limit=rdf.MOST_IN_A_FILE)
        return [change for change in changed if change.file == changed[0].file]

    @operation(scope=Scope.READ)
    async def list_files(
        self,
        name: SourceName,
        *,
        since: Annotated[
            datetime | None,
            Meta(description="Only files made after this time.", extra={"wire": str | None, "convert": moment_of}),
        ] = None,
        limit: Limit = 1000,
    ) -> list[StatementFile]:
        """List the delta files since a moment, oldest first, which is the order to apply them in."""
        async with self._database.connection() as c:
            await sources.get(c, name)
            return await rdf.files(c, name, since=since, limit=limit)

    @operation(scope=Scope.READ)
    async def get_file(
        self,
        name: SourceName,
        number: Annotated[int, Meta(ge=1, le=2**63 - 1, description="Number of the delta file.")],
        *,
        graph: Graph | None = None,
    ) -> Publication:
        """Return one delta file in the form of the mu-semtech stack; it never changes."""
        graph = checked_graph(graph)
        async with self._database.connection() as c:
            await sources.get(c, name)
            file_changes = await rdf.of_file(c, name, number)
        if not file_changes:
            raise NotFoundError(
                f"There is no delta file {number} of {name!r}; files are kept for 90 days.",
                hint=Hint(action("statements dump", name), " writes all that is stated now."),
            )
        return Publication(delta_file(file_changes, graph), "application/json", immutable=True)

    @operation(scope=Scope.READ)
    async def list_endpoints(self, name: OnlySource | None = None) -> list[StatementTarget]:
        """List SPARQL endpoints with their position, backlog and failures."""
        async with self._database.connection() as c:
            if name is not None:
                await sources.get(c, name)
            return await rdf.targets(c, name)

    @operation(scope=Scope.ADMIN)
    async def add_endpoint(
        self,
        name: SourceName,
        endpoint: Endpoint,
        *,
        graph: Graph | None = None,
        headers: Annotated[
            Mapping[str, str] | None,
            Meta(description="Headers whose values say where a key is found: env:NAME or file:PATH."),
        ] = None,
    ) -> StatementTarget:
        """Have workers keep a SPARQL endpoint up to date; this also restarts one that failed for days.

        The values of `headers` name where a key is found (env:NAME, file:PATH), also after a scheme.
        """
        graph = _checked(endpoint, graph, headers)
        async with self._database.transaction() as c:
            source = await sources.get(c, name)
            if headers is None and (known := await rdf.target(c, source.id, endpoint, graph)):
                headers = known.headers
            await rdf.store_target(c, source.id, endpoint, graph, headers or {})
            subject = endpoint_as_source(name, endpoint, dict(headers or {}))
            agreements.agree(self._engine.settings, subject.kind, subject.url, subject.options)
            await schedules.notify_workers(c)
            return await _target(c, source, endpoint, graph)

    @operation(scope=Scope.ADMIN)
    async def remove_endpoint(self, name: SourceName, endpoint: Endpoint, *, graph: Graph | None = None) -> None:
        """Stop updating a SPARQL endpoint and forget its position; its data stays."""
        async with self._database.transaction() as c:
            source = await sources.get(c, name)
            if not await rdf.remove_target(c, source.id, endpoint, graph):
                raise NotFoundError(
                    f"{redact(endpoint)} is no endpoint of {name!r}, or of another graph.",
                    hint=Hint(action("statements endpoints", name), " lists those that are."),
                )

    @operation(scope=Scope.WRITE)
    async def push(
        self,
        name: SourceName,
        endpoint: Endpoint,
        *,
        graph: Graph | None = None,
        headers: Annotated[
            Mapping[str, str] | None,
            Meta(description="Headers whose values say where a key is found: env:NAME or file:PATH."),
        ] = None,
        again: Annotated[
            bool, Meta(description="Send all statements again, for an endpoint that lost some.", extra={"flag": "all"})
        ] = False,
    ) -> StatementReport:
        """Bring a SPARQL endpoint up to date now; with `again`, send everything from the start.

        Updates can be repeated without harm. The position is stored after each accepted request.
        """
        graph = _checked(endpoint, graph, headers)
        async with self._database.connection() as c:
            target = await _target(c, await sources.get(c, name), endpoint, graph)
        if headers is not None:
            target = replace(target, headers=dict(headers))
            subject = endpoint_as_source(name, endpoint, dict(headers))
            agreements.agree(self._engine.settings, subject.kind, subject.url, subject.options)
        return await StatementPush(self._engine, target).send(again=again)


def _checked(endpoint: str, graph: str | None, headers: Mapping[str, str] | None) -> str | None:
    """Return the name of the graph; raise an error if the endpoint or the headers must not be stored."""
    refuse_unfit({"headers": dict(headers or {})})
    parse(endpoint)
    if secret := exposed_in(endpoint):
        raise RefusedError(
            f"The address of the endpoint holds {secret}, which would be stored. Nothing was sent.",
            hint="Give it as a header, by reference: --header 'Authorization: Basic env:NAME'.",
        )
    return checked_graph(graph)


async def _target(c: Connection, source: Source, endpoint: str, graph: str | None) -> StatementTarget:
    """Return the state of an endpoint; if the endpoint is new, return its initial state."""
    new = StatementTarget(0, source.id, source.name, endpoint, graph, {}, "once", 0, None, 0, 0, None, None, None)
    return await rdf.target(c, source.id, endpoint, graph) or new
