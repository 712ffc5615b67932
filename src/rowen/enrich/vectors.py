"""Validate an embedder's vectors, and convert them to the stored form.

Vectors are stored as unit vectors in half precision: only their directions are compared, and no component is out of
range.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rowen.errors import BadVectorsError, Hint, action

LARGEST = 4000
"""The maximum number of dimensions that an index in half precision supports."""

_ASK_DOCTOR = Hint(
    "The texts keep waiting. ", action("doctor"), " asks the embedder for one vector and says what is wrong."
)


def units(
    vectors: Sequence[Any], *, name: str, count: int, dimensions: int | None, parts: Sequence[int] | None = None
) -> npt.NDArray[np.float32]:
    """Return the vectors of one answer as unit vectors: one for each text, or the number in `parts`.

    Raise `BadVectorsError` if a vector is unusable or the number of vectors is wrong.
    """
    if parts is not None and (len(parts) != count or min(parts, default=1) < 1):
        raise _bad(name, f"gave vectors for {sum(part > 0 for part in parts)} of {count} texts")
    if len(vectors) != (count if parts is None else sum(parts)):
        raise _bad(name, f"gave {len(vectors)} vectors for {count} texts")
    try:
        lengths = sorted({len(vector) for vector in vectors})
    except TypeError:
        raise _bad(name, "gave something that is no vector") from None
    if dimensions is None and len(lengths) == 1:
        dimensions = lengths[0]
    if lengths != [dimensions]:
        different = f"gave vectors of {', '.join(map(str, lengths))} dimensions"
        again = action("embed", model="…")
        hint = Hint("The model behind the name has changed: ", again, " makes vectors of another one beside these.")
        raise _bad(name, different + (f" where {dimensions} are stored" if dimensions else ""), hint)
    if not 1 <= lengths[0] <= LARGEST:
        raise _bad(
            name,
            f"gave vectors of {lengths[0]} dimensions; at most {LARGEST:,} can be indexed",
            "Ask for fewer with ROWEN_EMBEDDER_DIMENSIONS, or choose another model.",
        )
    try:
        matrix = np.asarray(vectors, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise _bad(name, "gave vectors that are not made of numbers") from None
    if not np.isfinite(matrix).all():
        raise _bad(name, "gave a vector with a number that is not finite")
    largest = np.abs(matrix).max(axis=1, keepdims=True)
    if not largest.all():
        raise _bad(name, "gave a vector of zeros")
    matrix /= largest
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    return matrix.astype(np.float32)


def packed(vectors: npt.NDArray[np.float32]) -> list[bytes]:
    """Return vectors as bytes, in half precision and network byte order."""
    return [row.tobytes() for row in vectors.astype(">f2")]


def _bad(name: str, what: str, hint: str | None = None) -> BadVectorsError:
    return BadVectorsError(f"The embedder {name} {what}; nothing of this answer was stored.", hint=hint or _ASK_DOCTOR)


def written(vector: bytes) -> str:
    """Return a stored vector in the text notation of pgvector."""
    return "[" + ",".join(f"{number:.5g}" for number in np.frombuffer(vector, ">f2").tolist()) + "]"
