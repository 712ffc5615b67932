"""add, sources, show, edit, pause, resume, remove."""

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from rowen.cli.command import command
from rowen.cli.invocation import Invocation
from rowen.errors import RefusedError, UsageError
from rowen.model.wording import age, count, moment

if TYPE_CHECKING:
    from rowen.model.source import Source
    from rowen.service import Rowen

__all__ = ["COMMANDS"]

_option = click.option(
    "--option", "options", multiple=True, metavar="KEY=VALUE", help="An option of its kind; may be repeated."
)


@command("add")
@click.argument("address", metavar="URL|PATH")
@click.option("--kind", help="The kind of source, where the address does not tell.")
@click.option("--name", help="Its name from now on; default: made from the address.")
@_option
def add(call: Invocation, address: str, kind: str | None, name: str | None, options: tuple[str, ...]) -> None:
    """Keep a copy of something from now on.

    The address tells the kind. One that may be any site's is asked whether it is a catalog.
    """
    from rowen.cli.found import found_words

    wanted = parse_options(options)
    source = call.ask(
        lambda rowen: rowen.add(
            address, name=name, kind=kind, options=wanted, found=lambda what: call.out.say(found_words(what))
        )
    )
    _answer(call, source, "added")
    call.out.say(f"Next: `rowen sync {source.name}` reads it for the first time.")


@command("sources")
def sources(call: Invocation) -> None:
    """List all sources."""
    from rowen.service.facts import fact

    found = call.ask(lambda rowen: rowen.sources())
    now = datetime.now(UTC)
    call.out.listing(
        found,
        {
            "name": lambda source: (source.name, "bold"),
            "kind": lambda source: source.kind,
            "state": lambda source: source.state,
            "items": lambda source: str(source.items),
            "last run": lambda source: age(source.last_run_at, now),
            "url": lambda source: source.url,
        },
        fact=fact,
    )
    if not found:
        call.out.say("There are no sources yet. `rowen add ./folder` keeps a copy of one.")


@command("show")
@click.argument("name")
def show(call: Invocation, name: str) -> None:
    """Show all that is known of one source."""
    from rowen.fetch.credentials import shown
    from rowen.service.facts import fact

    source = call.ask(lambda rowen: rowen.source(name))
    options = {f"option {key}": json.dumps(value, ensure_ascii=False) for key, value in shown(source.options).items()}
    lines = {
        "name": source.name,
        "kind": source.kind,
        "url": source.url,
        "state": source.state,
        **options,
        **({"schedule": source.schedule} if source.schedule else {}),
        **({"version": source.version} if source.version else {}),
        "items": str(source.items),
        "deletions held": str(source.deletions_held),
        "added": moment(source.created_at),
        "last run": moment(source.last_run_at),
        "last seen whole": moment(source.last_complete_at),
    }
    call.out.card(fact(source), lines)


@command("edit")
@click.argument("name")
@click.option("--rename", metavar="NEW", help="A new name.")
@_option
@click.option("--reset", multiple=True, metavar="KEY", help="Set an option back to its default; may be repeated.")
def edit(call: Invocation, name: str, rename: str | None, options: tuple[str, ...], reset: tuple[str, ...]) -> None:
    """Change a source's name or options."""
    if not (rename or options or reset):
        raise UsageError("Nothing to change was given.", hint="Give --rename, --option or --reset.")
    wanted = {**parse_options(options), **dict.fromkeys(reset)}
    source = call.ask(lambda rowen: rowen.edit(name, rename=rename, options=wanted))
    _answer(call, source, "changed")
    if options or reset:
        call.out.say(f"Next: `rowen sync {source.name}` reads it under the new options.")


@command("pause")
@click.argument("name")
def pause(call: Invocation, name: str) -> None:
    """Leave a source out of sync until it is resumed."""

    async def asked(rowen: "Rowen") -> "Source":
        await rowen.pause(name)
        return await rowen.source(name)

    _answer(call, call.ask(asked), "paused")
    call.out.say(f"`rowen resume {name}` takes it in again; what is stored can still be found.")


@command("resume")
@click.argument("name")
def resume(call: Invocation, name: str) -> None:
    """Take a paused source in again."""

    async def asked(rowen: "Rowen") -> "Source":
        await rowen.resume(name)
        return await rowen.source(name)

    _answer(call, call.ask(asked), "active")
    call.out.say(f"Next: `rowen sync {name}`.")


@command("remove")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
def remove(call: Invocation, name: str, yes: bool) -> None:
    """Forget a source with all its items."""
    if not yes:
        source = call.ask(lambda rowen: rowen.source(name))
        _confirm(f"Remove {name!r} and its {count(source.items, 'item')} from the index?")
    removed = call.ask(lambda rowen: rowen.remove(name))
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


def _answer(call: Invocation, source: "Source", became: str) -> None:
    from rowen.service.facts import fact

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
