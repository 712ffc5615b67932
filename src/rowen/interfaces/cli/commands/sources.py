"""Commands on existing sources: sources, show, pause, resume, remove, announced."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from rowen.errors import RefusedError
from rowen.interfaces.cli.command import command, options_of, source_argument
from rowen.interfaces.cli.commands.statements import endpoint_status
from rowen.interfaces.cli.invocation import Invocation
from rowen.interfaces.cli.output import fact_of
from rowen.model.wording import age, count, moment, seconds

if TYPE_CHECKING:
    from rowen.model.rdf import StatementTarget
    from rowen.model.sources import Following, Source
    from rowen.operations import Rowen

# Three lines of a terminal, enough for addresses and patterns.
LONGEST_OPTION = 240

_OUTCOMES = {"stored": "green", "waiting": "yellow", "failed": "bold red"}


@command("sources")
def sources(call: Invocation) -> None:
    """List all sources."""
    listed = call.ask(lambda rowen: rowen.sources.list())
    now = datetime.now(UTC)
    call.out.listing(
        listed,
        {
            "name": lambda source: (source.name, "bold"),
            "kind": lambda source: source.kind,
            "state": lambda source: source.state,
            "items": lambda source: str(source.items),
            "last run": lambda source: age(source.last_run_at, now),
            "next": lambda source: _next_run(source, now) if call.out.terminal else _due_at(source),
            "schedule": schedule_in_words,
            "url": lambda source: source.url,
        },
    )
    if not listed:
        call.out.say("There are no sources yet. `rowen add ./folder` adds one.")


@command("show")
@source_argument()
def show(call: Invocation, name: str) -> None:
    """Show one source in full."""

    async def answer(rowen: Rowen) -> tuple[Source, Following | None, list[StatementTarget]]:
        return await rowen.sources.get(name), await rowen.sources.following(name), await rowen.rdf.list_endpoints(name)

    source, following, endpoints = call.ask(answer)
    if call.out.json:
        more = {"following": fact_of(following)} if following else {}
        if endpoints:
            more["endpoints"] = [fact_of(endpoint) for endpoint in endpoints]  # type: ignore[assignment]
        call.out.emit(source, **more)
        return
    schedule = f"{schedule_in_words(source)} ({source.schedule})" if source.schedule else "none"
    lines = {
        "name": source.name,
        "kind": source.kind,
        "url": source.url,
        "state": source.state,
        **{f"option {key}": _option_in_words(value) for key, value in fact_of(source)["options"].items()},
        "schedule": schedule,
        "next": f"{moment(source.due_at)} ({_next_run(source, datetime.now(UTC))})" if source.due_at else None,
        "failures in a row": source.failures or None,
        "failing since": moment(source.failing_since) if source.failing_since else None,
        "version": source.version,
        "items": source.items,
        "pending deletions": source.deletions_held,
        "added": moment(source.created_at),
        "last run": moment(source.last_run_at),
        "last complete run": moment(source.last_complete_at),
        "beyond the limit": f"{source.truncated:,} or more" if source.truncated else None,
    }
    if following:
        lines |= {
            "feed": following.state,
            "last poll": moment(following.last_poll_at) if following.last_poll_at else None,
            "next poll": moment(following.next_poll_at) if following.next_poll_at else None,
            "last new member": moment(following.last_new_at),
            "latest member": following.last_member_at,
            "pages read": following.pages,
            "pages that never change": following.pages_immutable,
            "pages not read yet": following.backlog or None,
            "members seen": following.members,
            "polling interval": f"{following.polling_s:.0f} s" if following.polling_s is not None else None,
            "hubs": ", ".join(following.hubs),
            "last error": following.last_error,
        }
    lines |= {f"endpoint {endpoint.endpoint}": endpoint_status(endpoint) for endpoint in endpoints}
    call.out.card(source, {name: str(value) for name, value in lines.items() if value not in (None, "")})


def _option_in_words(value: Any) -> str:
    """Return an option as JSON; if the option is a whole file, such as shapes, return the beginning."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_OPTION else f"{text[:LONGEST_OPTION]}… ({count(len(text), 'character')})"


@command("pause")
@source_argument()
def pause(call: Invocation, name: str) -> None:
    """Exclude a source from sync until it is resumed."""

    async def answer(rowen: Rowen) -> Source:
        await rowen.sources.pause(name)
        return await rowen.sources.get(name)

    print_source(call, call.ask(answer), "paused")
    call.out.say(f"`rowen resume {name}` includes it again. Its items can still be found.")


@command("resume")
@source_argument()
def resume(call: Invocation, name: str) -> None:
    """Include a paused source again."""

    async def answer(rowen: Rowen) -> Source:
        await rowen.sources.resume(name)
        return await rowen.sources.get(name)

    print_source(call, call.ask(answer), "active")
    call.out.say(f"Next: `rowen sync {name}`.")


@command("remove")
@source_argument()
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def remove(call: Invocation, name: str, yes: bool) -> None:
    """Delete a source with all its items."""
    if not yes:
        source = call.ask(lambda rowen: rowen.sources.get(name))
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise RefusedError("Removing takes a confirmation. Nothing was removed.", hint="Confirm it with --yes.")
        if not click.confirm(f"Remove {name!r} and its {count(source.items, 'item')} from the index?", err=True):
            raise RefusedError("Nothing was removed.")
    removed = call.ask(lambda rowen: rowen.sources.remove(name))
    call.out.answer({"source": name, "removed": removed}, f"{name} removed, with {count(removed, 'item')}")


@command("announced")
@source_argument(metavar="SOURCE")
@options_of("sources.announcements", outcome={"metavar": "OUTCOME"})
def announced(call: Invocation, name: str, outcome: str | None, limit: int) -> None:
    """List the documents that a feed announced, with jobs and outcomes."""
    documents = call.ask(lambda rowen: rowen.sources.announcements(name, outcome=outcome, limit=limit))
    call.out.listing(
        documents,
        {
            "announced": lambda document: document.announced_at,
            "outcome": lambda document: (
                f"{document.outcome}: {document.why}" if document.why else document.outcome,
                _OUTCOMES.get(document.outcome, ""),
            ),
            "run": lambda document: str(document.run or ""),
            "job": lambda document: str(document.job or ""),
            "document": lambda document: document.location,
        },
    )
    counts = call.ask(lambda rowen: rowen.sources.count_announcements(name))
    summary = " · ".join(f"{number:,} {outcome}" for outcome, number in sorted(counts.items()))
    call.out.say(summary or "Nothing was announced yet. Sync the feed first, then its documents.")


def print_source(call: Invocation, source: Source, state: str) -> None:
    """Print a source on a line with its new state."""
    call.out.answer(source, (source.name, "bold"), f"\t{state}\t{source.kind}\t{source.url}")


def schedule_in_words(source: Source) -> str:
    """Return the schedule of a source in words; empty without one."""
    if not source.schedule:
        return ""
    # This import loads time zones, which a list without schedules does not need.
    from rowen.model.schedules import Schedule

    return Schedule.parse(source.schedule).words()


def _due_at(source: Source) -> str:
    return moment(source.due_at) if source.due_at and source.state != "paused" else ""


def _next_run(source: Source, now: datetime) -> str:
    if source.due_at is None or source.state == "paused":
        return ""
    late_s = (now - source.due_at).total_seconds()
    return "due" if late_s >= 0 else f"in {seconds(-late_s)}"


COMMANDS = {
    "sources": sources,
    "show": show,
    "pause": pause,
    "resume": resume,
    "remove": remove,
    "announced": announced,
}
