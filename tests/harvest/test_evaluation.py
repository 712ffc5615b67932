"""Models compared on the pages of a folder: what each makes of them, beside what was expected, and for how much."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from rowen.errors import NotFoundError, UsageError
from rowen.model.extraction import wrong_fields
from rowen.operations.facts import fact
from tests.conftest import ScratchDatabase
from tests.harvest.shop import LAMP
from tests.portals.language_model import AskedModel, Model, Said

HTML = "<!doctype html><title>Lamp {n}</title><main><h1>Lamp {n}</h1><p>Name: Lamp {n}</p><p>Price: {n}0</p></main>"
MARKUP = '<script type="application/ld+json">{"@type": "Product", "name": "Lamp 1", "price": 10}</script>'


def by_name(asked: AskedModel, said: Said) -> Said | web.StreamResponse:
    """A careful model, one that invents, one that babbles, and one that is down."""
    match asked.body["model"]:
        case "inventing":
            return Said(json.dumps({"name": "Lamp", "price": 4711, "colour": None}), usage=said.usage)
        case "babbling":
            return Said("I would rather not say.", usage=said.usage)
        case "down":
            return web.json_response({"error": {"message": "gone"}}, status=500)
    return said


@pytest.fixture
def model() -> Iterator[Model]:
    made = Model()
    made.always = by_name
    yield made
    made.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "pages"
    (made / "more").mkdir(parents=True)
    (made / "one.html").write_text(MARKUP + HTML.format(n=1))
    (made / "one.expected.json").write_text('{"name": "Lamp 1", "price": 10.0}')
    (made / "more" / "two.html").write_text(HTML.format(n=2))
    (made / "more" / "two.html.expected.json").write_text('{"name": "Lamp 2", "price": 20, "colour": "green"}')
    (made / ".hidden").write_text("not a page")
    return made


async def test_models_are_compared_by_validity_correctness_grounding_and_cost(
    database: ScratchDatabase, model: Model, folder: Path
) -> None:
    names = ["careful", "inventing", "babbling", "down"]
    async with database.open(**model.settings, fetch_tries=1) as r:
        scores = await r.extraction.evaluate(folder, LAMP, models=names)
        costs = await r.status.costs()
    careful, inventing, babbling, down = (score.to_json() for score in scores)

    assert [score.model for score in scores] == [f"openai:{name}" for name in names]
    assert [page.page for page in scores[0].pages] == ["more/two.html", "one.html"]
    assert (careful["valid"], careful["right"], careful["expected"], careful["ungrounded"]) == (2, 4, 5, 0)
    assert [page.wrong for page in scores[0].pages] == [("/colour",), ()]
    assert (inventing["valid"], inventing["right"], inventing["ungrounded"]) == (2, 0, 2)
    assert (babbling["invalid"], babbling["right"], babbling["valid"]) == (2, 0, 0)
    assert {page.code for page in scores[2].pages} == {"answer_invalid"}
    assert (down["error"], down["median_s"] is not None) == (2, True)
    # What is not valid is not kept, to be given to nobody again.
    assert database.query("select count(*) from answer") == [(4,)]
    # A correction is asked for once, and its tokens count; the markup that says it all is left out for all alike.
    assert model.calls == 2 + 2 + 4 + 2
    assert babbling["tokens"] > careful["tokens"] > 0
    assert careful["usd"] > 0
    assert round(sum(score.usd or 0.0 for score in scores), 6) == pytest.approx(costs.usd)
    assert [page["page"] for page in fact(scores[0])["pages"]] == ["more/two.html", "one.html"]


async def test_a_second_evaluation_queries_only_the_new_model(
    database: ScratchDatabase, model: Model, folder: Path
) -> None:
    async with database.open(**model.settings) as r:
        [first] = await r.extraction.evaluate(folder, LAMP)
        again, other = await r.extraction.evaluate(folder, LAMP, models=["double", "other"])
        calls = model.calls
        [forced] = await r.extraction.evaluate(folder, LAMP, force=True)
    assert (calls, model.calls) == (4, 6)
    assert first.median_s is not None
    assert (again.median_s, again.tokens, again.usd) == (None, first.tokens, first.usd)
    assert all(page.reused for page in again.pages)
    assert not any(page.reused for page in (*other.pages, *forced.pages))


async def test_a_budget_covers_all_models_and_pages_beyond_it_are_skipped(
    database: ScratchDatabase, model: Model, folder: Path
) -> None:
    async with database.open(**model.settings, llm_concurrency=1, llm_answer_tokens=100) as r:
        [alone] = await r.extraction.evaluate(folder, LAMP, models=["careful"])
        # Between two and three times of what a call takes is reserved for it: a third one is beyond four times.
        most = 2 * sum(page.tokens for page in alone.pages)
        first, second = await r.extraction.evaluate(
            folder, LAMP, models=["careful", "other"], force=True, budget_tokens=most
        )
    assert (first.count("valid"), second.count("skipped")) == (2, 2)
    assert {page.code for page in second.pages} == {"budget_exceeded"}
    assert second.expected == 0


async def test_an_unreadable_page_costs_that_page_and_a_missing_folder_is_an_error(
    database: ScratchDatabase, model: Model, folder: Path
) -> None:
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 broken")
    async with database.open(**model.settings) as r:
        [score] = await r.extraction.evaluate(folder, LAMP)
        (folder / "one.expected.json").write_text("[]")
        with pytest.raises(UsageError, match=r"one\.expected\.json does not contain a JSON object"):
            await r.extraction.evaluate(folder, LAMP)
        with pytest.raises(NotFoundError, match="is not a folder"):
            await r.extraction.evaluate(folder / "one.html", LAMP)
    assert (score.count("valid"), score.count("error"), model.calls) == (2, 1, 2)


async def test_a_model_of_another_kind_has_the_address_and_the_key_of_its_own_provider(
    database: ScratchDatabase, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-theirs")
    async with database.open(**{**model.settings, "llm_price": "1/4"}, llm_key="sk-ours") as r:
        models = r._engine.language_models
        other, ours = models.of("anthropic:claude-haiku-4-5"), models.of("openai:double")
        colon = models.of("qwen2.5:3b")

        assert tuple(other.spec) == ("anthropic", "claude-haiku-4-5", "https://api.anthropic.com/v1")
        assert (other.price, ours.price) == ((1.0, 5.0), (1.0, 4.0))
        assert (ours.spec.url, ours.spec.model, colon.spec.model) == (f"{model.url}/v1", "double", "qwen2.5:3b")
        sent = other._provider._credentials.headers("https://api.anthropic.com")  # type: ignore[attr-defined]
        assert sent == {"x-api-key": "sk-theirs"}


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers(0, 3) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from("xyz"), values, max_size=3), values)
def test_an_answer_is_scored_by_its_expected_fields_only(data: dict[str, Any], more: Any) -> None:
    total, wrong = wrong_fields(data, {**data, "more": more})

    assert wrong == ()
    assert wrong_fields(data, None) == (total, wrong_fields(data, {})[1])
