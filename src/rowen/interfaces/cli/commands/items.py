"""get, diff, history."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from rowen.errors import UsageError
from rowen.interfaces.cli.command import command
from rowen.interfaces.cli.completing import source_names
from rowen.interfaces.cli.invocation import Invocation
from rowen.model.datasets import DATASET
from rowen.model.wording import count, moment

if TYPE_CHECKING:
    from rowen.model.changes import DiffForm, FieldChange, ItemDiff
    from rowen.model.datasets import TwinGroup
    from rowen.model.items import Entry, Revision
    from rowen.operations import Rowen

__all__ = ["COMMANDS"]

_source = click.option(
    "--source", metavar="NAME", shell_complete=source_names, help="Its copy in this source, where several have one."
)
_LINES = {"same": (" ", ""), "removed": ("-", "red"), "added": ("+", "green")}


@command("get")
@click.argument("url", metavar="URL|PATH")
@_source
def get(call: Invocation, url: str, source: str | None) -> None:
    """Print the text of one item, as Markdown."""
    from rowen.operations.facts import fact

    async def asked(rowen: "Rowen") -> tuple["Entry", "TwinGroup | None"]:
        return await rowen.get(url, source=source), await rowen.items.duplicates(url, source=source)

    entry, group = call.ask(asked)
    others = [member for member in group.members if member.id != entry.id] if group else []
    if call.out.json:
        listed = [{"source": other.source, "url": other.url} for other in others]
        call.out.emit({**fact(entry), "original": group.original.url if group else None, "also_listed_by": listed})
        return
    for line in _shown(entry):
        call.out.line(line)
    for remark in entry.remarks:
        call.out.say(remark)
    _say_withdrawn(call, entry)
    if group:
        listed_by = ", ".join(f"{other.source} ({other.url})" for other in others)
        original = "this one" if group.original.id == entry.id else f"that of {group.original.source}"
        call.out.say(f"Also listed by {listed_by}. The original is {original}.")


def _shown(entry: "Entry") -> Iterator[str]:
    """The text; of a dataset with its title before it, and behind it the addresses of its files."""
    files = entry.record.get("resources") if entry.media_type == DATASET else None
    if entry.media_type == DATASET:
        yield f"# {entry.title}\n"
    yield entry.text
    told = [file for file in files or () if isinstance(file, dict) and file.get("url")]
    if told:
        yield "\n## Files\n"
    for one in told:
        form = f" ({one['format']})" if one.get("format") else ""
        yield f"- {one.get('name') or 'file'}{form}: {one['url']}"


@command("diff")
@click.argument("url", metavar="URL|PATH")
@_source
@click.option(
    "--from", "older", type=click.IntRange(min=0), metavar="N", help="Older revision; default: the one before."
)
@click.option("--to", "newer", type=click.IntRange(min=1), metavar="N", help="Newer revision; default: the last.")
@click.option("--html", is_flag=True, help="Print it as a fragment of HTML, with the words that differ marked.")
@click.option("--fields", is_flag=True, help="What last changed in its record instead, field by field.")
@click.option("--schema", metavar="NAME", help="What last changed in its facts under this schema, field by field.")
def diff(
    call: Invocation,
    url: str,
    source: str | None,
    older: int | None,
    newer: int | None,
    html: bool,
    fields: bool,
    schema: str | None,
) -> None:
    """Show what changed between two texts of an item, by line and word, or in its record."""
    if fields or schema is not None:
        if older is not None or newer is not None:
            raise UsageError("--from and --to number texts: records and facts are compared with the ones before.")
        return _diff_fields(call, url, source, schema, html=html)

    async def asked(rowen: "Rowen") -> tuple["ItemDiff", str, "Entry"]:
        found = await rowen.items.compare(url, source=source, older=older, newer=newer)
        form: DiffForm = "html" if html else "unified"
        text = await rowen.items.diff(url, source=source, older=found.older, newer=found.newer, form=form)
        return found, text, await rowen.get(url, source=source)

    found, text, entry = call.ask(asked)
    if call.out.json:
        _emit_diff(call, url, found, text, entry)
        return None
    _say_withdrawn(call, entry)
    if call.out.terminal and not html:
        _draw_diff(call, found)
    else:
        for line in text.splitlines():
            call.out.line(line)
    if not found.older:
        call.out.say("This is its first text: all of it is new.")
    elif not found.hunks:
        call.out.say(f"The texts of revisions {found.older} and {found.newer} are the same; title or tags differ.")
    return None


def _diff_fields(call: Invocation, url: str, source: str | None, schema: str | None, *, html: bool) -> None:
    from rowen.operations.facts import fact

    if html and not call.out.json:
        text = call.ask(lambda rowen: rowen.items.diff_fields(url, source=source, schema=schema, form="html"))
        for line in text.splitlines():
            call.out.line(line)
        return
    found = call.ask(lambda rowen: rowen.items.compare_fields(url, source=source, schema=schema))
    if call.out.json:
        call.out.emit(fact(found))
        return
    call.out.line((f"{found.of} of {moment(found.older_at)} → {moment(found.newer_at)}", "dim"))
    for change in found.fields:
        _draw_field(call, change)


def _emit_diff(call: Invocation, url: str, found: "ItemDiff", text: str, entry: "Entry") -> None:
    from rowen.operations.facts import fact

    call.out.emit({**fact(found), "url": url, "diff": text, "withdrawn_at": entry.withdrawn_at})


def _draw_diff(call: Invocation, found: "ItemDiff") -> None:
    call.out.line((f"revision {found.older} → revision {found.newer}", "dim"))
    for number, hunk in enumerate(found.hunks):
        if number:
            call.out.line(("…", "dim"))
        for line in hunk.lines:
            mark, style = _LINES[line.kind]
            pieces = [(piece.text, f"{style} reverse" if piece.changed and style else style) for piece in line.pieces]
            whole = len(pieces) == 1
            call.out.line((mark, style), *([(line.text, style)] if whole else pieces))


@command("history")
@click.argument("url", metavar="URL|PATH")
@_source
@click.option("--schema", metavar="NAME", help="The facts that it had under this schema, and what changed, instead.")
def history(call: Invocation, url: str, source: str | None, schema: str | None) -> None:
    """List all texts that an item had, or all facts."""
    from rowen.operations.facts import fact

    if schema is not None:
        return _facts(call, url, schema, source)

    async def asked(rowen: "Rowen") -> tuple["Entry", list["Revision"]]:
        return await rowen.get(url, source=source), await rowen.items.history(url, source=source)

    entry, found = call.ask(asked)
    call.out.listing(
        found,
        {
            "revision": lambda revision: str(revision.number),
            "since": lambda revision: moment(revision.at),
            "length": lambda revision: count(len(revision.text), "character"),
            "title": lambda revision: (revision.title, "bold"),
        },
        fact=lambda revision: {
            "url": url,
            **fact(revision),
            "current": revision is found[-1],
            "withdrawn_at": entry.withdrawn_at,
        },
    )
    _say_withdrawn(call, entry)
    if len(found) > 1:
        call.out.say(f"`rowen diff {url}` shows the last difference.")
    return None


def _facts(call: Invocation, url: str, schema: str, source: str | None) -> None:
    from rowen.operations.facts import fact

    found = call.ask(lambda rowen: rowen.extraction.history(url, schema, source=source))
    if call.out.json:
        for one in found:
            call.out.emit(fact(one))
        return
    for one in found:
        by = one.model or one.origin
        checked = f", found again {count(one.checks, 'time')}" if one.checks else ""
        call.out.line((f"version {one.number}", "bold"), f"\t{moment(one.at)}\t{one.schema}\tby {by}{checked}")
        for change in one.diff:
            _draw_field(call, change)


def _draw_field(call: Invocation, change: "FieldChange") -> None:
    sign, style = {"added": ("+", "green"), "removed": ("-", "red")}.get(change.op, ("~", "yellow"))
    before = f"{_value(change.before)} → " if change.op == "changed" else ""
    value = _value(change.before if change.op == "removed" else change.after)
    call.out.line((f"  {sign} {change.path or '/'}", style), f"\t{before}{value}")


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _say_withdrawn(call: Invocation, entry: "Entry") -> None:
    if entry.withdrawn_at is not None:
        call.out.say(f"Withdrawn on {moment(entry.withdrawn_at)}: this is the last copy of what {entry.source} had.")


COMMANDS = {"get": get, "diff": diff, "history": history}
