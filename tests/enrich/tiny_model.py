"""A model of a few numbers in a folder: each word has a vector, and a text the vectors of its words."""

import json
import struct
from pathlib import Path
from typing import Any

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "hay", "straw", "goat", "##s", "ask", ":")
VECTORS = tuple(tuple(float(n == word) + 0.25 * (n == 0) for n in range(len(WORDS))) for word in range(len(WORDS)))


def _field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return _number(number << 3) + _number(value)
    body = value.encode() if isinstance(value, str) else value
    return _number(number << 3 | 2) + _number(len(body)) + body


def _number(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _shaped(name: str, kind: int, *dims: int | str) -> bytes:
    shape = b"".join(_field(1, _field(1 if isinstance(dim, int) else 2, dim)) for dim in dims)
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, shape)))


def onnx_model(*, location: str | None = None, operator: str = "Gather") -> bytes:
    """A graph that looks up the vector of each token, in the notation of ONNX."""
    tensor = _field(1, len(VECTORS)) + _field(1, len(VECTORS[0])) + _field(2, 1) + _field(8, "vectors")
    if location is None:
        tensor += _field(9, b"".join(struct.pack(f"<{len(row)}f", *row) for row in VECTORS))
    else:
        tensor += _field(13, _field(1, "location") + _field(2, location)) + _field(14, 1)
    node = _field(1, "vectors") + _field(1, "input_ids") + _field(2, "last_hidden_state") + _field(4, operator)
    graph = _field(1, node) + _field(2, "tiny") + _field(5, tensor)
    graph += _field(11, _shaped("input_ids", 7, 1, "n"))
    graph += _field(12, _shaped("last_hidden_state", 1, 1, "n", len(VECTORS[0])))
    return _field(1, 8) + _field(8, _field(1, "") + _field(2, 13)) + _field(7, graph)


TOKENIZER: dict[str, Any] = {
    "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "lowercase": True},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": None,
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {word: n for n, word in enumerate(WORDS)}},
}


def write_model(folder: Path, **files: Any) -> Path:
    """The model with further files, by their names with `/` and `.` written as `__` and `_`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(onnx_model())
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    for name, told in files.items():
        write_json(folder, name, told)
    return folder


def write_json(folder: Path, name: str, told: Any) -> None:
    path = folder / (name.replace("__", "/") + ".json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(told if isinstance(told, str) else json.dumps(told))
