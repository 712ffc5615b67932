"""A sentence model in a folder: weights in ONNX, tokenizer, and what such folders declare about how to use it.

Nothing in it is run but the graph: JSON and text are read within bounds, ONNX by its runtime without further operators,
and data outside of the file only from inside of the folder.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path, PurePosixPath
from typing import Any

from rowen.enrich.tokenizers import Spelling, spelling_of, spelling_of_vocabulary
from rowen.errors import ConfigurationError, Hint, action

MANIFEST = "rowen-model.json"
"""In the folder of a model that was fetched: its name, where it came from, and the SHA-256 of each file."""


# The tokenizers of a hundred languages have 17 MB.
LARGEST_JSON = 64 << 20
# Twice the largest model that a processor without a graphics card reads in bearable time.
LARGEST_WEIGHTS = 4 << 30
# A longer window costs the square of its length, and passages have 1,500 characters.
_MOST_TOKENS = 512
WEIGHTS = ("model_quantized.onnx", "model_int8.onnx", "model.onnx")
_POOLINGS = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
}
# How protobuf writes the key of a string entry that says where data of a tensor lies.
_LOCATION = b"\x0a\x08location"


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """What a folder declares: pooling, prefixes of questions and passages, and how many tokens are read at a time.

    `digest` is over all of it: what gives other vectors has another one.
    """

    folder: Path
    weights: Path
    tokenizer: Path
    pooling: str
    question: str
    passage: str
    tokens: int
    digest: str

    def spelling(self) -> Spelling:
        """Return the tokenizer; large vocabularies take a second to read."""
        if self.tokenizer.suffix == ".json":
            return spelling_of(_json(self.folder, self.tokenizer), self.tokenizer.name)
        lowercase = bool(_json(self.folder, self.folder / "tokenizer_config.json").get("do_lower_case", True))
        return spelling_of_vocabulary(self.tokenizer.read_text("utf-8", "replace"), lowercase=lowercase)


def read_folder(folder: Path) -> ModelFolder:
    """Return the model in a folder; raise where something is missing, too large or not known here."""
    if not folder.is_dir():
        raise _unfit(folder, "is no folder")
    _check_manifest(folder)
    weights, tokenizer = _weights(folder), _tokenizer(folder)
    pooling, prompts, tokens = _pooling(folder), _prompts(folder), _tokens(folder)
    digest = hashlib.sha256(json.dumps([pooling, prompts, tokens]).encode())
    with weights.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as model:
        beside = _data_beside(folder, weights, model)
        digest.update(model)
    for path in (*beside, tokenizer):
        with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            digest.update(data)
    return ModelFolder(folder, weights, tokenizer, pooling, *prompts, tokens, digest.hexdigest()[:12])


def data_names(weights: Path) -> list[str]:
    """Return the names of files that hold weights beside a graph, as the graph tells them."""
    if weights.stat().st_size == 0:
        return []
    with weights.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as model:
        return sorted(set(_locations(model)))


def pooling_file(folder: Path) -> str:
    """Return where in a folder its pooling is declared."""
    path = PurePosixPath(_modules(folder).get("Pooling", "1_Pooling"), "config.json")
    if path.is_absolute() or ".." in path.parts:
        raise _unfit(folder, f"has its pooling in {str(path)!r}, which is not in it")
    return str(path)


def _check_manifest(folder: Path) -> None:
    """Refuse a model whose files are not those that were fetched."""
    if not (folder / MANIFEST).is_file():
        return
    told = _json(folder, folder / MANIFEST)
    fetched = told.get("files")
    if not isinstance(fetched, Mapping):
        raise _unfit(folder, f"has a {MANIFEST} of another shape than agreed")
    present = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    for name in sorted((fetched.keys() | present.keys()) - {MANIFEST}):
        if name not in present:
            raise _changed(folder, f"lacks {name}, which was fetched", told)
        if name not in fetched:
            raise _changed(folder, f"has a {name} that was not fetched", told)
        if _sha256(present[name]) != fetched[name]:
            raise _changed(folder, f"has another {name} than was fetched", told)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _changed(folder: Path, why: str, manifest: Mapping[str, Any]) -> ConfigurationError:
    hint = Hint(
        action("embed", fetch=str(manifest.get("name", folder.name))),
        f" fetches it again. To use a changed model, copy it without {MANIFEST}, and name its folder.",
    )
    return ConfigurationError(f"The model folder {folder} {why}.", hint=hint)


def _weights(folder: Path) -> Path:
    for place in (folder, folder / "onnx"):
        if found := next((place / name for name in WEIGHTS if (place / name).is_file()), None):
            return _within(folder, found, LARGEST_WEIGHTS)
    found_here = sorted({*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx")})
    if len(found_here) != 1:
        names = ", ".join(path.name for path in found_here) or "none"
        raise _unfit(folder, f"has no model.onnx, and not one other ONNX file ({names})")
    return _within(folder, found_here[0], LARGEST_WEIGHTS)


def _tokenizer(folder: Path) -> Path:
    files = (folder / "tokenizer.json", *sorted(folder.glob("*tokenizer.json")), folder / "vocab.txt")
    found = next((path for path in files if path.is_file()), None)
    if found is None:
        raise _unfit(folder, "has neither tokenizer.json nor vocab.txt")
    return _within(folder, found, LARGEST_JSON)


def _pooling(folder: Path) -> str:
    """Return how the vectors of tokens are pooled, by `modules.json` and its modules; their mean without them."""
    told = _json(folder, folder / pooling_file(folder))
    chosen = [name for name, value in told.items() if name.startswith("pooling_mode_") and value is True]
    if not chosen:
        return "mean"
    if len(chosen) > 1 or chosen[0] not in _POOLINGS:
        raise _unfit(folder, f"asks for {' and '.join(chosen)}, which is not known here")
    return _POOLINGS[chosen[0]]


def _modules(folder: Path) -> dict[str, str]:
    """Return the modules that a text passes, and where each is declared."""
    modules = _json(folder, folder / "modules.json", default=[])
    kinds = {str(module.get("type", "")).rpartition(".")[2]: str(module.get("path", "")) for module in modules}
    if unknown := kinds.keys() - {"Transformer", "Pooling", "Normalize"}:
        raise _unfit(folder, f"has a module {', '.join(sorted(unknown))}, which is not known here")
    return kinds


def _prompts(folder: Path) -> tuple[str, str]:
    """Return the prefixes of questions and passages."""
    prompts = _json(folder, folder / "config_sentence_transformers.json").get("prompts") or {}
    question = prompts.get("query", "")
    passage = next((prompts[name] for name in ("passage", "document") if name in prompts), "")
    return str(question), str(passage)


def _tokens(folder: Path) -> int:
    declared = (
        _json(folder, folder / "sentence_bert_config.json").get("max_seq_length"),
        _json(folder, folder / "tokenizer_config.json").get("model_max_length"),
        _json(folder, folder / "config.json").get("max_position_embeddings"),
    )
    found = next((value for value in declared if isinstance(value, int) and value >= 16), _MOST_TOKENS)
    return min(found, _MOST_TOKENS)


def _json(folder: Path, path: Path, *, default: Any = None) -> Any:
    if not path.is_file():
        return {} if default is None else default
    try:
        found = json.loads(_within(folder, path, LARGEST_JSON).read_bytes())
    except (ValueError, RecursionError) as problem:
        raise _unfit(folder, f"has a {path.name} that is no JSON ({problem})") from problem
    if not isinstance(found, Mapping if default is None else list):
        raise _unfit(folder, f"has a {path.name} of another shape than agreed")
    return found


def _within(folder: Path, path: Path, most_bytes: int) -> Path:
    """Return a file of the folder, not larger than it may be."""
    if not path.resolve().is_relative_to(folder.resolve()):
        raise _unfit(folder, f"has a {path.name} that lies elsewhere")
    if path.stat().st_size == 0:
        raise _unfit(folder, f"has an empty {path.name}")
    if path.stat().st_size > most_bytes:
        raise _unfit(folder, f"has a {path.name} of more than {most_bytes >> 20:,} MB")
    return path


def _data_beside(folder: Path, weights: Path, model: mmap) -> list[Path]:
    """Return the files that hold weights beside the graph; refused where they lie outside of the folder."""
    found = []
    for value in sorted(set(_locations(model))):
        path = Path(value)
        if not value or path.is_absolute() or ".." in path.parts or not (weights.parent / path).is_file():
            raise _unfit(folder, f"has weights that are not in it ({value!r})")
        found.append(_within(folder, weights.parent / path, LARGEST_WEIGHTS))
    return found


def _locations(model: mmap) -> Iterator[str]:
    """Yield the values of all entries `location`; what cannot be read is empty, and so refused."""
    at = model.find(_LOCATION)
    while at >= 0:
        start = at + len(_LOCATION)
        length = model[start + 1 : start + 2]
        fits = model[start : start + 1] == b"\x12" and length and length[0] < 0x80
        yield model[start + 2 : start + 2 + length[0]].decode("utf-8", "replace") if fits else ""
        at = model.find(_LOCATION, start)


def _unfit(folder: Path, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"The model folder {folder} {why}.", hint="docs/embeddings.md says what a model folder holds."
    )
