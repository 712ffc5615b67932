"""Where the processes of a database agree on how often they ask a host: the tables `host_pace` and `host_slot`.

The rules are functions of the database (migration `0024_late_starts`), so that a question is one statement, answered
under the lock of one row and by one clock.
"""

from collections.abc import Sequence
from secrets import randbits

from rowen.net.shared_pace import LEASE_S, HostAnswer, HostNews, HostReport
from rowen.store.database import Connection, Database
from rowen.store.rows import all_rows, one

__all__ = ["HostSlotTable", "forget_idle"]

# Who waits for its start asks for it so much earlier, and waits for the rest by itself: a task wakes up milliseconds
# late, and a statement takes one. A part of the gap, since the last ones to start were as exact as that.
_LEAD_S = 0.02
_LEAD_SHARE = 0.2
# How often the first of those that wait asks again; the others in proportion to their rank, so that a hundred ask some
# 250 times a second in all. A quarter of the gap is soon enough to miss no start.
_POLL_S = 0.02
_POLL_SHARE = 0.25
_LONGEST_POLL_S = 0.5
# One that is alone tells once a second how far it is, and hears of others then.
_ALONE_POLL_S = 0.25
# A host that nobody asked for an hour has no pace left to keep: the longest wait that a host may ask for is shorter.
_IDLE_S = 3600.0


class HostSlotTable:
    """The slots of one database, for one process; implements `fetch.shared_pace.HostSlots`."""

    def __init__(self, database: Database, *, lease_s: float = LEASE_S) -> None:
        self.lease_s = lease_s
        self._database = database
        self._holder = randbits(62)

    async def take(self, host: str, *, active: int, more: bool, most: int, gap_s: float) -> HostAnswer:
        """Ask to start a request."""
        poll_s = min(max(_POLL_S, _POLL_SHARE * gap_s), _LONGEST_POLL_S)
        lead_s = min(_LEAD_S, _LEAD_SHARE * gap_s)
        values = [host, self._holder, active, more, most, gap_s, self.lease_s, lead_s, poll_s, _ALONE_POLL_S]
        async with self._database.connection() as c:
            row = await one(c, "select * from host_take(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)", values)
        assert row is not None  # noqa: S101 (a function gives a row)
        return HostAnswer(*row)

    async def sent(self, host: str) -> None:
        """Tell that a request has left."""
        async with self._database.connection() as c:
            await c.execute("select host_sent(%s, %s)", [host, self._holder])

    async def tell(self, reports: Sequence[HostReport]) -> list[HostNews]:
        """Tell how far this process is at some hosts, and hear of others there."""
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
    """Forget hosts that nobody has asked for long, and places of the dead."""
    await c.execute("delete from host_slot where lease_until < now() - make_interval(secs => %s)", [_IDLE_S])
    await c.execute(
        "delete from host_pace where greatest(last_start, free_at) < now() - make_interval(secs => %s)"
        " and not exists (select from host_slot where host_slot.host = host_pace.host)",
        [_IDLE_S],
    )
