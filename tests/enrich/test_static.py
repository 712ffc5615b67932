"""The fast embedder: a table of vectors from a package that is read and never imported."""

import json
import struct
import sys
from pathlib import Path

import pytest

from rowen.enrich.base import Spec, Tools
from rowen.enrich.bytepair import BytePairs
from rowen.enrich.embedders.static import Static
from rowen.errors import EmbeddingError
from rowen.settings import Settings

CHARS = "▁hay\n"
VOCABULARY = {
    **{char: number for number, char in enumerate(CHARS)},
    "ha": 5,
    "▁ha": 6,
    "▁hay": 7,
    "▁▁": 8,
    **{f"<0x{byte:02X}>": 9 + byte for byte in range(256)},
}
PAIRS = ["h a", "▁ ha", "▁ha y", "▁ ▁"]


async def no_client() -> None:
    raise AssertionError("nothing here needs the network")


TOOLS = Tools(no_client, Settings())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("hay", ["▁hay"]),
        ("hay hay", ["▁hay", "▁hay"]),
        ("hah", ["▁ha", "h"]),
        ("ya", ["▁", "y", "a"]),
        ("  hay", ["▁▁", "▁hay"]),
        ("hay\nhay", ["▁hay", "\n", "ha", "y"]),
        ("é", ["▁", "<0xC3>", "<0xA9>"]),
        ("hay  ", ["▁hay", "▁▁"]),
    ],
)
def test_pairs_are_joined_the_most_usual_first(text: str, pieces: list[str]) -> None:
    assert BytePairs(VOCABULARY, PAIRS).encode(text) == [VOCABULARY[piece] for piece in pieces]


def test_a_word_without_end_is_spelt_in_good_time() -> None:
    assert len(BytePairs(VOCABULARY, PAIRS).encode("ha" * 20_000)) == 20_000


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "wordllama"
    (folder / "weights").mkdir(parents=True)
    (folder / "tokenizers").mkdir()
    (folder / "__init__.py").write_text("raise AssertionError('this package must not be imported')")
    told = {"model": {"vocab": VOCABULARY, "merges": PAIRS}}
    (folder / "tokenizers" / "l2_supercat_tokenizer_config.json").write_text(json.dumps(told))
    rows = [float(number == place) for number in range(len(VOCABULARY)) for place in (7, 6, 2)]
    head = json.dumps({"embedding.weight": {"dtype": "F16", "shape": [len(VOCABULARY), 3]}}).encode()
    body = struct.pack("<Q", len(head)) + head + struct.pack(f"<{len(rows)}e", *rows)
    (folder / "weights" / "l2_supercat_256.safetensors").write_bytes(body)
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder


async def test_a_text_is_the_mean_of_its_words(package: Path) -> None:
    embedder = Static(Spec("local-fast"), TOOLS)
    try:
        answer = await embedder.embed(["hay", "hay haa"])
    finally:
        await embedder.close()

    assert [list(map(float, vector)) for vector in answer.vectors] == [
        [1, 0, 0],
        [pytest.approx(1 / 3), pytest.approx(1 / 3), pytest.approx(1 / 3)],
    ]
    assert answer.tokens == 4
    assert "wordllama" not in sys.modules


async def test_a_missing_package_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowen.enrich.embedders.static.find_spec", lambda name: None)
    embedder = Static(Spec("local-fast"), TOOLS)

    with pytest.raises(EmbeddingError, match="wordllama") as problem:
        await embedder.embed(["hay"])

    assert problem.value.hint is not None
    assert "rowen[fast]" in problem.value.hint
