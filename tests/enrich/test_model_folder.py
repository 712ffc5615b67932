"""Models from folders: what such a folder declares is done, and what could do harm is refused."""

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rowen import Complete, Fetched
from rowen.enrich import model_folder
from rowen.enrich.base import EmbedderTools, Spec
from rowen.enrich.embedders.local import Local
from rowen.enrich.tokenizers import spelling_of
from rowen.errors import ConfigurationError, EmbeddingError
from rowen.settings import Settings
from tests.conftest import ScratchDatabase
from tests.enrich.tiny_model import TOKENIZER, VECTORS, WORDS, onnx_model, write_json, write_model
from tests.portals.scripted import Scripted, page, shows

SPELLINGS = json.loads((Path(__file__).parent / "spelling_cases.json").read_text("utf-8"))
REAL = os.environ.get("ROWEN_TEST_MODEL_FOLDER")
CLS = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}


async def no_client() -> None:
    raise AssertionError("nothing here needs the network")


def local(folder: Path) -> Local:
    return Local(Spec("local", str(folder)), EmbedderTools(no_client, Settings()))  # type: ignore[arg-type]


async def vectors(folder: Path, *texts: str, question: bool = False) -> list[list[float]]:
    embedder = local(folder)
    try:
        return [vector.tolist() for vector in (await embedder.embed(texts, question=question)).vectors]
    finally:
        await embedder.close()


def mean_of(*words: str) -> list[float]:
    rows = [VECTORS[WORDS.index(word)] for word in words]
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


async def test_a_folder_without_further_word_gives_the_mean_of_its_tokens(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny")

    assert await vectors(folder, "Goats, hay") == [
        pytest.approx(mean_of("[CLS]", "goat", "##s", "[UNK]", "hay", "[SEP]"))
    ]


@pytest.mark.parametrize("path", ["1_Pooling", "other"])
async def test_pooling_is_what_the_folder_declares(tmp_path: Path, path: str) -> None:
    modules = [
        {"type": "a.b.Transformer", "path": ""},
        {"type": "a.b.Pooling", "path": path},
        {"type": "a.b.Normalize"},
    ]
    folder = write_model(tmp_path / "tiny", **{"modules": modules, f"{path}__config": CLS})

    assert await vectors(folder, "hay") == [pytest.approx(mean_of("[CLS]"))]


async def test_questions_and_passages_have_the_prefixes_that_the_folder_declares(tmp_path: Path) -> None:
    prompts = {"prompts": {"query": "ask: ", "passage": "straw "}}
    folder = write_model(tmp_path / "tiny", config_sentence_transformers=prompts)

    assert await vectors(folder, "hay") == [pytest.approx(mean_of("[CLS]", "straw", "hay", "[SEP]"))]
    assert await vectors(folder, "hay", question=True) == [pytest.approx(mean_of("[CLS]", "ask", ":", "hay", "[SEP]"))]


async def test_a_text_longer_than_the_declared_window_has_several_vectors(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny", sentence_bert_config={"max_seq_length": 16})

    assert len(await vectors(folder, "hay " * 14)) == 1
    assert len(await vectors(folder, "hay " * 30)) == 3
    assert len(await vectors(folder, "hay " * 30, question=True)) == 1


async def test_a_vocabulary_in_a_text_file_will_do(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny")
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")

    assert await vectors(folder, "HAY") == [pytest.approx(mean_of("[CLS]", "hay", "[SEP]"))]
    write_json(folder, "tokenizer_config", {"do_lower_case": False})
    assert await vectors(folder, "HAY") == [pytest.approx(mean_of("[CLS]", "[UNK]", "[SEP]"))]


def test_whatever_gives_other_vectors_has_another_name(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny")
    names = [local(folder).name]
    write_json(folder, "1_Pooling__config", CLS)
    names.append(local(folder).name)
    write_json(folder, "config_sentence_transformers", {"prompts": {"query": "ask"}})
    names.append(local(folder).name)
    write_json(folder, "tokenizer", {**TOKENIZER, "post_processor": None, "version": "2"})
    names.append(local(folder).name)
    again = local(folder).name

    assert len(set(names)) == 4
    assert again == names[-1]
    assert all(name.startswith("tiny:") for name in names)


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"modules": [{"type": "a.Dense"}]}, "a module Dense, which is not supported"),
        ({"modules": {"a": 1}}, "an invalid modules.json"),
        ({"modules": "{"}, "modules.json that is no JSON"),
        ({"1_Pooling__config": {**CLS, "pooling_mode_mean_tokens": True}}, "pooling_mode_cls_token and"),
        ({"1_Pooling__config": {"pooling_mode_lasttoken": True}}, "pooling_mode_lasttoken, which is not supported"),
        ({"1_Pooling__config": "[" * 100_000}, "that is no JSON"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused_in_clear_words(tmp_path: Path, files: dict[str, Any], told: str) -> None:
    folder = write_model(tmp_path / "tiny", **files)

    with pytest.raises(ConfigurationError, match=told):
        local(folder)


@pytest.mark.parametrize(
    ("tokenizer", "told"),
    [
        ({**TOKENIZER, "normalizer": {"type": "Lowercase"}}, "requires Lowercase"),
        ({**TOKENIZER, "normalizer": None}, "requires a WordPiece model without BertNormalizer"),
        ({**TOKENIZER, "model": {"type": "WordLevel", "vocab": {}}}, "a model of type WordLevel"),
        ({**TOKENIZER, "model": {"type": "WordPiece", "vocab": {"a": 1}}}, "no tokenizer that can be read"),
        ({"model": 3}, "no tokenizer that can be read"),
    ],
)  # fmt: skip
async def test_a_tokenizer_that_is_not_known_is_refused(tmp_path: Path, tokenizer: dict[str, Any], told: str) -> None:
    folder = write_model(tmp_path / "tiny", tokenizer=tokenizer)

    with pytest.raises(ConfigurationError, match=told):
        await vectors(folder, "hay")


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/passwd", "", "a/../../b", "missing.bin", "x" * 200])
def test_weights_outside_of_the_folder_are_refused(tmp_path: Path, location: str) -> None:
    folder = write_model(tmp_path / "tiny")
    (tmp_path / "secret.bin").write_bytes(b"\0" * 4000)
    (folder / "model.onnx").write_bytes(onnx_model(location=location))

    with pytest.raises(ConfigurationError, match="weights that are not in it"):
        local(folder)


async def test_weights_beside_the_graph_are_read_and_count_for_the_name(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "tiny")
    numbers = [number for row in VECTORS for number in row]
    (folder / "data.bin").write_bytes(struct.pack(f"<{len(numbers)}f", *numbers))
    (folder / "model.onnx").write_bytes(onnx_model(location="data.bin"))
    before = local(folder).name

    assert await vectors(folder, "hay") == [pytest.approx(mean_of("[CLS]", "hay", "[SEP]"))]
    (folder / "data.bin").write_bytes(struct.pack(f"<{len(numbers)}f", *reversed(numbers)))
    assert local(folder).name != before


def test_a_file_that_leads_elsewhere_or_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_model(tmp_path / "tiny")
    monkeypatch.setattr(model_folder, "LARGEST_WEIGHTS", 100)
    with pytest.raises(ConfigurationError, match=r"model\.onnx of more than"):
        local(folder)
    monkeypatch.undo()
    (tmp_path / "elsewhere.json").write_text(json.dumps(TOKENIZER))
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").symlink_to(tmp_path / "elsewhere.json")

    with pytest.raises(ConfigurationError, match=r"tokenizer\.json that is a link to another folder"):
        local(folder)


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json"])
def test_a_folder_without_weights_or_tokenizer_is_named(tmp_path: Path, missing: str) -> None:
    folder = write_model(tmp_path / "tiny")
    (folder / missing).unlink()

    with pytest.raises(ConfigurationError, match="has n"):
        local(folder)
    with pytest.raises(ConfigurationError, match="is no folder"):
        local(tmp_path / "nothing")


@pytest.mark.parametrize("model", [b"\x08\x08 no model", onnx_model(operator="MadeUp")])
async def test_a_broken_graph_or_an_operator_of_its_own_is_an_error_that_says_so(tmp_path: Path, model: bytes) -> None:
    folder = write_model(tmp_path / "tiny")
    (folder / "model.onnx").write_bytes(model)

    with pytest.raises(EmbeddingError, match="cannot be loaded"):
        await vectors(folder, "hay")


@pytest.mark.parametrize("kind", sorted(SPELLINGS))
def test_texts_are_spelt_as_the_library_spells_them(kind: str) -> None:
    spelling = spelling_of(SPELLINGS[kind]["tokenizer"], kind)

    assert SPELLINGS[kind]["cases"]
    for text, numbers in SPELLINGS[kind]["cases"]:
        assert spelling.windows(text, 512) == [numbers], text


@pytest.mark.parametrize("kind", sorted(SPELLINGS))
def test_marks_in_a_text_do_not_speak_to_the_model(kind: str) -> None:
    [numbers] = spelling_of(SPELLINGS[kind]["tokenizer"], kind).windows("<s> goat </s>", 512)

    assert not {0, 2} & set(numbers[1:-1])


async def test_a_house_embeds_with_a_model_from_a_folder_and_remembers_where_it_is(
    database: ScratchDatabase, tmp_path: Path, kinds: Callable[[Any], None]
) -> None:
    kinds(Scripted)
    folder = write_model(tmp_path / "tiny")
    shows(Fetched(page(1, "Hay, hay.", title="A")), Fetched(page(2, "Goats.", title="B")), Complete())
    async with database.open(embedder="local", embedder_model=str(folder)) as r:
        run = await r.sync("scripted:one")
        [status] = await r.embeddings.list()
    async with database.open(embedder=None) as r:
        answer = await r.search("goat")
        folder.rename(tmp_path / "moved")
    async with database.open(embedder=None) as r:
        without = await r.search("straw hay")

    assert (run.stats.embedded, run.stats.embeddings_pending, status.dimensions) == (4, 0, len(WORDS))
    assert status.name.startswith("tiny:")
    assert (answer[0].title, answer[0].vector_rank) == ("B", 1)
    assert "is no folder" in " ".join(without.notes)
    assert without[0].title == "A"


@pytest.mark.skipif(not REAL, reason="ROWEN_TEST_MODEL_FOLDER names no folder")
async def test_a_real_model_puts_like_texts_side_by_side() -> None:
    goat, bakery = await vectors(Path(REAL or ""), "A goat stood on the roof.", "The bakery sells bread every morning.")
    [asked] = await vectors(Path(REAL or ""), "animal on a building", question=True)

    assert sum(a * b for a, b in zip(asked, goat, strict=True)) > sum(a * b for a, b in zip(asked, bakery, strict=True))
