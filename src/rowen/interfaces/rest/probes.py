"""Probes of liveness and readiness, and metrics for Prometheus."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from fastapi import APIRouter
from starlette.responses import Response

from rowen.errors import StoreUnavailableError
from rowen.interfaces.rest.answers import encoded
from rowen.interfaces.rest.derived import Service
from rowen.model.models import Costs
from rowen.model.sources import Overview
from rowen.model.status import CircuitStatus, Health
from rowen.version import __version__

MEDIA_TYPE_METRICS = "text/plain; version=0.0.4; charset=utf-8"


class _Metric(NamedTuple):
    name: str
    about: str
    samples: Iterable[tuple[str, float]]
    """Pairs of formatted labels and a value."""
    kind: str = "gauge"


def metrics(
    health: Health, sources: list[Overview], *, last_change: int, costs: Costs, circuits: Sequence[CircuitStatus]
) -> str:
    """Return all metrics in the text format of Prometheus."""
    all_metrics = [*_of_all(health, last_change, costs), *_of_circuits(circuits), *_of_sources(sources, health)]
    return "".join(
        "\n".join(
            [
                f"# HELP rowen_{metric.name} {metric.about}",
                f"# TYPE rowen_{metric.name} {metric.kind}",
                *(f"rowen_{metric.name}{labels} {float(value):.17g}" for labels, value in metric.samples),
            ]
        )
        + "\n"
        for metric in all_metrics
    )


def _of_all(health: Health, last_change: int, costs: Costs) -> Iterator[_Metric]:
    states = ("ready", "later", "running")
    jobs = [(_labels({"state": state}), getattr(health.queue, state)) for state in states]
    yield _Metric("build_info", "The version that answers.", [(_labels({"version": __version__}), 1)])
    yield _Metric("changes_total", "Lines of the change log.", [("", last_change)], "counter")
    yield _Metric("queue_jobs", "Jobs of the queue.", jobs)
    for name, about, value in (
        ("queue_paused", "1 while no job is begun.", health.queue.paused),
        ("workers", "Processes that take jobs.", len(health.workers)),
        ("sources_due", "Sources that are due and not begun.", health.due),
        (
            "oldest_due_seconds",
            "How late the longest due source is.",
            health.oldest_due.late_s if health.oldest_due else 0.0,
        ),
        ("circuits_open", "Sources that wait for a host that failed.", len(health.circuits)),
        ("embeddings_pending", "Passages without a vector.", health.embeddings_pending),
        ("quarantined", "Items that could not be read.", health.quarantined),
        ("deletions_held", "Deletions that were held back.", health.deletions_held),
        ("paid_usd_30d", "What paid calls cost in 30 days.", costs.usd),
        ("avoided_usd_30d", "What calls would have cost that were not made.", costs.avoided_usd),
    ):
        yield _Metric(name, about, [("", value)])


def _of_circuits(circuits: Sequence[CircuitStatus]) -> Iterator[_Metric]:
    """Yield, for each service, the processes with an open circuit, and the maximum of consecutive failures."""
    open_in: Counter[str] = Counter()
    failures: dict[str, int] = {}
    for circuit in circuits:
        labels = _labels({"kind": circuit.kind, "name": circuit.name})
        open_in[labels] += circuit.state == "open"
        failures[labels] = max(failures.get(labels, 0), circuit.failures)
    yield _Metric("circuit_open_processes", "Processes in which a circuit is open.", list(open_in.items()))
    yield _Metric("circuit_failures", "Failures in a row of a circuit that is not closed.", list(failures.items()))


def _of_sources(sources: list[Overview], health: Health) -> Iterator[_Metric]:
    # Computed once per source, since each source occurs in eight metrics.
    labels = {source.name: _labels({"source": source.name, "kind": source.kind}) for source in sources}
    failures = {failing.source: failing.failures for failing in health.failing}

    def seconds(at: datetime | None) -> float | None:
        return at.timestamp() if at else None

    values: tuple[tuple[str, str, Callable[[Overview], float | None]], ...] = (
        ("items", "Items of a source.", lambda source: source.items),
        ("active", "1 unless paused.", lambda source: source.state == "active"),
        (
            "last_run_timestamp_seconds",
            "When a source was last looked at.",
            lambda source: seconds(source.last_run_at),
        ),
        (
            "last_complete_timestamp_seconds",
            "When a source was last seen whole.",
            lambda source: seconds(source.last_complete_at),
        ),
        ("failures", "Failures in a row.", lambda source: failures.get(source.name, 0)),
        ("stale_share", "Share of items that are expected to be stale.", lambda source: source.stale),
        ("deletions_held", "Deletions held back.", lambda source: source.deletions_held),
        ("quarantined", "Items that could not be read.", lambda source: source.quarantined),
    )
    for name, about, value_of in values:
        samples = [(labels[source.name], value_of(source)) for source in sources]
        yield _Metric(f"source_{name}", about, [(label, value) for label, value in samples if value is not None])


def _labels(labels: Mapping[str, str]) -> str:
    escaped = {
        name: value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for name, value in labels.items()
    }
    text = ",".join(f'{name}="{value}"' for name, value in escaped.items())
    return f"{{{text}}}" if text else ""


router = APIRouter(tags=["probes"])

# Probes are sent every few seconds, with timeouts of one to five seconds.
_READY_S = 2.0


@router.get("/healthz", responses={200: {"content": {"application/json": {"example": {"status": "alive"}}}}})
async def is_alive() -> Response:
    """Return whether the process answers; the database is not checked, so that its failure restarts no process."""
    return Response(encoded({"status": "alive"}), media_type="application/json", headers={"Cache-Control": "no-store"})


@router.get("/readyz", responses={200: {"content": {"application/json": {"example": {"status": "ready"}}}}})
async def is_ready(rowen: Service) -> Response:
    """Return whether the database answers."""
    try:
        async with asyncio.timeout(_READY_S):
            await rowen.changes.last_number()
    except TimeoutError:
        raise StoreUnavailableError("The database does not answer in time.") from None
    return Response(encoded({"status": "ready"}), media_type="application/json", headers={"Cache-Control": "no-store"})


@router.get(
    "/metrics", response_class=Response, responses={200: {"content": {"text/plain": {"example": "rowen_workers 1\n"}}}}
)
async def get_metrics(rowen: Service) -> Response:
    """Return metrics for Prometheus."""
    text = metrics(
        await rowen.status.health(),
        await rowen.sources.overview(),
        last_change=await rowen.changes.last_number(),
        costs=await rowen.status.costs(),
        circuits=await rowen.circuits.list(),
    )
    return Response(text, media_type=MEDIA_TYPE_METRICS, headers={"Cache-Control": "no-store"})
