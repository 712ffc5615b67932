"""Commands that add or change sources: add, edit, apply."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import click
from msgspec import Meta

from rowen.errors import UsageError
from rowen.interfaces.cli.command import command, completing, options_of, source_argument
from rowen.interfaces.cli.commands.extraction import parse_rules
from rowen.interfaces.cli.commands.sources import print_source, schedule_in_words
from rowen.interfaces.cli.invocation import Invocation
from rowen.model.wording import count
from rowen.operations.parameters import Conditions, GroundingMode, UrlPatterns
from rowen.operations.validation import check_options

if TYPE_CHECKING:
    from rowen.model.sources import AppliedSource, Source
    from rowen.operations import Rowen

SCHEDULE = ("every", "cron", "tz", "during")

_STYLES = {"added": "green", "changed": "yellow", "paused": "yellow", "resumed": "green", "removed": "red"}

_option = click.option(
    "--option",
    "options",
    multiple=True,
    shell_complete=completing("option_names"),
    metavar="KEY=VALUE",
    help="An option of its kind; may be repeated.",
)


class _Attachment(TypedDict):
    conditions: Conditions
    only_urls: UrlPatterns
    learn: Annotated[bool, Meta(description="Let a model find rules once.")]
    grounding: GroundingMode


def _attaching(function: Any) -> Any:
    """Add the options that attach schemas to a source."""
    attached = options_of(
        _Attachment,
        conditions={"flag": "--when", "help": "Log a change when this becomes true: price<100; may be repeated."},
        learn={"default": None},
    )
    rules = click.option("--rule", "rules", multiple=True, metavar="FIELD=SELECTOR", help="Where a field is in a page.")
    schemas = click.option(
        "--schema", "schemas", multiple=True, metavar="NAME@V", help="Extract facts of this schema; may be repeated."
    )
    return schemas(rules(attached(function)))


def _attachments(options: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the schemas to attach with their settings; conditions and rules are allowed for a single schema only."""
    how = {
        "grounding": options["grounding"],
        "learn": options["learn"],
        "conditions": options["conditions"] or None,
        "rules": parse_rules(options["rules"]) or None,
        "only_urls": options["only_urls"] or None,
    }
    if any(value is not None for value in how.values()) and len(options["schemas"]) != 1:
        raise UsageError("--when, --only-urls, --rule, --learn and --grounding need exactly one --schema.")
    return [(schema, how) for schema in options["schemas"]]


@command("add")
@click.argument("address", metavar="URL|PATH")
@options_of("sources.add", only=("kind", "name"))
@_option
@options_of("sources.add", only=SCHEDULE)
@_attaching
def add(
    call: Invocation, address: str, kind: str | None, name: str | None, options: tuple[str, ...], **more: Any
) -> None:
    """Add a source: a folder, site, repository, package, catalog or feed.

    The kind is detected from the address; a site is probed for a catalog. With a schedule, `rowen worker` keeps the
    source fresh.
    """
    parsed, when, attachments = _parse_options(options), {name: more[name] for name in SCHEDULE}, _attachments(more)
    check_options(address, kind, parsed, probes=call.settings.probe)

    async def answer(rowen: Rowen) -> Source:
        for schema, _ in attachments:
            await rowen.schemas.get(schema)
        source = await rowen.sources.add(
            address, name=name, kind=kind, options=parsed, found=lambda what: call.out.say(what.words), **when
        )
        for schema, how in attachments:
            await rowen.extraction.attach(source.name, schema, **how)
        return source

    source = call.ask(answer)
    print_source(call, source, "added")
    if source.schedule:
        call.out.say(
            f"Schedule: {schedule_in_words(source)}. `rowen worker` keeps it; `rowen sync {source.name}` reads it now."
        )
    else:
        call.out.say(f"Next: `rowen sync {source.name}` reads it for the first time.")


@command("edit")
@source_argument()
@options_of("sources.edit", only=("rename",), rename={"help": "New name of the source."})
@_option
@click.option("--reset", multiple=True, metavar="KEY", help="Reset an option to its default; may be repeated.")
@options_of("sources.edit", only=SCHEDULE)
@_attaching
@click.option("--drop-schema", "dropped", multiple=True, metavar="NAME", help="Detach a schema; may be repeated.")
def edit(
    call: Invocation,
    name: str,
    rename: str | None,
    options: tuple[str, ...],
    reset: tuple[str, ...],
    dropped: tuple[str, ...],
    **more: Any,
) -> None:
    """Change a source's name, options, schedule or schemas."""
    when, attachments = {name: more[name] for name in SCHEDULE}, _attachments(more)
    is_scheduled = any(value is not None for value in when.values())
    if not (rename or options or reset or is_scheduled or attachments or dropped):
        hint = "Give --rename, --option, --reset, --every, --cron or --schema."
        raise UsageError("Nothing to change was given.", hint=hint)
    parsed = {**_parse_options(options), **dict.fromkeys(reset)}

    async def answer(rowen: Rowen) -> Source:
        for schema, how in attachments:
            await rowen.extraction.attach(name, schema, **how)
        for schema in dropped:
            await rowen.extraction.detach(name, schema)
        return await rowen.sources.edit(name, rename=rename, options=parsed, **when)

    source = call.ask(answer)
    print_source(call, source, "changed")
    if is_scheduled:
        words = f"Schedule: {schedule_in_words(source)}. `rowen worker` keeps it."
        call.out.say(words if source.schedule else "It has no schedule now.")
    if attachments:
        call.out.say(f"Next: `rowen sync {source.name}` extracts these facts.")
    if options or reset:
        call.out.say(f"Next: `rowen sync {source.name}` reads it under the new options.")


def _parse_options(pairs: Sequence[str]) -> dict[str, Any]:
    """Parse KEY=VALUE pairs; a value that is not JSON is text."""
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (equals and key.strip()):
            raise UsageError(f"Option {pair!r} is not of the form KEY=VALUE.", hint="Such as --option include='*.md'.")
        try:
            options[key.strip()] = json.loads(value)
        except ValueError:
            options[key.strip()] = value
    return options


@command("apply")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@options_of("sources.apply")
def apply(call: Invocation, path: Path, dry_run: bool, prune: bool, trust: bool) -> None:
    """Make the sources match a file that declares them."""
    applied = call.ask(lambda rowen: rowen.sources.apply(path, dry_run=dry_run, prune=prune, trust=trust))
    for source in applied:
        if call.out.json:
            call.out.emit(source, dry_run=dry_run)
        elif source.action != "unchanged":
            style = _STYLES.get(source.action, "")
            call.out.line((source.source, "bold"), "\t", (source.action, style), f"\t{_difference(source)}")
    counts = Counter(source.action for source in applied)
    summary = ", ".join(f"{number:,} {action}" for action, number in counts.most_common()) or "no sources"
    if dry_run:
        call.out.say(f"Would be: {summary}. Nothing was written.")
    else:
        following = " Next: `rowen sync`." if counts["added"] or counts["resumed"] else ""
        call.out.say(f"{summary[0].upper()}{summary[1:]}.{following}")
    if any(source.schedule for source in applied):
        call.out.say("`rowen worker` keeps the schedules while it runs.")


def _difference(source: AppliedSource) -> str:
    match source.action:
        case "changed":
            changes = source.changes.items()
            return ", ".join(f"{name}: {_value(before)} → {_value(after)}" for name, (before, after) in changes)
        case "removed":
            return f"{source.kind}\t{source.url}\t{count(source.items, 'item')}"
    difference = f"{source.kind}\t{source.url}" + ("\tpaused" if "state" in source.changes else "")
    if "schemas" in source.changes:
        difference += f"\tschemas: {_value(source.changes['schemas'][1])}"
    return difference


def _value(value: Any) -> str:
    return "default" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


COMMANDS = {"add": add, "edit": edit, "apply": apply}
