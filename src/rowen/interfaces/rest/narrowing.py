"""Filters of a search and of a list of items, as a route takes them."""

from typing import Annotated, Any

from fastapi import Depends, Query

from rowen.interfaces.rest.times import moment_of
from rowen.model.datasets import RECORD_KINDS

__all__ = ["Narrowed"]


async def _narrowing(
    kind: Annotated[tuple[str, ...], Query(description="only in sources of these kinds")] = (),
    tag: Annotated[tuple[str, ...], Query(description="only items with one of these tags")] = (),
    language: Annotated[tuple[str, ...], Query(description="only items in these languages: `de`, `pt-BR`")] = (),
    record_kind: Annotated[
        tuple[str, ...], Query(description=f"only records of catalogs that describe one of: {', '.join(RECORD_KINDS)}")
    ] = (),
    publisher: Annotated[str | None, Query(description="only datasets whose publisher's name has this in it")] = None,
    since: Annotated[str | None, Query(description="modified since a date, or in the last `2h`, `1d`, `4w`")] = None,
    until: Annotated[str | None, Query(description="not modified after a date")] = None,
    path: Annotated[str | None, Query(description="only below this URL, or this path on any host")] = None,
    where: Annotated[tuple[str, ...], Query(description="only items whose facts satisfy this: `price<100`")] = (),
) -> dict[str, Any]:
    return {
        "kinds": kind,
        "tags": tag,
        "languages": language,
        "record_kinds": record_kind,
        "publisher": publisher,
        "since": moment_of(since),
        "until": moment_of(until),
        "path": path,
        "where": where,
    }


Narrowed = Annotated[dict[str, Any], Depends(_narrowing)]
