"""Circuit breakers of all processes: list and reset them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rowen.enrich import base as embedders
from rowen.errors import Hint, NotFoundError, RowenError, action
from rowen.harvest.circuits import BEAT_S
from rowen.harvest.models import spec_of, wanted_spec
from rowen.model.access import Scope
from rowen.model.status import CircuitKind, CircuitStatus
from rowen.net.target import parse
from rowen.operations.operation import ResourceGroup, operation
from rowen.store import hosts, queue
from rowen.store.database import Connection
from rowen.store.search import embeddings

if TYPE_CHECKING:
    from typing import Annotated

    from msgspec import Meta


# Kinds of embedders that send no requests.
_LOCAL = frozenset({embedders.NONE, "local"})


class Circuits(ResourceGroup):
    """The circuit breakers of all processes."""

    @operation(scope=Scope.ADMIN)
    async def reset(
        self,
        name: Annotated[str | None, Meta(description="Host of the service, with its port; all if omitted.")] = None,
    ) -> list[CircuitStatus]:
        """Close a circuit by its name, or all, in every process, and return them; waiting jobs begin again.

        Other processes follow within seconds.
        """
        known = await self.list()
        named = [circuit for circuit in known if name in (None, circuit.name)]
        if name is not None and not named:
            raise NotFoundError(
                f"There is no circuit {name!r} that is open.", hint=Hint(action("circuits"), " lists them.")
            )
        self._engine.circuits.reset(name)
        async with self._engine.database.transaction() as c:
            await hosts.reset_circuits(c, name)
            # Jobs start only after every process has closed the circuit; earlier they would fail again.
            await queue.hasten_held_up(c, wait_s=2 * BEAT_S)
        return [circuit for circuit in named if circuit.state != "closed"]

    async def _providers(self, c: Connection) -> list[tuple[CircuitKind, str]]:
        """Return the providers in the settings and in the database."""
        providers: list[tuple[CircuitKind, str]] = []
        model = await embeddings.active(c)
        spec = wanted_spec(self._engine.settings) or (spec_of(model) if model is not None else None)
        with suppress(RowenError):
            if spec is not None and spec.kind not in _LOCAL and (url := self._engine.embedders.of(spec).spec.url):
                providers.append(("embedder", parse(url).host))
        with suppress(RowenError):
            if self._engine.language_models.has():
                providers.append(("model", parse(self._engine.language_models.of().spec.url).host))
        return providers

    @operation(scope=Scope.READ)
    async def list(self) -> list[CircuitStatus]:
        """Return the circuits that are not closed in any process, and those of the providers that the settings name."""
        async with self._engine.database.connection() as c:
            circuits = await hosts.circuits(c)
            providers = await self._providers(c)
        stored = {(circuit.kind, circuit.name) for circuit in circuits}
        circuits += [CircuitStatus(*provider) for provider in providers if provider not in stored]
        return sorted(circuits, key=lambda circuit: (circuit.kind, circuit.name, circuit.process or ""))
