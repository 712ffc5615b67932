"""add, sources, show, edit, pause, resume, remove."""

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from rowen.errors import RefusedError, UsageError
from rowen.interfaces.cli.command import command, options_of
from rowen.interfaces.cli.completing import option_names, source_names
from rowen.interfaces.cli.invocation import Invocation
from rowen.model.wording import age, count, moment, seconds

if TYPE_CHECKING:
    from rowen.model.rdf import StatementTarget
    from rowen.model.sources import Following, Source
    from rowen.operations import Rowen

__all__ = ["COMMANDS"]

_option = click.option(
    "--option",
    "options",
    multiple=True,
    shell_complete=option_names,
    metavar="KEY=VALUE",
    help="An option of its kind; may be repeated.",
)

SCHEDULE = ("every", "cron", "tz", "during")

# Three lines of a terminal: addresses and patterns fit.
LONGEST_OPTION = 240


def _times(given: dict[str, Any]) -> dict[str, Any]:
    """The options of a schedule among those of a command."""
    return {name: given[name] for name in SCHEDULE}


def _carrying(function: Any) -> Any:
    """The options by which a source carries schemas."""
    kinds = click.Choice(["off", "warn", "null", "fail"])
    options = (
        click.option("--schema", "schemas", multiple=True, metavar="NAME@V", help="Extract these facts of its items."),
        click.option("--when", multiple=True, metavar="CONDITION", help="Tell when this comes true: price<100."),
        click.option("--only-urls", multiple=True, metavar="PATTERN", help="Only of items at these URLs: '*/lamps/*'."),
        click.option("--rule", "rules", multiple=True, metavar="FIELD=SELECTOR", help="Where a field stands."),
        click.option("--learn", is_flag=True, default=None, help="Find rules once by a model, then use them."),
        click.option("--grounding", type=kinds, help="What becomes of facts that are not in the text."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def _carried(facts: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The schemas to carry, with how; conditions and rules go with one schema alone."""
    from rowen.interfaces.cli.commands.extract import parse_rules

    schemas = facts["schemas"]
    how = {"grounding": facts["grounding"], "learn": facts["learn"]}
    how |= {"conditions": facts["when"] or None, "rules": parse_rules(facts["rules"]) or None}
    how["only_urls"] = facts["only_urls"] or None
    if any(value is not None for value in how.values()) and len(schemas) != 1:
        raise UsageError("--when, --only-urls, --rule, --learn and --grounding go with one --schema.")
    return [(schema, how) for schema in schemas]


@command("add")
@click.argument("address", metavar="URL|PATH")
@options_of("sources.add", only=("kind", "name"))
@_option
@options_of("sources.add", only=SCHEDULE)
@_carrying
def add(
    call: Invocation, address: str, kind: str | None, name: str | None, options: tuple[str, ...], **more: Any
) -> None:
    """Keep a copy of something from now on.

    The address tells the kind. One that may be any site's is asked whether it is a catalog. With a schedule,
    `rowen worker` keeps it fresh.
    """
    from rowen.operations.validation import check_options

    wanted, when, carried = parse_options(options), _times(more), _carried(more)
    check_options(address, kind, wanted, probes=call.settings.probe)

    async def asked(rowen: "Rowen") -> "Source":
        for schema, _ in carried:
            await rowen.schemas.get(schema)
        found = await rowen.sources.add(
            address, name=name, kind=kind, options=wanted, found=lambda what: call.out.say(what.words), **when
        )
        for schema, how in carried:
            await rowen.extraction.attach(found.name, schema, **how)
        return found

    source = call.ask(asked)
    _answer(call, source, "added")
    if source.schedule:
        call.out.say(f"Schedule: {_words(source)}. `rowen worker` keeps it; `rowen sync {source.name}` reads it now.")
    else:
        call.out.say(f"Next: `rowen sync {source.name}` reads it for the first time.")


@command("sources")
def sources(call: Invocation) -> None:
    """List all sources."""
    found = call.ask(lambda rowen: rowen.sources.list())
    now = datetime.now(UTC)
    call.out.listing(
        found,
        {
            "name": lambda source: (source.name, "bold"),
            "kind": lambda source: source.kind,
            "state": lambda source: source.state,
            "items": lambda source: str(source.items),
            "last run": lambda source: age(source.last_run_at, now),
            "next": lambda source: _next(source, now, exact=not call.out.terminal),
            "schedule": _words,
            "url": lambda source: source.url,
        },
    )
    if not found:
        call.out.say("There are no sources yet. `rowen add ./folder` keeps a copy of one.")


@command("show")
@click.argument("name", shell_complete=source_names)
def show(call: Invocation, name: str) -> None:
    """Show all that is known of one source."""
    from rowen.interfaces.cli.commands.statements import follow_up
    from rowen.net.credentials import shown
    from rowen.operations.facts import fact

    async def asked(rowen: "Rowen") -> tuple["Source", "Following | None", list["StatementTarget"]]:
        return await rowen.sources.get(name), await rowen.sources.following(name), await rowen.rdf.list_endpoints(name)

    source, following, endpoints = call.ask(asked)
    options = {f"option {key}": _option_told(value) for key, value in shown(source.options).items()}
    lines = {
        "name": source.name,
        "kind": source.kind,
        "url": source.url,
        "state": source.state,
        **options,
        "schedule": f"{_words(source)} ({source.schedule})" if source.schedule else "none",
        **({"next": f"{moment(source.due_at)} ({_next(source, datetime.now(UTC))})"} if source.due_at else {}),
        **({"failures in a row": str(source.failures)} if source.failures else {}),
        **({"failing since": moment(source.failing_since)} if source.failing_since else {}),
        **({"version": source.version} if source.version else {}),
        "items": str(source.items),
        "deletions held": str(source.deletions_held),
        "added": moment(source.created_at),
        "last run": moment(source.last_run_at),
        "last seen whole": moment(source.last_complete_at),
        **({"beyond the limit": f"{source.truncated:,} or more"} if source.truncated else {}),
        **(_followed(following) if following else {}),
        **{f"endpoint {endpoint.endpoint}": follow_up(endpoint) for endpoint in endpoints},
    }
    told = {**fact(source), **({"following": fact(following)} if following else {})}
    call.out.card({**told, **({"endpoints": [fact(endpoint) for endpoint in endpoints]} if endpoints else {})}, lines)


def _option_told(value: Any) -> str:
    """An option as JSON; of one that is a whole file, such as shapes, the beginning."""
    told = json.dumps(value, ensure_ascii=False)
    return told if len(told) <= LONGEST_OPTION else f"{told[:LONGEST_OPTION]}… ({count(len(told), 'character')})"


def _followed(following: "Following") -> dict[str, str]:
    """How a feed or a stream is followed."""
    lines = {
        "feed": following.state,
        "last poll": moment(following.last_poll_at) if following.last_poll_at else None,
        "next poll": moment(following.next_poll_at) if following.next_poll_at else None,
        "last new member": moment(following.last_new_at),
        "latest time told": following.last_member_at,
        "pages read": following.pages,
        "pages that never change": following.pages_immutable,
        "pages not read yet": following.backlog or None,
        "members seen": following.members,
        "wants to be asked every": f"{following.polling_s:.0f} s" if following.polling_s is not None else None,
        "hubs": ", ".join(following.hubs),
        "last error": following.last_error,
    }
    return {name: str(value) for name, value in lines.items() if value not in (None, "")}


@command("edit")
@click.argument("name", shell_complete=source_names)
@options_of("sources.edit", only=("rename",), rename={"help": "New name of the source."})
@_option
@click.option("--reset", multiple=True, metavar="KEY", help="Set an option back to its default; may be repeated.")
@options_of("sources.edit", only=SCHEDULE)
@_carrying
@click.option("--drop-schema", "dropped", multiple=True, metavar="NAME", help="Carry this schema no longer.")
def edit(
    call: Invocation,
    name: str,
    rename: str | None,
    options: tuple[str, ...],
    reset: tuple[str, ...],
    dropped: tuple[str, ...],
    **more: Any,
) -> None:
    """Change a source's name, options or schedule, or what facts are extracted from it."""
    when, carried = _times(more), _carried(more)
    timed = any(value is not None for value in when.values())
    if not (rename or options or reset or timed or carried or dropped):
        hint = "Give --rename, --option, --reset, --every, --cron or --schema."
        raise UsageError("Nothing to change was given.", hint=hint)
    wanted = {**parse_options(options), **dict.fromkeys(reset)}

    async def asked(rowen: "Rowen") -> "Source":
        for schema, how in carried:
            await rowen.extraction.attach(name, schema, **how)
        for schema in dropped:
            await rowen.extraction.detach(name, schema)
        return await rowen.sources.edit(name, rename=rename, options=wanted, **when)

    source = call.ask(asked)
    _answer(call, source, "changed")
    if timed:
        kept = f"Schedule: {_words(source)}. `rowen worker` keeps it."
        told = kept if source.schedule else "It has no schedule now."
        call.out.say(told)
    if carried:
        call.out.say(f"Next: `rowen sync {source.name}` reads it for these facts.")
    if options or reset:
        call.out.say(f"Next: `rowen sync {source.name}` reads it under the new options.")


@command("pause")
@click.argument("name", shell_complete=source_names)
def pause(call: Invocation, name: str) -> None:
    """Leave a source out of sync until it is resumed."""

    async def asked(rowen: "Rowen") -> "Source":
        await rowen.sources.pause(name)
        return await rowen.sources.get(name)

    _answer(call, call.ask(asked), "paused")
    call.out.say(f"`rowen resume {name}` takes it in again; what is stored can still be found.")


@command("resume")
@click.argument("name", shell_complete=source_names)
def resume(call: Invocation, name: str) -> None:
    """Take a paused source in again."""

    async def asked(rowen: "Rowen") -> "Source":
        await rowen.sources.resume(name)
        return await rowen.sources.get(name)

    _answer(call, call.ask(asked), "active")
    call.out.say(f"Next: `rowen sync {name}`.")


@command("remove")
@click.argument("name", shell_complete=source_names)
@click.option("--yes", is_flag=True, help="Do not ask.")
def remove(call: Invocation, name: str, yes: bool) -> None:
    """Forget a source with all its items."""
    if not yes:
        source = call.ask(lambda rowen: rowen.sources.get(name))
        _confirm(f"Remove {name!r} and its {count(source.items, 'item')} from the index?")
    removed = call.ask(lambda rowen: rowen.sources.remove(name))
    call.out.answer({"source": name, "removed": removed}, f"{name} removed, with {count(removed, 'item')}")


def parse_options(pairs: Sequence[str]) -> dict[str, Any]:
    """KEY=VALUE, where a value that is JSON is taken as such, and anything else as text."""
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (equals and key.strip()):
            raise UsageError(f"Option {pair!r} is not of the form KEY=VALUE.", hint="Such as --option include='*.md'.")
        options[key.strip()] = _value(value)
    return options


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _confirm(question: str) -> None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise RefusedError("Without a terminal nobody can be asked. Nothing was removed.", hint="Say it with --yes.")
    if not click.confirm(question, err=True):
        raise RefusedError("Nothing was removed.")


def _words(source: "Source") -> str:
    """The schedule as people say it."""
    if not source.schedule:
        return ""
    from rowen.model.schedules import Schedule

    return Schedule.parse(source.schedule).words()


def _next(source: "Source", now: datetime, *, exact: bool = False) -> str:
    """When a source is looked at next, without anybody asking."""
    if source.due_at is None or source.state == "paused":
        return ""
    if exact:
        return moment(source.due_at)
    late_s = (now - source.due_at).total_seconds()
    return "due" if late_s >= 0 else f"in {seconds(-late_s)}"


def _answer(call: Invocation, source: "Source", became: str) -> None:
    from rowen.operations.facts import fact

    call.out.answer(fact(source), (source.name, "bold"), f"\t{became}\t{source.kind}\t{source.url}")


COMMANDS = {
    "add": add,
    "sources": sources,
    "show": show,
    "edit": edit,
    "pause": pause,
    "resume": resume,
    "remove": remove,
}
