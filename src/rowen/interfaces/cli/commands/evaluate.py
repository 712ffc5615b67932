"""evaluate."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rowen.interfaces.cli.command import command
from rowen.interfaces.cli.commands.extract import WAITING, parse_budget
from rowen.interfaces.cli.invocation import Invocation

if TYPE_CHECKING:
    from rowen.model.extraction import ModelScore, PageScore

__all__ = ["COMMANDS"]


@command("evaluate")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--schema", metavar="NAME[@V]", required=True, help="As what the pages are read: product@1.")
@click.option("--model", "models", multiple=True, metavar="NAME", help="A model, as in `extract`; may be repeated.")
@click.option("--budget", metavar="AMOUNT", help="At most so much in all: 2usd, 50000tokens. The rest is skipped.")
@click.option("--force", is_flag=True, help="Ask again, also what was answered before; then all times are known.")
@click.option("--instructions", metavar="TEXT", help="What the models are told beside the usual.")
@click.option("--max-chars", type=click.IntRange(min=1), help="Let them read only so much of each page.")
@click.option("--pages", "by_page", is_flag=True, help="List each page, not each model.")
def evaluate(call: Invocation, folder: Path, by_page: bool, budget: str | None, **how: Any) -> int:
    """Compare models on pages of yours: valid, right, grounded, fast, cheap.

    FOLDER has pages, and what they should yield in files beside them: lamp.html, lamp.expected.json.
    """
    how |= dict(zip(("budget_usd", "budget_tokens"), parse_budget(budget), strict=True))
    scores: list[ModelScore] = call.ask(lambda rowen: rowen.extraction.evaluate(folder, **how), gently=True)
    if by_page:
        _by_page(call, scores)
    else:
        _by_model(call, scores)
    return WAITING if any(score.count("skipped") for score in scores) else 0


def _by_model(call: Invocation, scores: "list[ModelScore]") -> None:
    from rowen.operations.facts import fact

    call.out.listing(
        scores,
        {
            "model": lambda one: (one.model, "bold"),
            "valid": lambda one: f"{one.count('valid')}/{len(one.pages)}",
            "invalid": lambda one: str(one.count("invalid")),
            "error": lambda one: str(one.count("error")),
            "right": lambda one: f"{one.right}/{one.expected}" if one.expected else "—",
            "ungrounded": lambda one: str(one.ungrounded),
            "median s": lambda one: _time(one.median_s),
            "slowest s": lambda one: _time(one.slowest_s),
            "tokens": lambda one: f"{one.tokens:,}",
            "USD": lambda one: _price(one.usd),
        },
        fact=fact,
    )


def _by_page(call: Invocation, scores: "list[ModelScore]") -> None:
    rows = [(score.model, page) for score in scores for page in score.pages]
    call.out.listing(
        rows,
        {
            "model": lambda row: (row[0], "bold"),
            "page": lambda row: row[1].page,
            "verdict": lambda row: row[1].verdict,
            "why": lambda row: _why(row[1]),
            "s": lambda row: _time(row[1].seconds),
            "tokens": lambda row: f"{row[1].tokens:,}",
            "USD": lambda row: _price(row[1].usd),
        },
        fact=_page_fact,
    )


def _page_fact(row: "tuple[str, PageScore]") -> dict[str, Any]:
    from dataclasses import asdict

    return {"model": row[0], **asdict(row[1])}


def _why(page: "PageScore") -> str:
    """What is not as it should be."""
    told = [page.error] if page.error else []
    told += [f"wrong: {', '.join(page.wrong)}"] if page.wrong and page.verdict == "valid" else []
    told += [f"not in the text: {', '.join(page.ungrounded)}"] if page.ungrounded else []
    return "; ".join(told)


def _time(seconds: float | None) -> str:
    return "—" if seconds is None else f"{seconds:.1f}"


def _price(usd: float | None) -> str:
    return "unknown" if usd is None else f"{usd:,.4f}"


COMMANDS = {"evaluate": evaluate}
