"""Commands on extracted facts: extract, evaluate, costs."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
from msgspec import Meta

from rowen.errors import UsageError
from rowen.interfaces.cli.command import command, completing, options_of
from rowen.interfaces.cli.invocation import Invocation
from rowen.interfaces.cli.output import Output, clean, escaped, fact_of
from rowen.model.changes import flattened
from rowen.model.wording import count, seconds
from rowen.operations.parameters import DryRun, Everything, ExtractionOptions, PageOptions, SchemaName

if TYPE_CHECKING:
    from rowen.model.extraction import Extracted, ExtractionReport, ModelScore, PageScore

FORMATS = ("json", "compact", "jsonl", "csv", "table")
WAITING = 5
"""The exit code if the work has to wait for a budget or a provider; nothing is lost."""

_BUDGET = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(usd|\$|tokens?|k?tokens?)\s*", re.IGNORECASE)
# Options for a single page. A source has its own settings: with other options its next sync would extract other facts.
_OF_PAGE = ("grounding", "instructions", "max_chars", "render", "proxy", "fetch_limit_s", "model_limit_s")
_FLAGS = {"rules": "--rule", "form": "--format", "fetch_limit_s": "--timeout", "model_limit_s": "--model-timeout"}


class _SourceOptions(ExtractionOptions):
    schema: SchemaName
    dry_run: DryRun
    everything: Everything


class _Evaluation(PageOptions):
    schema: SchemaName
    models: Annotated[Sequence[str], Meta(description="Language models to compare.", extra={"flag": "model"})]


@command("extract")
@click.argument("address", metavar="[URL|PATH]", required=False)
@click.option(
    "--source",
    metavar="NAME",
    shell_complete=completing("source_names"),
    help="Extract from changes of this source instead of one page.",
)
@options_of(
    _SourceOptions,
    only=("schema", "dry_run", "everything", "force", "model", "limit"),
    schema={"help": "Schema: product@1, article@latest; for a source default: all attached ones."},
    dry_run={"help": "Report the cost, and query no model."},
    limit={"help": "Maximum number of items of the source."},
)
@click.option("--budget", metavar="AMOUNT", help="Maximum cost: 2usd, 50000tokens. The rest waits.")
@click.option(
    "--rule", "rules", multiple=True, metavar="FIELD=SELECTOR", help="Where a field is in the page; for one page."
)
@options_of(
    PageOptions,
    only=_OF_PAGE,
    grounding={"help": "What to do with values not in the text; for one page."},
    fetch_limit_s={"flag": "--timeout", "metavar": "S"},
    model_limit_s={"flag": "--model-timeout", "metavar": "S"},
)
@click.option("--evidence", is_flag=True, help="Also print where each value is in the text.")
@click.option("--format", "form", type=click.Choice(FORMATS), help="Format of one page's facts; default: json.")
def extract(call: Invocation, address: str | None, source: str | None, **how: Any) -> int:
    """Extract facts as JSON from a page, or from changes of a source.

    Markup for machines in the page costs nothing. The same page, schema and model are never paid for twice.
    """
    if bool(address) == bool(source):
        raise click.UsageError("Give the address of a page, or --source with the name of a source.")
    how |= dict(zip(("budget_usd", "budget_tokens"), _parse_budget(how.pop("budget")), strict=True))
    if source is not None:
        return _extract_source(call, source, how)
    if how["schema"] is None:
        raise click.UsageError("--schema is missing: the facts to extract, such as --schema product@1.")
    return _extract_page(call, str(address), how)


def _extract_page(call: Invocation, address: str, how: dict[str, Any]) -> int:
    form, with_evidence = how["form"], how["evidence"]
    if call.out.json and form is not None:
        raise click.UsageError("--json cannot be combined with --format, which prints the facts alone.")
    options = {name: how[name] for name in ("schema", "force", "model", *_OF_PAGE) if how[name] is not None}
    options["rules"] = parse_rules(how["rules"])
    if how["dry_run"]:
        tokens, usd = call.ask(lambda rowen: rowen.extraction.estimate(address, **options))
        price = "at an unknown price" if usd is None else f"about {usd:,.4f} USD"
        estimate = f"about {count(tokens, 'token')}, {price}" if tokens else "no tokens: the answer is cached"
        call.out.answer({"url": address, "tokens": tokens, "usd": usd, "dry_run": True}, estimate)
        return 0
    options |= {name: how[name] for name in ("budget_usd", "budget_tokens")}
    facts: Extracted = call.ask(lambda rowen: rowen.extract(address, **options), gently=True)
    if call.out.json:
        fields = fact_of(facts)
        call.out.emit({name: fields[name] for name in fields if with_evidence or name != "evidence"})
        return 0
    print_facts(call.out, facts, form or "json")
    for evidence in facts.evidence if with_evidence else ():
        quote = f" {evidence.quote!r} at {evidence.at}" if evidence.at >= 0 else ""
        call.out.say(f"{evidence.path}: {evidence.found}{quote}")
    call.out.say(f"{facts.schema} {_origin(facts)}")
    for remark in facts.remarks:
        call.out.say(remark)
    return 0


def _origin(facts: Extracted) -> str:
    if facts.origin == "structured":
        return "from the page's own markup: no tokens."
    if facts.origin == "rules":
        return "by rules: no tokens."
    if facts.reused:
        return f"by {facts.model}, from the cache: no call; avoided {count(facts.tokens, 'token')}."
    price = f" ({facts.usd:,.4f} USD)" if facts.usd else ""
    return f"by {facts.model}: {count(facts.calls, 'call')}, {count(facts.tokens, 'token')}{price}."


def print_facts(out: Output, facts: Extracted, form: str) -> None:
    """Print the facts of a page as JSON, as rows like those of `rowen export`, or as a table."""
    match form:
        case "compact":
            text = json.dumps(facts.data, ensure_ascii=False)
        case "jsonl":
            text = json.dumps({"url": facts.url, "schema": facts.schema, "data": facts.data}, ensure_ascii=False)
        case "csv":
            # The column `url` is the address of the page, so a field of this name gets a prefix.
            fields = {("data.url" if name == "url" else name): value for name, value in flattened(facts.data).items()}
            written = io.StringIO()
            table = csv.writer(written, lineterminator="\n")
            table.writerow(["url", *fields])
            table.writerow([facts.url, *map(_cell, fields.values())])
            print(clean(written.getvalue()), end="")
            return
        case "table":
            rows = list(flattened(facts.data).items())
            out.listing(rows, {"field": lambda row: (row[0], "bold"), "value": lambda row: _cell(row[1])})
            return
        case _:
            text = json.dumps(facts.data, indent=2, ensure_ascii=False)
    print(escaped(text))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _extract_source(call: Invocation, source: str, how: dict[str, Any]) -> int:
    if unusable := [name for name in ("rules", "evidence", "form", *_OF_PAGE) if how.pop(name)]:
        names = ", ".join(_FLAGS.get(name, f"--{name.replace('_', '-')}") for name in unusable)
        raise click.UsageError(f"{names}: for one page. `rowen edit NAME` sets how a source is extracted.")
    schema = how.pop("schema")
    reports = call.ask(lambda rowen: rowen.extraction.extract_source(source, schema, **how), gently=True)
    for report in reports:
        call.out.answer(report, (report.source, "bold"), f"  {report.schema}  {_line(report)}")
        if report.waits_for:
            call.out.say(f"{report.source}: {count(report.pending, 'item')} waiting: {report.waits_for}")
        for code, number in report.errors.items():
            call.out.say(f"{report.source}: {count(number, 'item')} failed ({code}).")
    if any(report.waits_for for report in reports):
        return WAITING
    return 3 if any(report.failed for report in reports) else 0


def _line(report: ExtractionReport) -> str:
    price = f" ({report.usd:,.4f} USD)" if report.usd else ""
    spent = f"{count(report.calls, 'call')}, {count(report.tokens, 'token')}{price}"
    if report.dry_run:
        known = f"; {report.avoided:,} cached" if report.avoided else ""
        return f"would be: about {spent} for {count(report.looked_at, 'item')}{known}"
    names = ("created", "changed", "same", "removed", "failed", "pending", "matched")
    counts = " · ".join(f"{number:,} {name}" for name in names if (number := getattr(report, name)))
    avoided = f"; avoided {count(report.avoided, 'call')}" if report.avoided else ""
    avoided += f" of {count(report.avoided_tokens, 'token')}" if report.avoided_tokens else ""
    return f"{counts or 'nothing new'} — {spent} in {seconds(report.seconds)}{avoided}"


def _parse_budget(text: str | None) -> tuple[float | None, int | None]:
    """Return the budget in US dollars, or in tokens."""
    if text is None:
        return None, None
    match = _BUDGET.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a budget.", hint="Such as --budget 2usd or --budget 50000tokens.")
    amount, unit = float(match[1]), match[2].lower()
    if unit in ("usd", "$"):
        return amount, None
    return None, int(amount * (1000 if unit.startswith("k") else 1))


def parse_rules(pairs: tuple[str, ...]) -> dict[str, str]:
    """Parse FIELD=SELECTOR pairs."""
    rules = {}
    for pair in pairs:
        field, equals, selector = pair.partition("=")
        if not (equals and field.strip() and selector.strip()):
            raise UsageError(
                f"Rule {pair!r} is not of the form FIELD=SELECTOR.", hint="Such as 'price=.amount | number'."
            )
        rules[field.strip()] = selector.strip()
    return rules


@command("evaluate")
@click.argument("folder", type=click.Path(path_type=Path))
@options_of(
    _Evaluation,
    only=("schema", "models", "force", "instructions", "max_chars"),
    schema={"required": True, "help": "Schema of the facts: product@1."},
)
@click.option("--budget", metavar="AMOUNT", help="Maximum cost in all: 2usd, 50000tokens. The rest is skipped.")
@click.option("--pages", "by_page", is_flag=True, help="List each page instead of each model.")
def evaluate(call: Invocation, folder: Path, by_page: bool, budget: str | None, **how: Any) -> int:
    """Compare models on your own pages: validity, accuracy, grounding, time, cost.

    FOLDER has pages, and their expected facts in files beside them: lamp.html, lamp.expected.json.
    """
    how |= dict(zip(("budget_usd", "budget_tokens"), _parse_budget(budget), strict=True))
    scores: list[ModelScore] = call.ask(lambda rowen: rowen.extraction.evaluate(folder, **how), gently=True)
    if by_page:
        call.out.listing(
            [(score.model, page) for score in scores for page in score.pages],
            {
                "model": lambda row: (row[0], "bold"),
                "page": lambda row: row[1].page,
                "verdict": lambda row: row[1].verdict,
                "reason": lambda row: _reason(row[1]),
                "s": lambda row: _time(row[1].seconds),
                "tokens": lambda row: f"{row[1].tokens:,}",
                "USD": lambda row: _price(row[1].usd),
            },
            fact=lambda row: {"model": row[0], **asdict(row[1])},
        )
    else:
        call.out.listing(
            scores,
            {
                "model": lambda score: (score.model, "bold"),
                "valid": lambda score: f"{score.count('valid')}/{len(score.pages)}",
                "invalid": lambda score: str(score.count("invalid")),
                "error": lambda score: str(score.count("error")),
                "right": lambda score: f"{score.right}/{score.expected}" if score.expected else "—",
                "ungrounded": lambda score: str(score.ungrounded),
                "median s": lambda score: _time(score.median_s),
                "slowest s": lambda score: _time(score.slowest_s),
                "tokens": lambda score: f"{score.tokens:,}",
                "USD": lambda score: _price(score.usd),
            },
        )
    return WAITING if any(score.count("skipped") for score in scores) else 0


def _reason(page: PageScore) -> str:
    reasons = [page.error] if page.error else []
    reasons += [f"wrong: {', '.join(page.wrong)}"] if page.wrong and page.verdict == "valid" else []
    reasons += [f"not in the text: {', '.join(page.ungrounded)}"] if page.ungrounded else []
    return "; ".join(reasons)


def _time(time_s: float | None) -> str:
    return "—" if time_s is None else f"{time_s:.1f}"


def _price(usd: float | None) -> str:
    return "unknown" if usd is None else f"{usd:,.4f}"


@command("costs")
@options_of(
    "status.costs",
    since={"show_default": False, "help": "Since a date, or in the last `2h`, `1d`, `4w`; default: 30 days."},
)
def costs(call: Invocation, since: datetime) -> None:
    """Show the cost of paid calls, and the cost avoided."""
    report = call.ask(lambda rowen: rowen.status.costs(since))
    call.out.listing(
        report.lines,
        {
            "source": lambda line: (line.source or "—", "bold"),
            "for": lambda line: " ".join(filter(None, (line.purpose, line.subject))),
            "model": lambda line: line.model or "—",
            "calls": lambda line: f"{line.calls:,}" + (f" ({line.failed:,} failed)" if line.failed else ""),
            "tokens": lambda line: f"{line.tokens_sent + line.tokens_received:,}",
            "USD": lambda line: _price(line.usd),
            "avoided": lambda line: (
                f"{count(line.avoided, 'call')}, {count(line.avoided_tokens, 'token')}" if line.avoided else "—"
            ),
        },
        fact=lambda line: line._asdict(),
    )
    day = report.since.astimezone(UTC).date()
    call.out.say(f"Since {day}: {report.usd:,.4f} USD spent, about {report.avoided_usd:,.4f} USD avoided.")


COMMANDS = {"extract": extract, "evaluate": evaluate, "costs": costs}
