"""What a statement gives, in one call: one row, one value, all rows, or objects made of them."""

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString, TypeAlias, TypeVar

from psycopg import AsyncConnection
from psycopg.rows import TupleRow, class_row

Parameters: TypeAlias = Sequence[Any] | Mapping[str, Any] | None
Statement: TypeAlias = LiteralString | bytes
T = TypeVar("T")


async def one(c: AsyncConnection[TupleRow], statement: Statement, parameters: Parameters = None) -> TupleRow | None:
    """The first row; None if there is none."""
    return await (await c.execute(statement, parameters)).fetchone()


async def scalar(
    c: AsyncConnection[TupleRow], statement: Statement, parameters: Parameters = None, *, binary: bool = False
) -> Any:
    """The first value of the first row; None if there is none. `binary` is quicker for many bytes."""
    row = await (await c.execute(statement, parameters, binary=binary)).fetchone()
    return row[0] if row else None


async def all_rows(
    c: AsyncConnection[TupleRow], statement: Statement, parameters: Parameters = None, *, binary: bool = False
) -> list[TupleRow]:
    """All rows; `binary` is quicker for many numbers and bytes."""
    return await (await c.execute(statement, parameters, binary=binary)).fetchall()


async def first_of(
    c: AsyncConnection[TupleRow], kind: type[T], statement: Statement, parameters: Parameters = None
) -> T | None:
    """The first row as an object whose fields have the names of the columns; None if there is none."""
    return await (await c.cursor(row_factory=class_row(kind)).execute(statement, parameters)).fetchone()


async def list_of(
    c: AsyncConnection[TupleRow], kind: type[T], statement: Statement, parameters: Parameters = None
) -> list[T]:
    """All rows as objects whose fields have the names of the columns."""
    return await (await c.cursor(row_factory=class_row(kind)).execute(statement, parameters)).fetchall()
