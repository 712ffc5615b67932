import gzip
import zlib
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowen.errors import BadAnswerError, TruncatedError
from rowen.net import response
from rowen.net.response import ACCEPT_ENCODING, decoder

TEXT = b"the quick brown fox " * 20_000


def unpack(coding: str, pieces: Iterable[bytes]) -> bytes:
    unpacker = decoder(coding)
    assert unpacker is not None
    body = b"".join(piece for data in pieces for piece in unpacker.feed(data))
    unpacker.finish()
    return body


def pack_raw(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def bytewise(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        ("gzip", gzip.compress(TEXT, mtime=0)),
        ("x-gzip", gzip.compress(TEXT, mtime=0)),
        (" GZIP", gzip.compress(TEXT, mtime=0)),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", pack_raw(TEXT)),
        ("gzip", gzip.compress(TEXT[:100], mtime=0) + gzip.compress(TEXT[100:], mtime=0)),
        ("gzip", gzip.compress(TEXT, mtime=0) + b"\0" * 512),
    ],
)
def test_a_packed_body_comes_out_whole_however_it_was_cut(coding: str, packed: bytes):
    assert unpack(coding, [packed]) == TEXT
    assert unpack(coding, bytewise(packed)) == TEXT


@given(st.binary(max_size=300_000), st.integers(1, 5000))
def test_gzip_survives_any_body_and_any_cut(body: bytes, size: int):
    packed = gzip.compress(body, compresslevel=1)

    assert unpack("gzip", [packed[i : i + size] for i in range(0, len(packed), size)]) == body


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_packed_body_that_ends_early_is_noticed(coding: str):
    packed = gzip.compress(TEXT) if coding == "gzip" else zlib.compress(TEXT)

    with pytest.raises(TruncatedError):
        unpack(coding, [packed[:-9]])


def test_an_empty_body_is_empty_with_any_content_encoding():
    assert unpack("gzip", []) == b""


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_body_that_is_not_packed_as_said_is_refused(coding: str):
    with pytest.raises(BadAnswerError):
        unpack(coding, [b"<!doctype html>" * 10])


def test_an_unencoded_body_needs_no_decoder():
    assert decoder("identity") is None
    assert decoder("") is None


def test_a_coding_that_was_not_requested_is_refused():
    with pytest.raises(BadAnswerError, match="compress"):
        decoder("compress")
    with pytest.raises(BadAnswerError):
        decoder("gzip, gzip")


def test_no_piece_of_a_bomb_is_larger_than_64_kb():
    bomb = zlib.compressobj(9, wbits=31)
    packed = b"".join(bomb.compress(bytes(1 << 20)) for _ in range(16)) + bomb.flush()

    unpacker = decoder("gzip")

    assert unpacker is not None
    sizes = [len(piece) for piece in unpacker.feed(packed)]
    assert (max(sizes), sum(sizes)) == (1 << 16, 16 << 20)


def test_a_body_of_countless_tiny_parts_is_refused():
    with pytest.raises(BadAnswerError, match="1000 parts"):
        unpack("gzip", [gzip.compress(b"") * 1200])


def test_every_requested_coding_can_be_decoded():
    assert ACCEPT_ENCODING.startswith("gzip")
    for coding in ACCEPT_ENCODING.split(", "):
        assert decoder(coding) is not None


@pytest.mark.skipif("br" not in ACCEPT_ENCODING, reason="no brotli decoder is installed")
def test_brotli_is_unpacked_in_bounded_pieces():
    packed = response._brotli.compress(TEXT)

    assert unpack("br", [packed]) == unpack("br", bytewise(packed)) == TEXT
    assert max(len(piece) for piece in decoder("br").feed(response._brotli.compress(bytes(8 << 20)))) <= 1 << 17
    with pytest.raises(TruncatedError):
        unpack("br", [packed[:-5]])
    with pytest.raises(BadAnswerError):
        unpack("br", [b"<!doctype html>" * 10])


@pytest.mark.skipif("zstd" not in ACCEPT_ENCODING, reason="no zstd decoder is installed")
def test_zstd_is_unpacked_in_bounded_pieces():
    packed = response._zstd.compress(TEXT[:9]) + response._zstd.compress(TEXT[9:])

    assert unpack("zstd", [packed]) == unpack("zstd", bytewise(packed)) == TEXT
    assert max(len(piece) for piece in decoder("zstd").feed(response._zstd.compress(bytes(8 << 20)))) <= 1 << 16
    with pytest.raises(TruncatedError):
        unpack("zstd", [packed[:-5]])
    with pytest.raises(BadAnswerError):
        unpack("zstd", [b"<!doctype html>" * 10])
