"""Circuits that are not closed, of all processes; a closed one has no row."""

from collections.abc import Mapping

from rowen.model.circuit import CircuitKind, CircuitStatus
from rowen.store.database import Connection
from rowen.store.rows import all_rows, list_of

__all__ = ["CircuitKey", "beat", "every", "leave", "put", "remove", "reset"]

CircuitKey = tuple[CircuitKind, str]


async def put(
    c: Connection,
    process: str,
    key: CircuitKey,
    *,
    place: str,
    failures: int,
    times_opened: int,
    open_for_s: float,
    retry_in_s: float,
    lease_s: float,
) -> None:
    """Write down that a circuit has opened, or opened again; forget those of processes that died."""
    await c.execute("delete from circuit where expires_at < now() and process <> %s", [process])
    await c.execute(
        """
        insert into circuit (process, kind, name, place, failures, times_opened, opened_at, probe_at, expires_at)
        values (%(process)s, %(kind)s, %(name)s, %(place)s, %(failures)s, %(times)s,
                now() - make_interval(secs => %(open)s), now() + make_interval(secs => %(retry)s),
                now() + make_interval(secs => %(lease)s))
        on conflict (process, kind, name) do update
           set failures = excluded.failures, times_opened = excluded.times_opened, opened_at = excluded.opened_at,
               probe_at = excluded.probe_at, expires_at = excluded.expires_at
        """,
        {
            "process": process,
            "kind": key[0],
            "name": key[1],
            "place": place,
            "failures": failures,
            "times": times_opened,
            "open": open_for_s,
            "retry": retry_in_s,
            "lease": lease_s,
        },
    )


async def remove(c: Connection, process: str, key: CircuitKey) -> None:
    """Write down that a circuit has closed."""
    await c.execute("delete from circuit where process = %s and kind = %s and name = %s", [process, *key])


async def beat(c: Connection, process: str, *, lease_s: float) -> Mapping[CircuitKey, int]:
    """Say that a process lives; returns its circuits, with how often somebody wanted each to be reset."""
    rows = await all_rows(
        c,
        "update circuit set expires_at = now() + make_interval(secs => %s) where process = %s"
        " returning kind, name, resets",
        [lease_s, process],
    )
    return {(kind, name): resets for kind, name, resets in rows}


async def leave(c: Connection, process: str) -> None:
    """Forget the circuits of a process that ends."""
    await c.execute("delete from circuit where process = %s", [process])


async def every(c: Connection) -> list[CircuitStatus]:
    """All circuits that are not closed; the time decides which of them may be probed."""
    return await list_of(
        c,
        CircuitStatus,
        """
        select kind, name, case when probe_at > now() then 'open' else 'half-open' end as state, failures,
               times_opened, opened_at, probe_at, place as process
          from circuit where expires_at > now() order by kind, name, place
        """,
    )


async def reset(c: Connection, name: str | None = None) -> None:
    """Want a circuit to be closed in all processes, or every circuit; each process sees it with its next beat."""
    await c.execute(
        "update circuit set resets = resets + 1 where %(name)s::text is null or name = %(name)s", {"name": name}
    )
