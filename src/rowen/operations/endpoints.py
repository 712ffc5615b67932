"""SPARQL endpoints that hear what pages state: told now, or kept up to date by workers."""

from collections.abc import Mapping
from dataclasses import replace

from rowen.connectors.registry import refuse_unfit
from rowen.errors import Hint, NotFoundError, RefusedError, action
from rowen.harvest import agreements
from rowen.harvest.engine import Engine
from rowen.model.rdf import StatementReport, StatementTarget
from rowen.model.sources import Source
from rowen.net.credentials import exposed_in
from rowen.net.target import parse, redact
from rowen.store import rdf, schedules, sources
from rowen.store.database import Connection

__all__ = ["StatementEndpoints"]


class StatementEndpoints:
    """Telling SPARQL endpoints."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._database = engine.database

    async def every(self, name: str | None = None) -> list[StatementTarget]:
        """All endpoints, or those of one source: up to which change each was told, what waits, and what failed."""
        async with self._database.connection() as c:
            if name is not None:
                await sources.get(c, name)
            return await rdf.targets(c, name)

    async def keep(
        self, name: str, endpoint: str, *, graph: str | None = None, headers: Mapping[str, str] | None = None
    ) -> StatementTarget:
        """Have workers keep a SPARQL endpoint up to date from now on; also one that failed for days.

        The values of `headers` say where a key is found (env:NAME, file:PATH), also after a scheme.
        """
        from rowen.jobs.rdf import endpoint_as_source

        graph = _checked(endpoint, graph, headers)
        async with self._database.transaction() as c:
            source = await sources.get(c, name)
            if headers is None and (held := await rdf.target(c, source.id, endpoint, graph)):
                headers = held.headers
            await rdf.store_target(c, source.id, endpoint, graph, headers or {})
            subject = endpoint_as_source(name, endpoint, dict(headers or {}))
            agreements.agree(self._engine.settings, subject.kind, subject.url, subject.options)
            await schedules.notify_workers(c)
            return await _target(c, source, endpoint, graph)

    async def forget(self, name: str, endpoint: str, *, graph: str | None = None) -> None:
        """Tell an endpoint no more, and forget up to where it was told; what it holds stays there."""
        async with self._database.transaction() as c:
            source = await sources.get(c, name)
            if not await rdf.remove_target(c, source.id, endpoint, graph):
                raise NotFoundError(
                    f"{redact(endpoint)} is no endpoint of {name!r}, or of another graph.",
                    hint=Hint(action("statements endpoints", name), " lists those that are."),
                )

    async def push(
        self,
        name: str,
        endpoint: str,
        *,
        graph: str | None = None,
        headers: Mapping[str, str] | None = None,
        again: bool = False,
    ) -> StatementReport:
        """Bring a SPARQL endpoint up to date now, from where it was left; `again` all of it, after it lost something.

        Updates can be repeated without harm. What the endpoint has accepted is noted after each request.
        """
        from rowen.jobs.rdf import StatementPush, endpoint_as_source

        graph = _checked(endpoint, graph, headers)
        async with self._database.connection() as c:
            target = await _target(c, await sources.get(c, name), endpoint, graph)
        if headers is not None:
            target = replace(target, headers=dict(headers))
            subject = endpoint_as_source(name, endpoint, dict(headers))
            agreements.agree(self._engine.settings, subject.kind, subject.url, subject.options)
        return await StatementPush(self._engine, target).send(again=again)


def _checked(endpoint: str, graph: str | None, headers: Mapping[str, str] | None) -> str | None:
    """The graph's name, if all may be stored that was given."""
    from rowen.publish.statements import checked_graph

    refuse_unfit({"headers": dict(headers or {})})
    parse(endpoint)
    if found := exposed_in(endpoint):
        raise RefusedError(
            f"The address of the endpoint holds {found}, which would be stored. Nothing was sent.",
            hint="Give it as a header, by reference: --header 'Authorization: Basic env:NAME'.",
        )
    return checked_graph(graph)


async def _target(c: Connection, source: Source, endpoint: str, graph: str | None) -> StatementTarget:
    """An endpoint as it is known; one that was never told anything has no number yet."""
    held = await rdf.target(c, source.id, endpoint, graph)
    unknown = StatementTarget(0, source.id, source.name, endpoint, graph, {}, "once", 0, None, 0, 0, None, None, None)
    return held or unknown
