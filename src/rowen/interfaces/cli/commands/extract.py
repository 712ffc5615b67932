"""extract, costs."""

import re
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from rowen.errors import UsageError
from rowen.interfaces.cli.command import command
from rowen.interfaces.cli.completing import source_names
from rowen.interfaces.cli.fact_formats import FORMATS, print_facts
from rowen.interfaces.cli.invocation import Invocation
from rowen.interfaces.cli.options import SinceParam
from rowen.model.wording import count, seconds

if TYPE_CHECKING:
    from rowen.model.extraction import Extracted, ExtractionReport
    from rowen.model.models import CostLine
    from rowen.operations import Rowen

__all__ = ["COMMANDS", "parse_budget", "parse_rules"]

_BUDGET = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(usd|\$|tokens?|k?tokens?)\s*", re.IGNORECASE)
WAITING = 5
"""The exit code for work that waits for a budget or a provider: refused for now, and nothing is lost."""


_seconds = click.FloatRange(min=0, min_open=True)
# What is said of one page. For a source the same would part what is extracted now from what its syncs extract.
_OF_PAGE = ("grounding", "instructions", "max_chars", "render", "proxy", "fetch_limit_s", "model_limit_s")


@command("extract")
@click.argument("address", metavar="[URL|PATH]", required=False)
@click.option(
    "--source",
    metavar="NAME",
    shell_complete=source_names,
    help="Extract what changed in this source, instead of one page.",
)
@click.option(
    "--schema", metavar="NAME[@V]", help="Schema: product@1, article@latest; for a source default: all attached ones."
)
@click.option("--budget", metavar="AMOUNT", help="Maximum cost: 2usd, 50000tokens. The rest waits.")
@click.option("--dry-run", is_flag=True, help="Report what it would cost; query no model.")
@click.option("--all", "everything", is_flag=True, help="Process every item of the source, not only changes.")
@click.option("--force", is_flag=True, help="Ignore cached answers and query the model again.")
@click.option("--model", metavar="NAME", help="Language model to use instead of the one in the settings.")
@click.option("--grounding", type=click.Choice(["off", "warn", "null", "fail"]), help="For one page; default: warn.")
@click.option(
    "--rule", "rules", multiple=True, metavar="FIELD=SELECTOR", help="Where a field is in the page; for one page."
)
@click.option("--limit", type=click.IntRange(min=1), help="Maximum number of items of the source.")
@click.option("--evidence", is_flag=True, help="Also print where each value is in the text.")
@click.option("--instructions", metavar="TEXT", help="Additional instructions to the model; for one page.")
@click.option("--max-chars", type=click.IntRange(min=1), help="Maximum number of characters to read.")
@click.option("--render", is_flag=True, help="Render the page in a browser first.")
@click.option("--proxy", metavar="URL", help="HTTP proxy for the page.")
@click.option("--timeout", "fetch_limit_s", type=_seconds, metavar="S", help="Seconds to wait for the page.")
@click.option("--model-timeout", "model_limit_s", type=_seconds, metavar="S", help="Seconds to wait for the model.")
@click.option("--format", "form", type=click.Choice(FORMATS), help="Format of one page's facts; default: json.")
def extract(call: Invocation, address: str | None, source: str | None, **how: Any) -> int:
    """Read facts from a page as JSON, or from what changed in a source.

    What the page's own markup says costs nothing. The same page, schema and model are never paid for twice.
    """
    if bool(address) == bool(source):
        raise click.UsageError("Give the address of a page, or --source with the name of a source.")
    how |= dict(zip(("budget_usd", "budget_tokens"), parse_budget(how.pop("budget")), strict=True))
    if source is not None:
        return _of_source(call, source, how)
    if how["schema"] is None:
        raise click.UsageError("Which facts? --schema names them, such as --schema product@1.")
    return _of_page(call, str(address), how)


def _of_page(call: Invocation, address: str, how: dict[str, Any]) -> int:
    form, shown = how["form"], how["evidence"]
    if call.out.json and form is not None:
        raise click.UsageError("--json tells all that is known of the facts; --format prints only them.")
    asked = {name: how[name] for name in ("schema", "force", "model", *_OF_PAGE) if how[name] is not None}
    asked["rules"] = parse_rules(how["rules"])
    if how["dry_run"]:
        tokens, usd = call.ask(lambda rowen: rowen.extraction.estimate(address, **asked))
        call.out.answer({"url": address, "tokens": tokens, "usd": usd, "dry_run": True}, _estimate(tokens, usd))
        return 0
    asked |= {name: how[name] for name in ("budget_usd", "budget_tokens")}
    found: Extracted = call.ask(lambda rowen: rowen.extract(address, **asked), gently=True)
    if call.out.json:
        from rowen.operations.facts import fact

        told = fact(found)
        call.out.emit(told if shown else {name: one for name, one in told.items() if name != "evidence"})
        return 0
    print_facts(call.out, found, form or "json")
    for one in found.evidence if shown else ():
        call.out.say(f"{one.path}: {one.found}" + (f" {one.quote!r} at {one.at}" if one.at >= 0 else ""))
    call.out.say(f"{found.schema} {_way(found)}")
    for remark in found.remarks:
        call.out.say(remark)
    return 0


def _way(found: "Extracted") -> str:
    if found.origin == "structured":
        return "from the page's own markup: no tokens."
    if found.origin == "rules":
        return "by rules: no tokens."
    if found.reused:
        return f"by {found.model}, answered before: no call; spared {count(found.tokens, 'token')}."
    price = f" ({found.usd:,.4f} USD)" if found.usd else ""
    return f"by {found.model}: {count(found.calls, 'call')}, {count(found.tokens, 'token')}{price}."


def _estimate(tokens: int, usd: float | None) -> str:
    if not tokens:
        return "no tokens: the answer is known"
    price = "at a price that is not known" if usd is None else f"about {usd:,.4f} USD"
    return f"about {count(tokens, 'token')}, {price}"


def _of_source(call: Invocation, source: str, how: dict[str, Any]) -> int:
    from rowen.operations.facts import fact

    given = [name for name in ("rules", "evidence", "form", *_OF_PAGE) if how.pop(name)]
    if given:
        names = ", ".join(_FLAGS.get(name, f"--{name.replace('_', '-')}") for name in given)
        raise click.UsageError(f"{names}: for one page. `rowen edit NAME` says how a source is extracted.")
    reports: list[ExtractionReport] = call.ask(partial(_asked, source=source, how=how), gently=True)
    for report in reports:
        call.out.answer(fact(report), (report.source, "bold"), f"  {report.schema}  {_line(report)}")
        if report.waits_for:
            call.out.say(f"{report.source}: {count(report.pending, 'item')} waiting: {report.waits_for}")
        for code, number in report.errors.items():
            call.out.say(f"{report.source}: {count(number, 'item')} failed ({code}).")
    if any(report.waits_for for report in reports):
        return WAITING
    return 3 if any(report.failed for report in reports) else 0


_FLAGS = {"rules": "--rule", "form": "--format", "fetch_limit_s": "--timeout", "model_limit_s": "--model-timeout"}


async def _asked(rowen: "Rowen", *, source: str, how: dict[str, Any]) -> "list[ExtractionReport]":
    return await rowen.extraction.extract_source(source, how.pop("schema"), **how)


def _line(report: "ExtractionReport") -> str:
    price = f" ({report.usd:,.4f} USD)" if report.usd else ""
    spent = f"{count(report.calls, 'call')}, {count(report.tokens, 'token')}{price}"
    if report.dry_run:
        known = f"; {report.avoided:,} known already" if report.avoided else ""
        return f"would be: about {spent} for {count(report.looked_at, 'item')}{known}"
    names = ("created", "changed", "same", "removed", "failed", "pending", "matched")
    counts = " · ".join(f"{number:,} {name}" for name in names if (number := getattr(report, name)))
    saved = f"; spared {count(report.avoided, 'call')}" if report.avoided else ""
    saved += f" of {count(report.avoided_tokens, 'token')}" if report.avoided_tokens else ""
    return f"{counts or 'nothing new'} — {spent} in {seconds(report.seconds)}{saved}"


def parse_budget(text: str | None) -> tuple[float | None, int | None]:
    """What may be spent: in US dollars, or in tokens."""
    if text is None:
        return None, None
    found = _BUDGET.fullmatch(text)
    if found is None:
        raise UsageError(f"{text!r} is no budget.", hint="Such as --budget 2usd or --budget 50000tokens.")
    amount, unit = float(found[1]), found[2].lower()
    if unit in ("usd", "$"):
        return amount, None
    return None, int(amount * (1000 if unit.startswith("k") else 1))


def parse_rules(pairs: tuple[str, ...]) -> dict[str, str]:
    """FIELD=SELECTOR, several of them."""
    rules = {}
    for pair in pairs:
        field, equals, place = pair.partition("=")
        if not (equals and field.strip() and place.strip()):
            raise UsageError(
                f"Rule {pair!r} is not of the form FIELD=SELECTOR.", hint="Such as 'price=.amount | number'."
            )
        rules[field.strip()] = place.strip()
    return rules


@command("costs")
@click.option("--since", type=SinceParam(), help="Since a date, or in the last 2h, 1d, 4w; default: 30 days.")
def costs(call: Invocation, since: Any) -> None:
    """Show what paid calls cost, and what was avoided."""
    if isinstance(since, int):
        raise click.UsageError("--since takes a date or a time that has passed, no change number.")
    wanted: datetime | timedelta = since or timedelta(days=30)
    found = call.ask(lambda rowen: rowen.status.costs(wanted))
    call.out.listing(
        found.lines,
        {
            "source": lambda one: (one.source or "—", "bold"),
            "for": lambda one: " ".join(filter(None, (one.purpose, one.subject))),
            "model": lambda one: one.model or "—",
            "calls": lambda one: f"{one.calls:,}" + (f" ({one.failed:,} failed)" if one.failed else ""),
            "tokens": lambda one: f"{one.tokens_sent + one.tokens_received:,}",
            "USD": lambda one: "unknown" if one.usd is None else f"{one.usd:,.4f}",
            "avoided": _avoided,
        },
        fact=lambda one: one._asdict(),
    )
    day = found.since.astimezone(UTC).date()
    call.out.say(f"Since {day}: {found.usd:,.4f} USD spent, about {found.avoided_usd:,.4f} USD avoided.")


def _avoided(one: "CostLine") -> str:
    return f"{count(one.avoided, 'call')}, {count(one.avoided_tokens, 'token')}" if one.avoided else "—"


COMMANDS = {"extract": extract, "costs": costs}
