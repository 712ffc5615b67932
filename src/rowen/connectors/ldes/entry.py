"""From the address of a stream, a view or a page to the root page and the description of its stream."""

import asyncio
import logging
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rowen.connectors.base import Tools
from rowen.connectors.ldes.client import StreamClient, body_of
from rowen.connectors.ldes.options import WITHOUT_SHAPE, LdesOptions
from rowen.connectors.ldes.page import StreamBody, StreamEntry, read_description, read_entry, read_shape
from rowen.connectors.ldes.shapes import Topology
from rowen.connectors.ldes.stream import EventStream
from rowen.connectors.opening import read_regular
from rowen.errors import FetchError, ItemError, SourceError, SourceGoneError
from rowen.net.response import Response
from rowen.net.target import redact

__all__ = ["Entered", "enter", "shape_in_file"]

_SHAPE_BYTES = 4 << 20  # that of a whole application profile has 300 kB
_MOST_STEPS = 3  # from a stream to its view, and from there to the page that it names; more lead in a circle

log = logging.getLogger(__name__)


class Entered(NamedTuple):
    """Where a stream begins, and the answer of that page, which need not be asked for again."""

    root: str
    stream: EventStream
    response: Response


async def enter(
    url: str, options: LdesOptions, tools: Tools, client: StreamClient, *, shape: Topology | None = None
) -> Entered:
    """LDES, section 4.1: find the root. A `shape` that is given is used instead of any other."""
    asked, stream = url, EventStream()
    for _ in range(_MOST_STEPS):
        response = await client.get(asked)
        _check(response, asked)
        given = body_of(response)
        contexts = await client.with_contexts(given)
        found: StreamEntry = await tools.parse(read_entry, given, asked, contexts)
        stream = _joined(stream, found.stream)
        if found.view is None:
            stream = await _described(stream, response.url, tools, client)
            given_shape = replace(stream, shape=shape) if shape else None
            return Entered(asked, given_shape or await _shaped(stream, options, tools, client), response)
        asked = found.view
    raise SourceError(f"{redact(url)} leads from view to view, and to no page.")


def _check(response: Response, url: str) -> None:
    if response.ok:
        return
    kind = SourceGoneError if response.status in (404, 410) else SourceError
    raise kind(
        f"{redact(url)} answered with status {response.status}.",
        hint="If it wants a key, name where that is found in the option headers."
        if response.status in (401, 403)
        else None,
    )


def _joined(one: EventStream, other: EventStream) -> EventStream:
    """Two descriptions of a stream: what the first does not say, the second may."""
    default = EventStream()
    names = [name for name in EventStream.__slots__ if getattr(one, name) == getattr(default, name)]
    return replace(one, **{name: getattr(other, name) for name in names})


async def _described(stream: EventStream, root: str, tools: Tools, client: StreamClient) -> EventStream:
    """The same with what the stream's own document says, where the page says nothing."""
    if stream.name is None or stream.time or stream.version_of or not stream.name.startswith("http"):
        return stream
    own = stream.name.partition("#")[0]
    if own == root.partition("#")[0]:
        return stream
    try:
        given = await client.document(own)
        contexts = await client.with_contexts(given)
        return _joined(stream, await tools.parse(read_description, given, stream.name, root, contexts))
    except (FetchError, SourceError) as problem:
        log.warning("read %s without the description of its stream: %s", redact(root), problem)
        return stream


async def shape_in_file(options: LdesOptions, tools: Tools, client: StreamClient) -> Topology | None:
    """The shape that the user names as a file of this machine; None where none is named."""
    path = options.shape_file
    if path is None:
        return None
    try:
        body = await asyncio.to_thread(_content, path)
    except (OSError, ValueError) as problem:
        why = (problem.strerror if isinstance(problem, OSError) else None) or problem
        raise _unread(path, f"{why}.") from None
    given = StreamBody(body, path.as_uri(), None, None)
    try:
        return await tools.parse(read_shape, given, given.url, await client.with_contexts(given))
    except FetchError as problem:
        raise _unread(path, str(problem)) from None
    except (SourceError, ItemError, ValueError):
        # What a parser says may quote the file, and the error of a run is shown to whoever may read.
        raise _unread(path, "it holds no SHACL shape that can be read.") from None


def _unread(path: Path, why: str) -> SourceError:
    return SourceError(
        f"The shape in {path} cannot be read: {why} Nothing was asked for.",
        hint="Correct the option shape, or leave it out.",
    )


def _content(path: Path) -> bytes:
    body = read_regular(path, limit_bytes=_SHAPE_BYTES + 1)
    if len(body) > _SHAPE_BYTES:
        raise ValueError(f"it has more than {_SHAPE_BYTES:,} bytes")
    return body


async def _shaped(stream: EventStream, options: LdesOptions, tools: Tools, client: StreamClient) -> EventStream:
    """The same with its shape. One that the user names has to be there; that of the feed may be missing."""
    if options.shape == WITHOUT_SHAPE:
        return replace(stream, shape=None)
    url = options.shape or stream.shape_url
    if url is None:
        return stream
    try:
        given = await client.document(url.partition("#")[0])
        shape = await tools.parse(read_shape, given, url, await client.with_contexts(given))
    except (FetchError, SourceError) as problem:
        if options.shape:
            raise SourceError(
                f"The shape {redact(url)} cannot be read: {problem} Nothing was harvested.",
                hint="Correct the option shape, or leave it out.",
            ) from problem
        log.warning("read a stream without its shape: %s", problem)
        return stream
    return replace(stream, shape=shape)
