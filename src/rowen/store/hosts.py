"""Store request slots of hosts and open circuits, which all processes share.

The rules of the slots are functions of the database (migration `0024_late_starts`), so that a request for a slot is
one statement, answered under the lock of one row and by one clock.
"""

from collections.abc import Mapping, Sequence
from secrets import randbits

from rowen.model.status import CircuitKind, CircuitStatus
from rowen.net.shared_pace import LEASE_S, HostAnswer, HostNews, HostReport
from rowen.store.database import Connection, Database
from rowen.store.rows import all_rows, list_of, only

# A waiting request is granted its start this much earlier, and sleeps for the rest: a task wakes up milliseconds late,
# and a statement takes a millisecond. The lead is only a share of the gap, since earlier starts were as inexact.
_LEAD_S = 0.02
_LEAD_SHARE = 0.2
# The poll interval of the first waiting request. The interval of the others grows with their rank, so that a hundred
# requests poll some 250 times a second in all. A quarter of the gap is short enough to miss no start.
_POLL_S = 0.02
_POLL_SHARE = 0.25
_LONGEST_POLL_S = 0.5
# The poll interval of a process that is alone; it reports its state once a second.
_ALONE_POLL_S = 0.25
# Hosts without requests for an hour are deleted: the longest delay that a host may demand is shorter.
_IDLE_S = 3600.0


class HostSlotTable:
    """The request slots of one database, for one process; implements `net.shared_pace.HostSlots`."""

    def __init__(self, database: Database, *, lease_s: float = LEASE_S) -> None:
        self.lease_s = lease_s
        self._database = database
        self._holder = randbits(62)

    async def take(self, host: str, *, active: int, more: bool, most: int, gap_s: float) -> HostAnswer:
        """Ask for a slot to start a request to a host."""
        poll_s = min(max(_POLL_S, _POLL_SHARE * gap_s), _LONGEST_POLL_S)
        lead_s = min(_LEAD_S, _LEAD_SHARE * gap_s)
        values = [host, self._holder, active, more, most, gap_s, self.lease_s, lead_s, poll_s, _ALONE_POLL_S]
        async with self._database.connection() as c:
            return HostAnswer(*await only(c, "select * from host_take(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)", values))

    async def sent(self, host: str) -> None:
        """Report that a request was sent."""
        async with self._database.connection() as c:
            await c.execute("select host_sent(%s, %s)", [host, self._holder])

    async def tell(self, reports: Sequence[HostReport]) -> list[HostNews]:
        """Report this process's state at some hosts; return the state of other processes there."""
        hosts, actives, frees, leaves = (list(column) for column in zip(*reports, strict=True))
        async with self._database.connection() as c:
            if all(leaves):
                await forget_idle(c)
            rows = await all_rows(
                c,
                "select * from host_tell(%s, %s::text[], %s::integer[], %s::float8[], %s::boolean[], %s)",
                [self._holder, hosts, actives, frees, leaves, self.lease_s],
            )
        return [HostNews(*row) for row in rows]


async def forget_idle(c: Connection) -> None:
    """Delete hosts without recent requests, and slots of dead processes."""
    await c.execute("delete from host_slot where lease_until < now() - make_interval(secs => %s)", [_IDLE_S])
    statement = """
        delete from host_pace where greatest(last_start, free_at) < now() - make_interval(secs => %s)
           and not exists (select from host_slot where host_slot.host = host_pace.host)
    """
    await c.execute(statement, [_IDLE_S])


CircuitKey = tuple[CircuitKind, str]


async def store_circuit(
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
    """Store that a circuit opened, or opened again; delete circuits of dead processes."""
    await c.execute("delete from circuit where expires_at < now() and process <> %s", [process])
    statement = """
        insert into circuit (process, kind, name, place, failures, times_opened, opened_at, probe_at, expires_at)
        values (%s, %s, %s, %s, %s, %s, now() - make_interval(secs => %s), now() + make_interval(secs => %s),
                now() + make_interval(secs => %s))
        on conflict (process, kind, name) do update
           set failures = excluded.failures, times_opened = excluded.times_opened, opened_at = excluded.opened_at,
               probe_at = excluded.probe_at, expires_at = excluded.expires_at
    """
    await c.execute(statement, [process, *key, place, failures, times_opened, open_for_s, retry_in_s, lease_s])


async def remove_circuit(c: Connection, process: str, key: CircuitKey) -> None:
    """Delete a circuit that has closed."""
    await c.execute("delete from circuit where process = %s and kind = %s and name = %s", [process, *key])


async def renew_circuits(c: Connection, process: str, *, lease_s: float) -> Mapping[CircuitKey, int]:
    """Renew the lease of a process on its circuits; return how often a reset of each circuit was requested."""
    statement = """
        update circuit set expires_at = now() + make_interval(secs => %s) where process = %s
        returning kind, name, resets
    """
    rows = await all_rows(c, statement, [lease_s, process])
    return {(kind, name): resets for kind, name, resets in rows}


async def remove_circuits_of(c: Connection, process: str) -> None:
    """Delete the circuits of a process that is ending."""
    await c.execute("delete from circuit where process = %s", [process])


async def circuits(c: Connection) -> list[CircuitStatus]:
    """Return all circuits that are not closed; a circuit whose probe is due counts as half-open."""
    query = """
        select kind, name, case when probe_at > now() then 'open' else 'half-open' end as state, failures,
               times_opened, opened_at, probe_at, place as process
          from circuit where expires_at > now() order by kind, name, place
    """
    return await list_of(c, CircuitStatus, query)


async def reset_circuits(c: Connection, name: str | None = None) -> None:
    """Ask all processes to close the circuit `name`, or all circuits if it is None, at their next renewal."""
    await c.execute(
        "update circuit set resets = resets + 1 where %(name)s::text is null or name = %(name)s", {"name": name}
    )
