"""A sentence model in a folder: weights in ONNX, a tokenizer, and files that declare its use.

Only the graph is executed, by a runtime without additional operators. The size of files is limited, and no file
outside the folder is read.
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
"""The file in the folder of a downloaded model with its name, its origin, and the SHA-256 of each file."""

# Tokenizers for a hundred languages have 17 MB.
LARGEST_JSON = 64 << 20
# Twice the largest model that is fast enough without a graphics card.
LARGEST_WEIGHTS = 4 << 30
# The cost of a window grows with the square of its length; passages have 1,500 characters.
_MOST_TOKENS = 512
WEIGHTS = ("model_quantized.onnx", "model_int8.onnx", "model.onnx")
_POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max"}
# The protobuf key of the entry that holds the location of a tensor's data.
_LOCATION = b"\x0a\x08location"


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """The declarations of a model: pooling, prefixes of questions and passages, and the tokens of a window.

    The `digest` covers everything that determines the vectors.
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
        """Return the tokenizer; loading a large vocabulary takes a second."""
        if self.tokenizer.suffix == ".json":
            return spelling_of(_json(self.folder, self.tokenizer), self.tokenizer.name)
        lowercase = bool(_json(self.folder, self.folder / "tokenizer_config.json").get("do_lower_case", True))
        return spelling_of_vocabulary(self.tokenizer.read_text("utf-8", "replace"), lowercase=lowercase)


def read_folder(folder: Path) -> ModelFolder:
    """Return the model in a folder; raise `ConfigurationError` if a file is missing, too large or unsupported."""
    if not folder.is_dir():
        raise _unfit(folder, "is no folder")
    _check_manifest(folder)
    weights = _weights(folder)
    tokenizers = (folder / "tokenizer.json", *sorted(folder.glob("*tokenizer.json")), folder / "vocab.txt")
    tokenizer = next((path for path in tokenizers if path.is_file()), None)
    if tokenizer is None:
        raise _unfit(folder, "has neither tokenizer.json nor vocab.txt")
    _within(folder, tokenizer, LARGEST_JSON)
    declared = _json(folder, folder / "config_sentence_transformers.json").get("prompts") or {}
    passage = next((declared[name] for name in ("passage", "document") if name in declared), "")
    prompts = str(declared.get("query", "")), str(passage)
    lengths = (
        _json(folder, folder / "sentence_bert_config.json").get("max_seq_length"),
        _json(folder, folder / "tokenizer_config.json").get("model_max_length"),
        _json(folder, folder / "config.json").get("max_position_embeddings"),
    )
    tokens = next((value for value in lengths if isinstance(value, int) and value >= 16), _MOST_TOKENS)
    pooling, tokens = _pooling(folder), min(tokens, _MOST_TOKENS)
    digest = hashlib.sha256(json.dumps([pooling, prompts, tokens]).encode())
    with weights.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as model:
        beside = _data_beside(folder, weights, model)
        digest.update(model)
    for path in (*beside, tokenizer):
        with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            digest.update(data)
    return ModelFolder(folder, weights, tokenizer, pooling, *prompts, tokens, digest.hexdigest()[:12])


def data_names(weights: Path) -> list[str]:
    """Return the names of the files that contain the external weights of a graph."""
    if weights.stat().st_size == 0:
        return []
    with weights.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as model:
        return sorted(set(_locations(model)))


def pooling_file(folder: Path) -> str:
    """Return the path, within a folder, of the file that declares the pooling."""
    path = PurePosixPath(_modules(folder).get("Pooling", "1_Pooling"), "config.json")
    if path.is_absolute() or ".." in path.parts:
        raise _unfit(folder, f"has its pooling in {str(path)!r}, which is not in it")
    return str(path)


def _check_manifest(folder: Path) -> None:
    """Raise `ConfigurationError` if the files of a downloaded model have changed."""
    if not (folder / MANIFEST).is_file():
        return
    manifest = _json(folder, folder / MANIFEST)
    fetched = manifest.get("files")
    if not isinstance(fetched, Mapping):
        raise _unfit(folder, f"has an invalid {MANIFEST}")
    present = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    for name in sorted((fetched.keys() | present.keys()) - {MANIFEST}):
        if name not in present:
            raise _changed(folder, f"lacks {name}, which was fetched", manifest)
        if name not in fetched:
            raise _changed(folder, f"has a {name} that was not fetched", manifest)
        with present[name].open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != fetched[name]:
                raise _changed(folder, f"has another {name} than was fetched", manifest)


def _changed(folder: Path, why: str, manifest: Mapping[str, Any]) -> ConfigurationError:
    hint = Hint(
        action("embed", fetch=str(manifest.get("name", folder.name))),
        f" fetches it again. To use a changed model, copy it without {MANIFEST}, and name its folder.",
    )
    return ConfigurationError(f"The model folder {folder} {why}.", hint=hint)


def _weights(folder: Path) -> Path:
    for place in (folder, folder / "onnx"):
        if path := next((place / name for name in WEIGHTS if (place / name).is_file()), None):
            return _within(folder, path, LARGEST_WEIGHTS)
    files = sorted({*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx")})
    if len(files) != 1:
        names = ", ".join(path.name for path in files) or "none"
        raise _unfit(folder, f"has no model.onnx, and not one other ONNX file ({names})")
    return _within(folder, files[0], LARGEST_WEIGHTS)


def _pooling(folder: Path) -> str:
    """Return the declared method of pooling token vectors; the default is the mean."""
    declared = _json(folder, folder / pooling_file(folder))
    chosen = [name for name, value in declared.items() if name.startswith("pooling_mode_") and value is True]
    if not chosen:
        return "mean"
    if len(chosen) > 1 or chosen[0] not in _POOLINGS:
        raise _unfit(folder, f"requires {' and '.join(chosen)}, which is not supported")
    return _POOLINGS[chosen[0]]


def _modules(folder: Path) -> dict[str, str]:
    """Return the modules that process a text, each with the path of its declaration."""
    modules = _json(folder, folder / "modules.json", default=[])
    kinds = {str(module.get("type", "")).rpartition(".")[2]: str(module.get("path", "")) for module in modules}
    if unknown := kinds.keys() - {"Transformer", "Pooling", "Normalize"}:
        raise _unfit(folder, f"has a module {', '.join(sorted(unknown))}, which is not supported")
    return kinds


def _json(folder: Path, path: Path, *, default: Any = None) -> Any:
    if not path.is_file():
        return {} if default is None else default
    try:
        value = json.loads(_within(folder, path, LARGEST_JSON).read_bytes())
    except (ValueError, RecursionError) as problem:
        raise _unfit(folder, f"has a {path.name} that is no JSON ({problem})") from problem
    if not isinstance(value, Mapping if default is None else list):
        raise _unfit(folder, f"has an invalid {path.name}")
    return value


def _within(folder: Path, path: Path, most_bytes: int) -> Path:
    """Return a file in the folder; raise an error if it is outside the folder, empty or too large."""
    if not path.resolve().is_relative_to(folder.resolve()):
        raise _unfit(folder, f"has a {path.name} that is a link to another folder")
    if path.stat().st_size == 0:
        raise _unfit(folder, f"has an empty {path.name}")
    if path.stat().st_size > most_bytes:
        raise _unfit(folder, f"has a {path.name} of more than {most_bytes >> 20:,} MB")
    return path


def _data_beside(folder: Path, weights: Path, model: mmap) -> list[Path]:
    """Return the files with the external weights of the graph; raise an error if one is outside the folder."""
    files = []
    for value in sorted(set(_locations(model))):
        path = Path(value)
        if not value or path.is_absolute() or ".." in path.parts or not (weights.parent / path).is_file():
            raise _unfit(folder, f"has weights that are not in it ({value!r})")
        files.append(_within(folder, weights.parent / path, LARGEST_WEIGHTS))
    return files


def _locations(model: mmap) -> Iterator[str]:
    """Yield the values of all `location` entries; an unreadable entry yields an empty text, which callers reject."""
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
