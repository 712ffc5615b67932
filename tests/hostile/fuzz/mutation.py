"""Small inputs become hostile ones: the same input for the same name and number, on every machine."""

import io
import random
import zipfile
from collections.abc import Callable, Sequence

__all__ = ["MOST_BYTES", "mutated"]

MOST_BYTES = 64 * 1024
"""Large enough that what grows with the square of its input takes seconds, small enough for many inputs a second."""

_ANYWHERE = (
    *(b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"\xe2\x80\xa8", b"\r", b"\n\n\n"),
    *(b" " * 40, b"\t", b"a" * 300, b"\\", b"'", b'"', b"<", b">", b"&", b"(", b"[", b"{", b"%00", b"../", b"\x1b[31m"),
    *(b"-1", b"0", b"999999999999999999999", b"1e999", b"NaN", b"9999-12-31", b"2026-02-30T25:61:61Z"),
)
_MOST_STEPS = 6


def mutated(name: str, number: int, seeds: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    """The input of this number for a target: one of its seeds, changed a few times."""
    chance = random.Random(f"{name}:{number}")
    seed = chance.choice(seeds)
    if zipfile.is_zipfile(io.BytesIO(seed)) and chance.random() < 0.85:
        return _repacked(seed, chance, seeds, tokens)
    return _changed(seed, chance, seeds, tokens)


def _changed(data: bytes, chance: random.Random, seeds: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    words = [*tokens, *_ANYWHERE, *tokens]
    for _ in range(chance.randint(1, _MOST_STEPS)):
        data = chance.choice(_STEPS)(data, chance, words, seeds)[:MOST_BYTES]
    return data


def _repacked(seed: bytes, chance: random.Random, seeds: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    """An archive with one or two of its members changed: changed bytes of the archive itself rarely get far."""
    with zipfile.ZipFile(io.BytesIO(seed)) as archive:
        members = {each: archive.read(each) for each in archive.namelist()}
    inner = [content for content in members.values() if content]
    for name in chance.choices(list(members), k=chance.randint(1, 2)):
        members[name] = _changed(members[name], chance, inner or seeds, tokens)
    if chance.random() < 0.05:
        del members[chance.choice(list(members))]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


Step = Callable[[bytes, random.Random, Sequence[bytes], Sequence[bytes]], bytes]


def _span(data: bytes, chance: random.Random) -> tuple[int, int]:
    begin = chance.randint(0, len(data))
    return begin, min(len(data), begin + chance.choice((1, 2, 4, 8, 16, 64, 256, 4096)))


def _put(data: bytes, chance: random.Random, piece: bytes) -> bytes:
    at = chance.randint(0, len(data))
    return data[:at] + piece + data[at:]


def _times(chance: random.Random, size: int) -> int:
    return min(chance.choice((2, 3, 10, 100, 1000, 30_000)), max(1, MOST_BYTES // max(1, size)))


def _flip(data: bytes, chance: random.Random, *_: object) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(chance.randint(1, 8)):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _delete(data: bytes, chance: random.Random, *_: object) -> bytes:
    begin, end = _span(data, chance)
    return data[:begin] + data[end:]


def _truncate(data: bytes, chance: random.Random, *_: object) -> bytes:
    return data[: chance.randint(0, len(data))]


def _repeat(data: bytes, chance: random.Random, *_: object) -> bytes:
    begin, end = _span(data, chance)
    return data[:begin] + data[begin:end] * _times(chance, end - begin) + data[end:]


def _swap(data: bytes, chance: random.Random, *_: object) -> bytes:
    (a, b), (c, d) = sorted((_span(data, chance), _span(data, chance)))
    c, d = max(b, c), max(b, d)
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def _splice(data: bytes, chance: random.Random, _: Sequence[bytes], seeds: Sequence[bytes]) -> bytes:
    other = chance.choice(seeds)
    begin, end = _span(other, chance)
    return _put(data, chance, other[begin : max(end, chance.randint(begin, len(other)))])


def _insert(data: bytes, chance: random.Random, words: Sequence[bytes], _: Sequence[bytes]) -> bytes:
    return _put(data, chance, b"".join(chance.choices(words, k=chance.randint(1, 3))))


def _pile(data: bytes, chance: random.Random, words: Sequence[bytes], _: Sequence[bytes]) -> bytes:
    """Many of the same: what opens and never closes is how patterns and parsers become slow."""
    piece = b"".join(chance.choices(words, k=chance.randint(1, 2)))
    return _put(data, chance, piece * _times(chance, len(piece)))


def _nest(data: bytes, chance: random.Random, words: Sequence[bytes], _: Sequence[bytes]) -> bytes:
    before, after = chance.choice(words), chance.choice(words)
    begin, end = _span(data, chance)
    times = _times(chance, len(before) + len(after))
    return data[:begin] + before * times + data[begin:end] + after * times + data[end:]


_STEPS: tuple[Step, ...] = (_flip, _delete, _truncate, _repeat, _swap, _splice, _insert, _insert, _pile, _nest)
