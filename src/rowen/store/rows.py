"""Run a statement in one call; return one row, one value, all rows, or objects made from them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, LiteralString, TypeAlias, TypeVar

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row

Parameters: TypeAlias = Sequence[Any] | Mapping[str, Any] | None
Statement: TypeAlias = LiteralString | bytes
T = TypeVar("T")


async def one(c: AsyncConnection[TupleRow], statement: Statement, parameters: Parameters = None) -> TupleRow | None:
    """Return the first row; None if there is none."""
    return await (await c.execute(statement, parameters)).fetchone()


async def only(c: AsyncConnection[TupleRow], statement: Statement, parameters: Parameters = None) -> TupleRow:
    """Return the first row of a statement that always returns one."""
    row = await one(c, statement, parameters)
    assert row is not None  # noqa: S101 (says the caller)
    return row


async def scalar(
    c: AsyncConnection[TupleRow], statement: Statement, parameters: Parameters = None, *, binary: bool = False
) -> Any:
    """Return the first value of the first row; None if there is none. `binary` is faster for many bytes."""
    row = await (await c.execute(statement, parameters, binary=binary)).fetchone()
    return row[0] if row else None


async def number(c: AsyncConnection[TupleRow], statement: Statement, parameters: Parameters = None) -> int:
    """Return the first value of the first row as a number; 0 if there is none."""
    return int(await scalar(c, statement, parameters) or 0)


async def all_rows(
    c: AsyncConnection[TupleRow], statement: Statement, parameters: Parameters = None, *, binary: bool = False
) -> list[TupleRow]:
    """Return all rows; `binary` is faster for many numbers and bytes."""
    return await (await c.execute(statement, parameters, binary=binary)).fetchall()


async def column(
    c: AsyncConnection[TupleRow], statement: Statement, parameters: Parameters = None, *, binary: bool = False
) -> list[Any]:
    """Return the first value of each row."""
    return [row[0] for row in await all_rows(c, statement, parameters, binary=binary)]


async def affected(c: AsyncConnection[TupleRow], statement: Statement, parameters: Parameters = None) -> int:
    """Run a statement; return how many rows it inserted, updated or deleted."""
    return (await c.execute(statement, parameters)).rowcount


async def first_of(
    c: AsyncConnection[TupleRow], kind: type[T], statement: Statement, parameters: Parameters = None
) -> T | None:
    """Return the first row as an object whose fields are named like the columns; None if there is none."""
    return await (await c.cursor(row_factory=class_row(kind)).execute(statement, parameters)).fetchone()


async def list_of(
    c: AsyncConnection[TupleRow], kind: type[T], statement: Statement, parameters: Parameters = None
) -> list[T]:
    """Return all rows as objects whose fields are named like the columns."""
    return await (await c.cursor(row_factory=class_row(kind)).execute(statement, parameters)).fetchall()


async def tuples_of(
    c: AsyncConnection[TupleRow],
    kind: Callable[..., T],
    statement: Statement,
    parameters: Parameters = None,
    *,
    binary: bool = False,
) -> list[T]:
    """Return all rows as named tuples whose fields are in the order of the columns."""
    return [kind(*row) for row in await all_rows(c, statement, parameters, binary=binary)]
