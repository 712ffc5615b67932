"""The database, the parse workers and the kinds of sources: their state, and maintenance."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rowen.connectors import registry
from rowen.errors import StoreError
from rowen.harvest import sandbox
from rowen.harvest.parse_pool import INLINE_BYTES
from rowen.model.access import Scope
from rowen.model.items import Raw
from rowen.model.status import DatabaseStatus, ServerStatus, Tidied
from rowen.operations.operation import ResourceGroup, operation
from rowen.programs import find
from rowen.settings import Settings
from rowen.store import changes, migrate, runs
from rowen.store.database import without_password
from rowen.store.migrate import check_vectors
from rowen.store.search import embeddings
from rowen.store.server import dumps
from rowen.store.server.embedded import EmbeddedServer

if TYPE_CHECKING:
    from typing import Annotated

    from msgspec import Meta


class DatabaseCare(ResourceGroup):
    """State and maintenance of the database and of this process."""

    @operation(scope=Scope.READ)
    async def status(self) -> DatabaseStatus:
        """Return which database this is, and its schema version."""
        async with self._database.connection() as c:
            number = c.info.server_version
            last = await changes.last_number(c)
        version = f"{number // 10_000}.{number % 10_000}"
        connections = self._database.connections
        return DatabaseStatus(
            place=self._database.place,
            embedded=self._database.embedded is not None,
            server_version=version,
            schema=migrate.latest(),
            last_change=last,
            connections_allowed=connections.allowed,
            connections_in_use=connections.in_use,
            connections_taken=connections.taken,
            runs_at_once=self._engine.places,
        )

    @operation(scope=None)
    async def conninfo(self) -> str:
        """Return the connection string for a PostgreSQL client, with the password."""
        url = self._engine.settings.database_url
        if url is not None:
            return url.get_secret_value()
        if self._database.embedded is None:
            raise StoreError("The database is not open.")
        return await asyncio.to_thread(self._database.embedded.join)

    @operation(scope=None)
    async def client_command(
        self, name: Annotated[str, Meta(description="Name of the client program, such as psql.")]
    ) -> tuple[str, str, dict[str, str]]:
        """Return how to start a PostgreSQL client: path, arguments, environment variables.

        An installed client is preferred to the one of the package.
        """
        where, secrets = without_password(await self.conninfo())
        return find(name) or await dumps.client_program(name), where, secrets

    @operation(scope=None)
    async def dump(self, path: Annotated[Path, Meta(description="The file of the dump.")]) -> int:
        """Write the whole database into a new file; return its size in bytes."""
        return await dumps.dump(self._database, await self.conninfo(), path)

    @operation(scope=None)
    async def restore(self, path: Annotated[Path, Meta(description="The file of the dump.")]) -> None:
        """Restore a dump into a database without sources, completely or not at all, and open it again."""
        await dumps.restore(self._database, await self.conninfo(), path)

    @operation(scope=None)
    async def check_vectors(self) -> None:
        """Compute some distances; raise if the server's pgvector does not fit its processor."""
        async with await self._database.connect() as connection:
            await check_vectors(connection)

    @operation(scope=None)
    async def check_workers(self) -> tuple[int, list[str]]:
        """Parse a document in a worker process; return the length of its text, and which restrictions are active."""
        body = b"# Well\n\n" + b"Water, clear and cold.\n\n" * (INLINE_BYTES // 20)
        document = await self._engine.workers.read(Raw("file:///well.md", body, "well.md", "text/markdown"))
        _, locks = await self._engine.workers.call(sandbox.report, body)
        return len(document.text), locks

    @operation(scope=None)
    async def tidy(self) -> Tidied:
        """Delete vectors that no passage has needed for `embeddings_kept_days`, and other expired data."""
        tidied = await embeddings.drop_unused(self._database, kept_days=self._settings.embeddings_kept_days)
        deleted = await runs.forget_all_old(self._database, self._settings)
        return replace(tidied, runs=deleted.runs, answers=deleted.answers, news=deleted.news)


def kinds() -> tuple[str, ...]:
    """Return the kinds of sources; raise an error if the code of a kind cannot be imported."""
    for kind in registry.kinds():
        registry.connector(kind)
    return registry.kinds()


def server_status(settings: Settings) -> ServerStatus:
    """Return the state of the embedded server without starting it."""
    return _server(settings).status()


def stop_server(settings: Settings) -> bool:
    """Stop an embedded server that is still running; return whether there was one."""
    return _server(settings).stop()


def _server(settings: Settings) -> EmbeddedServer:
    return EmbeddedServer(settings.home, port=settings.embedded_port, user=settings.embedded_user)
